"""Run view: what agents read about a run's status, field by field."""

from __future__ import annotations

from functools import partial
from typing import Any

from pydantic import Field

from trainwright.tools.answers import Answer
from trainwright.tools.gates.decide import evaluate
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.folds import folds_text
from trainwright.tools.gates.leak_prices import price_of
from trainwright.tools.gates.phase_status import phase_status_of
from trainwright.tools.gates.phases import Phase
from trainwright.tools.gates.rows_moved import rows_since
from trainwright.tools.ledger import Look
from trainwright.tools.training_monitor.diagnosis import Alert
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.query_cache import Sources
from trainwright.tools.workspace.tables import Run
from trainwright.trainer.base.file_stamps import stamps_below
from trainwright.trainer.base.records import Frozen
from trainwright.trainer.run import RunState

# Parts of a run's view that are read off the project's gates: what closes planning, moved rows, folds, leaks.


class ClosedBy(Frozen):
    """A check that keeps a gate closed: the measured beside the required value."""

    id: str
    measured: str
    required: str


def leak_of(workspace: Workspace, run: Run) -> str | None:
    """Return what the leak of a run was worth, in one sentence."""
    with workspace.session() as session:
        evidence = Evidence(session, workspace, run.project, inspection=Look())
        found = evidence.run(run.id)
        price = price_of(evidence, found) if found is not None else None
    return f"{price.finding}: {price.text}" if price is not None else None


def plan_of(workspace: Workspace, run: Run) -> tuple[list[ClosedBy] | None, str | None]:
    """Return what a smoke run says of the plan, each None where it says nothing.

    First what its record lacks for the planning gate, where it is the gate's smoke run; then how its rows differ from
    those of the plan, or smoke run, before it.
    """

    def look(sources: Sources) -> tuple[list[ClosedBy] | None, str | None]:
        with workspace.session() as session:
            evidence = Evidence(session, workspace, run.project, inspection=Look(sources))
            return _lacks(evidence, run), _told_rows(evidence, run)

    files = partial(stamps_below, workspace.project_folder(run.project))
    with workspace.snapshot() as session:
        return workspace.kept.answer(session, run.project, ("plan", run.id), look, files=files)


def _lacks(evidence: Evidence, run: Run) -> list[ClosedBy] | None:
    if evidence.smoke is None or evidence.smoke.id != run.id:
        return None
    if phase_status_of(evidence).phase is not Phase.PLANNING:
        return None
    blocking = evaluate(evidence, Phase.PLANNING).blocking
    return [ClosedBy(id=one.id, measured=one.measured, required=one.required) for one in blocking] or None


def _told_rows(evidence: Evidence, run: Run) -> str | None:
    found = evidence.run(run.id)
    grown = rows_since(evidence, found) if found is not None and found.is_complete else None
    return str(grown) if grown is not None else None


def folds_of(workspace: Workspace, run: Run) -> str | None:
    """Return the cross-validation that a run is a fold of."""
    config = workspace.run_directory(run.project, run.id).specification().config
    if config.data is None or config.data.split.folds is None:
        return None
    with workspace.session() as session:
        return folds_text(Evidence(session, workspace, run.project, inspection=Look()), config)


OF_A_STEP = ("train/learning_rate", "train/gradient_norm")
"""Metrics of little use once a run has ended."""


class FailureView(Frozen):
    """Why a run failed or vanished, and what to do."""

    category: str
    message: str
    remedy: str
    document: str | None = None
    traceback: str | None = None
    """The end of the user's part of the traceback."""
    last_lines: list[str] = Field(default_factory=list)
    """The worker's last output, where nothing else shows the cause."""


class ResumedView(Frozen):
    """The checkpoint from which the newest attempt of a resumed run began."""

    from_checkpoint: str | None = None
    step: int = 0
    skipped: list[str] = Field(default_factory=list)
    """Newer checkpoints that were passed over, each with the reason."""
    note: str | None = None
    """Set when there was no intact checkpoint."""


class RunView(Answer):
    """The status of a run."""

    run_id: str
    project: str
    kind: str
    label: str | None = None
    state: RunState
    stage: str = ""
    epoch: int = 0
    """Epochs completed."""
    total_epochs: int | None = None
    step: int = 0
    """Optimizer steps done."""
    total_steps: int | None = None
    attempt: int = 0
    """Worker processes so far: 1, and one more for every resume."""
    resumed: ResumedView | None = None
    """Absent until a resumed attempt has looked for its checkpoint."""
    gpus: list[str] | None = None
    """GPUs that its worker was given; absent where the machine shows none, or it trains on the CPU."""
    stop_reason: str | None = None
    failure: FailureView | None = None
    metrics: dict[str, float | str] = Field(default_factory=dict)
    """Latest values; 'nan' and 'inf' as text."""
    ignored_keys: list[str] | None = None
    """Keys that the configuration sets and this run makes no use of; absent where there are none."""
    data_version: str | None = None
    """Which content of the project's data it saw: `v2 of 1200 rows`; its card is the resource
    trainwright://projects/PROJECT/data/v2."""
    model: list[str] | None = None
    """Of a smoke run: how the model is called and why, what its output is, what goes in."""
    notes: list[str] | None = None
    """Of a smoke run: what it does otherwise than the code says (rows held back as the test, callbacks left out)."""
    understood: dict[str, Any] | None = None
    """Of a smoke run: what its target, its pictures and masks were taken for. Is it what is meant?"""
    columns: dict[str, list[str]] | None = None
    """Of a smoke run over a table: columns by kind; `left out` with the reason."""
    classes: dict[str, str] | None = None
    """Of a smoke run: the samples of each class in train and validation, `no 120, yes 80`."""
    best: dict[str, Any] | None = None
    """{epoch, step, metric, value} of the best epoch by the selection metric; the value certified where it can be,
    then with `reported`, the training process's own, where that reads differently."""
    evaluated: str | None = None
    """Of a run that exported a program: what it alone gives on the fixed rows, or why that is not known."""
    folds: str | None = None
    """Of a run with data.split.folds: mean and deviation over the folds so far, as reported, and the next call."""
    untrusted: str | None = None
    """Of a run whose record is no evidence, so that it counts for nothing: why."""
    rival: str | None = None
    """Of a baseline or ablation: what boosted trees on a table, naive forecasts of a series, counted words of texts, or
    class means of pictures score on the same validation rows, and the user's reference, each with the verdict."""
    result: dict[str, Any] | None = None
    """Result of a replay's comparison, an export's checks and test metrics, or a probe's measurements."""
    seconds: float = 0.0
    """Wall-clock seconds of this attempt."""
    samples_per_second: float | None = None
    alerts: list[Alert] = Field(default_factory=list)
    alert_history: list[str] | None = None
    """What became of alerts that are not simply open: recurring, cleared, or fixed by a later run."""
    leak: str | None = None
    """Of a leak_price run: what the leak that its label names was worth."""
    planning_closed_by: list[ClosedBy] | None = None
    """Of a completed smoke run: the checks of the planning gate that its record does not meet; absent: none."""
    rows: str | None = None
    """Of a completed smoke run on other data than the one before: how many rows are new, gone, and moved from test."""
    note: str | None = None
    """Set where a start found this run complete, and started none."""
    damaged: list[str] | None = None
    """Which parts of its record are torn, and what of them was read; absent where it is whole."""
    sealed: bool = False
    """Whether the ended run's digests are in the ledger."""

    @property
    def is_ended(self) -> bool:
        """Whether the run has ended and is filed: nothing about it changes any more unless it is resumed."""
        return self.state.is_ended and (self.sealed or self.state is RunState.INTERRUPTED)

    def unsaid(self) -> dict[str, Any]:
        """Fields with their usual values, and those that an alert's message and document say in words."""
        gone = {"sealed": True, "stage": not self.stage, "attempt": self.attempt <= 1}
        gone |= {"epoch": not self.epoch, "seconds": not self.seconds, "stop_reason": self.stop_reason == "completed"}
        shown = {name: True for name in self.metrics if self.state.is_ended and name in OF_A_STEP}
        in_words = dict.fromkeys(("title", "signal", "measured", "threshold", "unit", "step", "epoch"), True)
        of_alerts = {"__all__": {**in_words, "requirement": True, "fixes": {"__all__": {"id"}}}}
        return {name: True for name, is_gone in gone.items() if is_gone} | {"metrics": shown, "alerts": of_alerts}
