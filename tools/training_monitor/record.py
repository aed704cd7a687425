"""Record of a run as the monitor reads it: all files of its directory that exist yet."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from pydantic import BaseModel, ValidationError

from trainwright.trainer.base.errors import IntegrityError, NotFoundError
from trainwright.trainer.base.text import one_line
from trainwright.trainer.config import TrainingConfig
from trainwright.trainer.config.goal import MEASURED
from trainwright.trainer.metrics import BUILT_IN
from trainwright.trainer.run import Goal, MetricStore, RunDirectory, RunSpecification, RunState, RunStatus
from trainwright.trainer.run.conditions import CROSS_ENTROPY, FIRST_STEPS, Sample, prior_loss, starting_loss
from trainwright.trainer.run.evidence import Code, Data, Environment, P, PartOf, Resolved, Summary, rank
from trainwright.trainer.run.metrics import Point
from trainwright.trainer.run.status import Event

STEP_LOSS = "train/loss"
TRAIN_LOSS = "train/epoch_loss"
VALIDATION_LOSS = "validation/loss"
GRADIENT_NORM = "train/gradient_norm"
APPLIED_NORM = "train/applied_gradient_norm"
"""Of runs that clip: the norm that reached the optimizer."""
LEARNING_RATE = "train/learning_rate"
AT_THE_CEILING = 0.01
"""Of a score's range: nearer to its bound there is nothing left to learn."""
UNLIKE = frozenset({"contrastive", "adversarial", "distillation"})
"""Objectives whose training loss is another one than that of validation."""
DISCRIMINATOR = re.compile(r"train/(.*(discriminator|critic|[/_]d_loss|loss_d\b)|d_loss)", re.IGNORECASE)
GENERATOR = re.compile(r"train/(.*(generator|[/_]g_loss|loss_g\b)|g_loss)", re.IGNORECASE)
OWN_STEPS = frozenset({"step", "train_step"})
"""Objectives that are functions of the user's."""


Bucket = tuple[int, float, float, float]
"""Last step, mean, lowest, highest."""


class RunRecord:
    """Reads one run directory, each part at most once. Every damage is an IntegrityError with a remedy."""

    environment = PartOf(Environment)
    data = PartOf(Data)
    code = PartOf(Code)
    resolved = PartOf(Resolved)
    summary = PartOf(Summary)

    def __init__(self, run: RunDirectory, name: str | None = None) -> None:
        self.run = run
        self.name = name or run.run_id
        """What people read: its handle, where the caller knows it."""
        self.metrics: MetricStore = run.metrics()
        self._by_epoch: dict[str, list[Sample]] = {}
        self._buckets: dict[tuple[str, int], list[Bucket]] = {}
        self._non_finite: dict[str, list[Point]] = {}

    @cached_property
    def specification(self) -> RunSpecification:
        """The run plan. Raises IntegrityError when it is missing or damaged."""
        try:
            return self.run.specification()
        except NotFoundError as error:
            raise IntegrityError(
                f"Run {self.run.run_id} has no run.json: nothing says what was to be trained.",
                remedy="Start the run again; project_status(project) lists the runs that exist.",
            ) from error

    @property
    def config(self) -> TrainingConfig:
        """The run's configuration."""
        return self.specification.config

    @cached_property
    def status(self) -> RunStatus:
        """The run's status; a run without a first status reads as created."""
        try:
            return self.run.status()
        except NotFoundError:
            return RunStatus(state=RunState.CREATED, attempt=0)

    @cached_property
    def findings(self) -> dict[str, list[Event]]:
        """The worker's findings by the diagnostic's id, in order."""
        found: dict[str, list[Event]] = {}
        for event in self.run.events("finding"):
            found.setdefault(str(event.data.get("id")), []).append(event)
        return found

    def part(self, kind: type[P]) -> P:
        """One part of the evidence; empty when the worker has not written it, or it has an unexpected form."""
        try:
            return kind.model_validate(self.run.evidence(kind.file) or {})
        except ValidationError:  # `verify` names the change
            return kind()

    @cached_property
    def epoch_at(self) -> dict[int, int]:
        """Step → number of the epoch that ended there (a value that can be no such number is passed over)."""
        points = self.metrics.series("epoch")
        return {point.step: int(point.value) for point in points if 0 <= point.value < 1e9}

    def by_epoch(self, key: str) -> list[Sample]:
        """A series' values at the ends of epochs, with epoch numbers (counted where the run recorded none)."""
        if key not in self._by_epoch:
            points, ends = self.metrics.series(key), self.epoch_at
            by_epoch = [point for point in points if not ends or point.step in ends]
            self._by_epoch[key] = [
                Sample(p.step, p.value, ends.get(p.step, i)) for i, p in enumerate(by_epoch, start=1)
            ]
        return self._by_epoch[key]

    def buckets(self, key: str, count: int) -> list[Bucket]:
        """A series in at most `count` buckets, over its finite values."""
        if (key, count) not in self._buckets:
            self._buckets[key, count] = self.metrics.buckets(key, count)
        return self._buckets[key, count]

    def non_finite(self, key: str) -> list[Point]:
        """The points of a series that are NaN or infinite."""
        if key not in self._non_finite:
            self._non_finite[key] = self.metrics.non_finite(key)
        return self._non_finite[key]

    @cached_property
    def is_good_enough(self) -> bool:
        """Whether the best epoch meets the goal under which the run began, or is at its score's ceiling."""
        selection, goal = self.config.selection, self.specification.goal
        if self.best is None:
            return False
        if goal is not None and (reached := self._at_best(goal.metric)) is not None and goal.met_by(reached):
            return True
        _, low, high = MEASURED.get(selection.metric, ("", -math.inf, math.inf))
        value = self._at_best(selection.metric)
        left = abs((high if selection.direction == "maximize" else low) - (math.inf if value is None else value))
        return left <= AT_THE_CEILING * (high - low) < math.inf

    def _at_best(self, metric: str) -> float | None:
        values = {sample.step: sample.value for sample in self.by_epoch(f"validation/{metric}")}
        return values.get(self.best.step) if self.best is not None else None

    @cached_property
    def starting_loss(self) -> float | None:
        """The training loss before anything was learned: by the first steps, else the first epoch."""
        first = [p.value for p in self.metrics.head(STEP_LOSS, FIRST_STEPS) or self.metrics.head(TRAIN_LOSS, 1)]
        return starting_loss(first, self.class_shares("train") if self.loss == CROSS_ENTROPY else [])

    @property
    def loss(self) -> str | None:
        """Name of the loss that is trained by; None where the user's step computes one of its own."""
        return None if self.resolved.objective in OWN_STEPS else self.resolved.loss

    @cached_property
    def prior_loss(self) -> float | None:
        """The cross entropy of predicting the train classes' shares for every sample; None with another loss."""
        return prior_loss(self.class_shares("train")) if self.loss == CROSS_ENTROPY else None

    def class_shares(self, split: str) -> list[float]:
        """Each class's share of a split's samples, the commonest first; empty where the data has no classes."""
        known = self.data.splits.get(split)
        counts = list((known.classes or {}).values()) if known is not None else []
        return sorted((count / sum(counts) for count in counts if count), reverse=True) if len(counts) > 1 else []

    @cached_property
    def is_adversarial(self) -> bool:
        """Whether two networks train against each other, so that no loss need fall."""
        keys = self.metrics.keys()
        return any(DISCRIMINATOR.search(key) for key in keys) and any(GENERATOR.search(key) for key in keys)

    @cached_property
    def judges_losses(self) -> bool:
        """Whether a falling loss means learning: of two networks against each other, or of updates of one's own, not.

        A critic's loss rises with the returns that it follows.
        """
        return not self.is_adversarial and self.resolved.objective != "train_step"

    @cached_property
    def compares_losses(self) -> bool:
        """Whether training and validation measure their losses in the same way."""
        return self.judges_losses and self.config.mixing is None and self.config.objective.name not in UNLIKE

    @cached_property
    def selection_key(self) -> str | None:
        """The metric by which this run chooses its best epoch: its selection metric, else the losses there are."""
        wished = f"validation/{self.config.selection.metric}"
        keys = set(self.metrics.keys())
        return next((key for key in (wished, VALIDATION_LOSS, TRAIN_LOSS) if key in keys), None)

    def earlier_baselines(self, metric: str) -> dict[str, float]:
        """Best values of the project's baselines before this run, on the same data and selected alike, by id."""
        found: dict[str, float] = {}
        others = [folder for folder in self.run.path.parent.glob("baseline-*") if folder.name != self.run.run_id]
        for beside in (RunRecord(type(self.run)(folder)) for folder in others):
            value = beside.summary.best_metrics.get(metric)
            if value is None or beside.config.selection != self.config.selection:
                continue
            same = beside.data.fingerprint == self.data.fingerprint
            if same and beside.status.started_at < self.status.started_at:
                found[beside.run.run_id] = value
        return found

    @property
    def selection_sign(self) -> int:
        """+1 when higher is better, -1 when lower is."""
        wished = f"validation/{self.config.selection.metric}"
        return 1 if self.selection_key == wished and self.config.selection.direction == "maximize" else -1

    @cached_property
    def best(self) -> Sample | None:
        """The best epoch so far, whose checkpoint is kept: of a run that ended in order, the one that it recorded."""
        known, direction = self.summary.best, "maximize" if self.selection_sign > 0 else "minimize"
        losses = {sample.step: sample.value for sample in self.by_epoch(VALIDATION_LOSS)}
        found = [one for one in self._selected if known is None or one.step == known.step]
        return min(found, key=lambda one: rank(one.value, losses.get(one.step), direction), default=None)

    @cached_property
    def last_gain(self) -> Sample | None:
        """The epoch from which patience counts: the last that improved by more than `early_stopping.min_delta`."""
        found, reached, margin = None, -math.inf, self.config.early_stopping.min_delta
        for sample in self._selected:
            value = self.selection_sign * sample.value
            found = sample if value > reached + margin else found
            reached = max(reached, value)
        return found

    @property
    def _selected(self) -> list[Sample]:
        samples = self.by_epoch(self.selection_key) if self.selection_key else []
        return [sample for sample in samples if math.isfinite(sample.value)]


def named_records(runs: Sequence[RunDirectory], names: Mapping[str, str] | None = None) -> list[RunRecord]:
    """Return the records of runs, under their handles by run id where these are given."""
    return [RunRecord(run, (names or {}).get(run.run_id)) for run in runs]


# Basis on which runs are compared: their selection metric, or the goal's where their losses are of other scales.

SCALES_THE_LOSS = ("loss", "target_scaling", "objective")
"""Keys that change what the loss measures: losses of runs that differ in one are not compared."""
OF_THE_LOSS = frozenset({STEP_LOSS, TRAIN_LOSS, VALIDATION_LOSS})
FOLLOW = frozenset({"loss", "perplexity", "bits_per_byte"})
"""Values of validation that are the mean loss, or follow from it."""
MAX_CHARACTERS = 60


class Basis(NamedTuple):
    """The series by which runs are ranked."""

    key: str | None
    """None: each run's own selection metric."""
    sign: int
    """+1 when higher is better, -1 when lower is."""
    refused: str = ""
    """Why their losses are not compared; empty where they are."""

    def key_of(self, record: RunRecord) -> str | None:
        """Return the series of one run; None where it has none that may be compared."""
        if self.key is not None:
            return self.key if self.key in set(record.metrics.keys()) else None
        return None if self.refused else record.selection_key

    def value_of(self, record: RunRecord) -> float | None:
        """Return the run's value at its best epoch, whose checkpoint is kept."""
        best, key = record.best, self.key_of(record)
        if best is None or key is None or key == record.selection_key:
            return best.value if best is not None and key is not None else None
        return next((one.value for one in record.by_epoch(key) if one.step == best.step), None)


def basis_of(records: Sequence[RunRecord], goal: Goal | None = None) -> Basis:
    """Return by what these runs may be compared: never by losses that are not measured alike."""
    refused = _unlike_losses(records)
    sign = records[0].selection_sign if records else 1
    if not refused or not any(record.selection_key in OF_THE_LOSS for record in records):
        return Basis(None, sign, refused)
    shared = set.intersection(*(set(record.metrics.keys()) for record in records))
    names = [key.removeprefix("validation/") for key in sorted(shared) if key.startswith("validation/")]
    if goal is not None and goal.metric in names and goal.metric not in FOLLOW:
        return Basis(f"validation/{goal.metric}", 1 if goal.direction == "maximize" else -1, refused)
    known = [name for name in names if name in BUILT_IN and name not in FOLLOW]
    if not known:
        return Basis(None, sign, refused)
    return Basis(f"validation/{known[0]}", -1 if BUILT_IN[known[0]].minimize else 1, refused)


def _unlike_losses(records: Sequence[RunRecord]) -> str:
    """Return the keys, with their values, by which the losses are of several scales; empty where they are of one."""
    found = []
    for key in SCALES_THE_LOSS:
        settings = list(dict.fromkeys(_setting(record, key) for record in records))
        if len(settings) > 1:
            found.append(f"{key} ({', '.join(one_line(each, MAX_CHARACTERS) for each in settings)})")
    return " and ".join(found)


def _setting(record: RunRecord, key: str) -> str:
    value: Any = getattr(record.config, key)
    if isinstance(value, BaseModel):
        options = value.model_dump(mode="json", exclude_none=True)
        name = options.pop("name", None) or options.pop("use", "")
        return " ".join([str(name), *(f"{option}={options[option]}" for option in sorted(options) if options[option])])
    return str(value or "none")
