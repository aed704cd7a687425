"""`run.json`: the run plan of a worker, written once before it starts and never changed."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal

from pydantic import Field

from trainwright.trainer.base.records import Closed
from trainwright.trainer.config.schema import TrainingConfig
from trainwright.trainer.data.remote.connections import Connection
from trainwright.trainer.run.conditions import Watched
from trainwright.trainer.run.runtime import Runtime


class RunKind(StrEnum):
    """Why a run exists. All but `probe` and `export` train."""

    SMOKE = "smoke"
    PROBE = "probe"
    """Measure the first steps: time by phase, a range of learning rates, batch sizes. Keeps no checkpoint."""
    BASELINE = "baseline"
    TRIAL = "trial"
    ABLATION = "ablation"
    LEAK_PRICE = "leak_price"
    """The baseline without one leak of the data: what it lost were false points. Its result is no one's choice."""
    CURE = "cure"
    """One of the short runs that try an alert's fixes, or the one without any beside them. It opens no gate."""
    REPLAY = "replay"
    FINAL = "final"
    EXPORT = "export"
    """Load a run's best checkpoint, export it, check it, and evaluate the test split."""


class Limits(Closed):
    """Limits that the worker enforces on itself."""

    wall_clock_seconds: float = Field(gt=0, default=3600.0)
    """Longest that the run may work, all attempts together."""
    gpu_hours: float | None = Field(ge=0, default=None)
    """Most hours of work times devices; None: no limit. Without a device there is nothing to count."""
    money: float | None = Field(ge=0, default=None)
    """Most that these hours may cost at `price_per_gpu_hour`."""
    price_per_gpu_hour: float = Field(ge=0, default=0.0)
    disk_bytes: int = Field(gt=0, default=20 * 1024**3)
    user_code_seconds: float = Field(gt=0, default=120.0)
    """Longest that importing and building the user's code may take."""
    until_epoch: int | None = Field(gt=0, default=None)
    """Stop in order after this epoch (`stop_reason` rung), to be resumed exactly; None: go on to the end."""

    def reached(self, worked_seconds: float, gpus: int) -> str | None:
        """Return the stop reason of the first limit that so many seconds of work on so many devices have reached."""
        gpu_hours = worked_seconds * gpus / 3600
        if worked_seconds > self.wall_clock_seconds:
            return "wall_clock_limit"
        if self.gpu_hours is not None and gpu_hours > self.gpu_hours:
            return "gpu_hours_limit"
        if self.money is not None and gpu_hours * self.price_per_gpu_hour > self.money:
            return "money_limit"
        return None


class Goal(Closed):
    """The project's goal: a validation metric, its direction, and the value to reach."""

    metric: str
    direction: Literal["minimize", "maximize"]
    target: float

    def met_by(self, value: float) -> bool:
        """Whether the value reaches the target."""
        return value >= self.target if self.direction == "maximize" else value <= self.target


class Wall(Closed):
    """What the owner's settings add to the wall round a worker. Paths are absolute."""

    reads: list[str] = Field(default_factory=list)
    writes: list[str] = Field(default_factory=list)
    ports: list[int] | None = None
    """TCP ports that it may connect to; None: the whole network."""


class RunSpecification(Closed):
    """Run plan of a worker. Paths are absolute."""

    run_id: str
    project: str
    kind: RunKind
    config: TrainingConfig
    config_digest: str
    code_root: str
    """The resolved folder of the user's code and data."""
    code_state: str | None = None
    """Digest of a kept snapshot of the code: that a baseline was trained with, or that an experiment runs from."""
    snapshot_of: str | None = None
    """The project's code root, where `code_root` is a snapshot of its code."""
    linked_roots: list[str] = Field(default_factory=list)
    """Further folders of the owner's `code_roots`, into which links among the data may lead."""
    runtime: Runtime | None = None
    """The interpreter of the project's environment; None: the server's own."""
    limits: Limits = Field(default_factory=Limits)
    goal: Goal | None = None
    """The project's goal when the run began; None in a run without a project."""
    max_steps: int | None = None
    """Stop after this many optimizer steps: a smoke run's bound. The configuration stays as it is."""
    source_run: str | None = None
    """Run directory of another run: that a replay repeats, or an export exports."""
    expected: dict[str, str] = Field(default_factory=dict)
    """Digests fixed by the planning gate (`data`, `code`, `environment`): the worker fails on a mismatch."""
    planned_code: dict[str, list[str]] = Field(default_factory=dict)
    """Digests of meaning and bytes of the files of code that planning fixed, where the configuration names other ones
    than the project's: each that the run imports must be among them. Empty: it imports the same files."""
    expected_packages: list[str] = Field(default_factory=list)
    """Packages whose versions `environment` in `expected` covers: planning's smoke run imported them. Empty: all."""
    exemptions: list[str] = Field(default_factory=list)
    """Non-deterministic operations that the workspace's owner allows; set by the launcher alone."""
    returns: str | None = None
    """How the smoke run found the model's output to be read; None asks the worker to find out."""
    first_looks: str | None = None
    """Folder of the first looks at large files, by their content. It saves time and is no evidence."""
    sides: list[str] = Field(default_factory=list)
    """Run directories of the smoke runs of earlier plans, on whose test rows a model was evaluated: these stay test
    rows, and no other row of theirs becomes one."""
    data_of: str = ""
    """Run that fetched what data come from elsewhere: planning's smoke run, or this one. ""; this one."""
    connections: dict[str, Connection] = Field(default_factory=dict)
    """The owner's connections that the configuration names: the variables and files that hold credentials."""
    data_cache: str | None = None
    """Folder of what runs make from data and keep by its content (trainer/data/cache.py); None: a private one."""
    data_cache_bytes: int = Field(gt=0, default=50 * 1024**3)
    """Most bytes of all entries in it."""
    exports_program: bool = False
    """Whether the run ends with the program of its best checkpoint (jobs/export/program.py), to be evaluated apart."""
    evaluation_rows_bytes: int = Field(gt=0, default=1024**3)
    """Most bytes of validation and test rows together that a smoke run keeps; of more, a sample."""
    validated_by: str | None = None
    """Planning's smoke run, which validated the data that `expected` fixes."""
    wall: Wall | None = None
    """The wall round the worker; None: the owner wants none, or an earlier version ordered the run."""
    commits_steps: bool = False
    """Whether it records digests of its state around steps that are drawn from its key, to be replayed by anyone."""
    replayed_step: int | None = None
    """The one step that a replay outside of the project compares with `source_run`, whose plan it has."""
    watch: list[Watched] = Field(default_factory=list)
    """What of the diagnostic documents the worker evaluates itself, as they were when the run was started."""
    overlay: dict[str, Any] = Field(default_factory=dict)
    """Changes of a final run to the configuration that the gates accepted, by dotted key; `config` includes them."""
    chosen: list[str] = Field(default_factory=list)
    """Keys whose values in `config` a completed study of the project found to be the best, over seeds."""
    permit: dict[str, Any] = Field(default_factory=dict)
    """The decision that allowed this run, as recorded in the ledger."""

    @property
    def snapshot(self) -> str | None:
        """The snapshot that it runs from; None: from the project's own folder."""
        return self.code_state if self.snapshot_of is not None else None

    @property
    def inspects(self) -> bool:
        """Whether the worker looks into steps: a baseline always, since a gate relies on what is found there."""
        return self.kind is RunKind.BASELINE or self.config.monitoring.inspect == "auto"
