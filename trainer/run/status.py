"""`status.json`: where a run stands. Replaced atomically by the worker, read by anyone."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict

from trainwright.trainer.run.process import ProcessIdentity


class RunState(StrEnum):
    """The life of a run. `interrupted` is never written: readers find it when the lock is free too early."""

    CREATED = "created"
    STARTING = "starting"
    RUNNING = "running"
    COMPLETED = "completed"
    STOPPED = "stopped"
    """Ended on request or at a limit, with a checkpoint; can be resumed."""
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    """The process is gone and wrote no last record; can be resumed."""

    @property
    def is_terminal(self) -> bool:
        """Whether the worker wrote its last record."""
        return self in {RunState.COMPLETED, RunState.STOPPED, RunState.FAILED}

    @property
    def is_ended(self) -> bool:
        """Whether no process works on the run any more."""
        return self.is_terminal or self is RunState.INTERRUPTED


class Failure(BaseModel):
    """Why a run failed: a TrainwrightError as JSON, with the last lines that matter."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    category: str
    message: str
    remedy: str
    document: str | None = None
    details: dict[str, Any] = {}
    traceback: str | None = None
    """The user's part of the traceback, at most 40 lines."""


class RunStatus(BaseModel):
    """One snapshot of a run."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    state: RunState
    attempt: int = 1
    """Counts the processes that have worked on the run: 1, then one more for each resume."""
    step: int = 0
    """Optimizer steps done."""
    total_steps: int | None = None
    epoch: int = 0
    """Epochs completed."""
    total_epochs: int | None = None
    stage: str = ""
    """What the worker does now: importing, probing, training, validating, saving, exporting."""
    stop_reason: str | None = None
    """completed, early_stopping, max_steps, requested, pruned, wall_clock_limit, gpu_hours_limit,
    money_limit, disk_limit."""
    started_at: float = 0.0
    """Unix seconds at which this attempt began."""
    heartbeat_at: float = 0.0
    """Unix seconds of this record."""
    process: ProcessIdentity | None = None
    failure: Failure | None = None
