"""Events of ledger entries, one model for each kind.

An entry's body is an event's fields as they were given, so that reading and writing it again gives the same bytes.
Fields with a default are those that some events of the kind leave out.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, StrictBool, ValidationError

Moment = Annotated[datetime, PlainSerializer(lambda moment: in_utc(moment).isoformat())]
Values = dict[str, Any]


def in_utc(moment: datetime) -> datetime:
    """Return a moment in UTC; SQLite, which leaves the zone out, means UTC."""
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)


class Event(BaseModel):
    """One thing that was decided or happened in a project."""

    model_config = ConfigDict(frozen=True, extra="allow")

    name: ClassVar[str]
    """Kind of the entries that hold such events."""

    def body(self) -> dict[str, Any]:
        """Return the fields that were given, as the ledger keeps them."""
        return self.model_dump(exclude_unset=True)


class ProjectCreated(Event):
    """A project was made."""

    name = "project_created"
    intent: str
    goal: Values
    limits: Values
    code_root: str
    created_at: Moment


class CodeRootMoved(Event):
    """The project's code was pointed to another folder."""

    name = "code_root_moved"
    code_root: str
    before: str = ""
    reason: str = ""


class GoalChanged(Event):
    """The project's goal was raised, or changed before a result counted."""

    name = "goal_changed"
    goal: Values
    before: Values = {}
    reason: str = ""


class ConfigurationKept(Event):
    """A version of the project's configuration was kept; the highest number holds."""

    name = "config_version"
    number: int
    digest: str
    values: Values
    reason: str = ""
    created_at: Moment


class RunStarted(Event):
    """A run was planned and started."""

    name = "run_started"
    run_id: str
    kind: str
    label: str | None
    seed: int
    config_digest: str
    base_config_digest: str
    source_run: str | None
    study: str | None
    idempotency_key: str | None = None
    created_at: Moment
    specification: str = ""
    """Digest of run.json."""
    run_key: str | None = None
    """The public key of the attempt; None where another launcher started the worker."""
    rows_key: str | None = None
    """The public key for the rows that a smoke run fixes before it imports user code."""
    permit: Values = Field(default_factory=dict)
    overlay: Values = Field(default_factory=dict)
    gpus: list[Values] = []
    """GPUs that its worker was given: {id, index, name, memory_bytes}."""
    wall: Values = {}
    """The wall round its worker: {landlock: version, reads, writes, ports, not_covered}, or {none: why}."""


class RunResumed(Event):
    """An ended run was resumed."""

    name = "run_resumed"
    run_id: str
    attempt: int = 0
    state: str = ""
    """In which it was before."""
    permit: Values = {}
    run_key: str | None = None
    gpus: list[Values] = []
    wall: Values = {}
    died: Values = {}
    """How its worker was lost, where a search replaced it: `by` whom, `why`, and the `saved_step` to go on from."""

    @property
    def limits(self) -> Values | None:
        """What was reserved for it; None where the entry does not say."""
        limits: Values | None = self.permit.get("reserved", {}).get("limits")
        return limits


class RunSealed(Event):
    """A run ended: the digests of its files."""

    name = "run_sealed"
    run_id: str
    state: str
    attempt: int = 0
    digests: dict[str, str]
    problem: str = ""
    """Why there are none."""
    ended_at: Moment
    used: Values = {}


class RunEvaluated(Event):
    """A clean process evaluated the program that a run exported, on the rows that planning fixed."""

    name = "run_evaluated"
    run_id: str
    rows_run: str = ""
    """The run that fixed the rows."""
    rows: str = ""
    """Digest of their record."""
    program: str = ""
    """SHA-256 of the program's file."""
    evaluator: str = ""
    """Digest of the clean room's code, and the versions of its libraries."""
    splits: dict[str, Values] = {}
    """By split: size, rows, metrics {name: value}, intervals {name: [low, high]}, not_computed; of several targets
    [{name, metrics}], of classes [{class, rows, found, said}]."""
    reported: dict[str, Values] = {}
    """By split: the same metrics as the training process reported them."""
    differences: list[str] = []
    """Metrics that differ beyond the tolerance, one sentence each."""
    beside: Values = {}
    """The baseline that the project's evaluation gate names: name, run_id, program, `same_rows`, and by split its
    metrics; on the same rows with `paired`. Or a `problem` with its remedy."""
    problem: str = ""
    """Why it was not evaluated."""
    remedy: str = ""
    seconds: float = 0.0

    def slices(self, split: str = "validation") -> dict[str, Values]:
        """Return {rows, metrics} by slice of a split; empty where it was not evaluated, or has none."""
        return {} if self.problem else dict(self.splits.get(split, {}).get("slices", {}))

    def certified(self, split: str = "validation") -> dict[str, float]:
        """Return the metrics of a split that the program alone gives; empty where it was not evaluated."""
        return {} if self.problem else dict(self.splits.get(split, {}).get("metrics", {}))

    @property
    def differs(self) -> bool:
        """Whether a plain run reported something else than its program gives: that closes the gate."""
        return bool(self.differences) and not self.problem


class TrialEnded(BaseModel):
    """A trial of a study that has ended."""

    model_config = ConfigDict(frozen=True, extra="allow")

    number: int
    parameters: Values = {}
    state: str = ""
    value: float | None = None
    run: str | None = None
    intermediate: Values = {}
    further: Values = {}


class StudyChanged(Event):
    """A search was started or resumed (with `search`), changed its state, or ended (with `trials`)."""

    name = "study"
    study_id: str
    state: str
    search: Values | None = None
    objective: Values = {}
    base_config_digest: str = ""
    idempotency_key: str | None = None
    created_at: Moment | None = None
    ended_at: Moment | None = None
    trials: list[TrialEnded] | None = None
    best: int | None = None
    confirmation: Values | None = None
    failure: Values | None = None
    ended_by: Values = {}
    """Why it asks for no more trials before its last one: the limit or the rule, with the figures."""
    made_by: Values = {}
    """Versions on which its suggestions depend."""
    bounds: Values | None = None
    """{key: {from, probe}} of the ranges whose ends a probe has found."""


class AblationChanged(Event):
    """An ablation study was started or resumed (`search`), changed its state, or ended (`trials`); no gate reads it."""

    name = "ablation"
    study_id: str
    state: str
    search: Values | None = None
    objective: Values = {}
    base_config_digest: str = ""
    base_values: Values | None = None
    """The reference's configuration, where it is not the project's newest version."""
    idempotency_key: str | None = None
    created_at: Moment | None = None
    ended_at: Moment | None = None
    trials: list[TrialEnded] | None = None
    results: Values | None = None
    """Seeds, arms, contrasts with their intervals, and the conclusion."""
    artifacts: dict[str, str] = {}
    version: str = ""
    failure: Values | None = None


class GateDecided(Event):
    """A gate passed, was skipped, or refused."""

    name = "gate"
    phase: str
    outcome: str
    checks: list[Values] = []
    rested_on: Values = {}
    artifacts: dict[str, str] = {}
    settings: str = ""
    circumstances: Values = {}
    final_values: Values | None = None
    ending: Values | None = None
    release: Values | None = None
    created_at: Moment


class ReleaseBegun(Event):
    """Work on a further release began."""

    name = "release_begun"
    release: int
    after: int
    reason: str = ""
    since: list[str] = []


class CarriedOver(Event):
    """A short replay showed that a plan's evidence holds under other surroundings."""

    name = "carried_over"
    replay: str
    source: str
    smoke_run: str
    planning: int
    steps: int
    changes: list[str] = []


class Diagnosed(Event):
    """A run's curves were read."""

    name = "diagnosis"
    run_id: str
    artifacts: dict[str, str] = {}
    version: str = ""
    documents: dict[str, str] = {}
    assessment: Values = {}
    alerts: list[Values] = []


class CureChanged(Event):
    """Fixes of an alert began to be tried in short paired runs (with `fixes`), or their trial ended."""

    name = "cure"
    cure_id: str
    state: str
    """running, ended, or stopped: by a person, a limit or a failure."""
    run_id: str = ""
    """The run that raised the alert."""
    alert: str = ""
    config_digest: str = ""
    """Of that run's configuration, which every pair shares but for the fix."""
    steps: int = 0
    fixes: list[Values] = []
    """Each {id, text, changes}, the proposed one first."""
    outcomes: list[Values] = []
    version: str = ""
    documents: dict[str, str] = {}
    """Digests of the diagnostic documents by which the outcomes were evaluated."""
    failure: Values | None = None
    created_at: Moment | None = None
    ended_at: Moment | None = None


class Pruned(Event):
    """Weights were deleted to make room: digests and sizes of them, their tombstones."""

    name = "pruned"
    plan: str = ""
    policy: Values = {}
    checkpoints: list[Values]


class ModelRegistered(Event):
    """A version of the model was registered."""

    name = "model_registered"
    version: int
    run_id: str
    checkpoint_digest: str
    metrics: Values
    lineage: Values
    created_at: Moment
    figures: Values = {}
    """By split: rows, and the certified metrics with their intervals."""


class ModelPromoted(Event):
    """An alias of the model was to move to another version: it moved, or its gate refused."""

    name = "model_promoted"
    alias: str
    version: int | None
    """None: the alias was taken away."""
    before: int | None
    """The version that held it."""
    outcome: Literal["moved", "refused"]
    by: str
    why: str = ""
    checks: list[Values] = []
    """Of the gate: check, measured, required, passed."""
    grant: str = ""
    """The owner's request by which it moved all the same."""
    back: bool = False
    """Whether it went back to what the last promotion had replaced."""


class HandedOver(Event):
    """A project was handed over to another agent or person: the file about it was written."""

    name = "hand_over"
    by: str
    to: str
    after: int
    """The last entry that the file's facts were derived from."""
    artifacts: dict[str, str] = {}


class OwnerAsked(Event):
    """The owner was asked for something."""

    name = "owner_request"
    wish: Values
    reason: str = ""


class OwnerAnswered(Event):
    """The owner granted a request, or denied it."""

    name = "owner_decision"
    request: str
    wish: Values
    granted: StrictBool
    by: Values = {}


class ProjectDeleted(Event):
    """A project was deleted."""

    name = "project_deleted"
    request: str
    runs: list[str] = []
    test_looks: list[Values] = []


EVENTS: dict[str, type[Event]] = {kind.name: kind for kind in Event.__subclasses__()}
"""Kind of an entry to its event."""


def read_event(kind: str, body: Any) -> Event | None:
    """Return the event of a body; None where the kind is unknown or the body damaged (`verify` names it)."""
    try:
        return EVENTS[kind].model_validate(body)
    except (KeyError, ValidationError, RecursionError):
        return None


def read_body(text: str) -> Any:
    """Return a body's JSON, or None of one that was damaged."""
    try:
        return json.loads(text)
    except (ValueError, TypeError, RecursionError):
        return None
