"""Conditions of the diagnostic documents: signals compared with thresholds, evaluated alike in worker and server.

The documents (`skills/ml-trainer/diagnostics`) are the only source of the thresholds. The server reads a run's record
for each signal; the worker those that it can judge while it trains, from the part of the documents in its run plan.
"""

from __future__ import annotations

import math
import operator
import os
import re
import secrets
import statistics
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from trainwright.trainer.base.errors import AlertError
from trainwright.trainer.base.records import Closed

if TYPE_CHECKING:
    from trainwright.trainer.run.directory import RunDirectory
    from trainwright.trainer.run.status import RunStatus

LONGEST_WINDOW = 1_000
"""Signals recorded at every step give at most so many last samples; no document may evaluate more."""
NOT_ADAPTIVE = frozenset({"sgd", "schedule_free_sgd"})
"""Optimizers whose step is as long as the gradient: those that divide it out do not feel its size, nor a clip."""
FALLEN = 0.6
"""Share of the starting loss: with no more left, the steps work."""
FINDINGS = "findings"
"""The signal of what the worker's inspectors found under the document's id: one sample for each finding."""
READINGS = {
    "gradient_norm": "train/gradient_norm",
    "data_wait_share": "throughput/data_wait_fraction",
    "update_ratio": "watch/update_ratio_median",
    "dead_share": "watch/dead_share_max",
    "saturated_share": "watch/saturated_share_max",
}
"""Signals that are the newest points of one series, by its key: a norm before clipping, the median over the parameters
of an update's norm ÷ the weights' norm, the largest share of a layer's units that are dead or at their bounds."""
WORKER_SIGNALS = frozenset({
    FINDINGS, *READINGS, "applied_gradient_norm", "train_loss_remaining", "scale_is_harmless", "wait_per_step",
})  # fmt: skip
"""Signals that the worker evaluates itself while it trains (trainer/watch/signals.py has each)."""
PLACEHOLDERS = {"measured": 1.0, "threshold": 1.0, "count": 1, "window": 1, "step": 1, "epoch": 1, "detail": ""}
"""Values that a trigger's message may show."""
COMPARE: dict[str, Callable[[float, float], bool]] = {
    "above": operator.gt, "at_least": operator.ge, "below": operator.lt, "at_most": operator.le,
}  # fmt: skip
Severity = Literal["critical", "warning", "info"]


class Sample(NamedTuple):
    """One value of a signal, and where in the run it was taken (epoch None: between epochs)."""

    step: int
    value: float
    epoch: int | None = None
    detail: str = ""
    """Unit of the number, in words."""
    keys: tuple[str, ...] = ()
    """Keys of the configuration that it is about."""
    layers: tuple[str, ...] = ()
    """Parameters or modules that it is about."""
    rows: tuple[int, ...] = ()
    """Rows of the train split that it is about."""


def finding_sample(event: Mapping[str, Any], of: str) -> Sample | None:
    """Return a `finding` event as a sample of the diagnostic `of`; None where it is another one's."""
    if event.get("id") != of:
        return None
    step, value, epoch = (event.get(name) for name in ("step", "measured", "epoch"))
    return Sample(
        step if isinstance(step, int) else 0,
        float(value) if isinstance(value, int | float) else 1.0,
        epoch if isinstance(epoch, int) else None,
        str(event.get("detail") or ""),
        layers=tuple(str(name) for name in event.get("layers") or ()),
        rows=tuple(int(row) for row in event.get("rows") or ()),
    )


def mean(values: Sequence[float]) -> float:
    """The mean of one or more finite values, without overflow on the way."""
    return math.fsum(value / len(values) for value in values)


class Strict(BaseModel):
    """Part of a document: unknown keys and loose types are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class Condition(Strict):
    """A signal compared with a threshold over its last `window` samples."""

    signal: str
    comparison: Literal["above", "below", "at_least", "at_most"]
    threshold: Annotated[float, Field(strict=False)]
    statistic: Literal["each", "mean", "median"] = "each"
    """Compare every sample, or one number for the whole window."""
    window: int = Field(default=1, ge=1, le=LONGEST_WINDOW)
    """The last so many samples are evaluated (a sample: one step, epoch or reading, as the signal says)."""
    points: int = Field(default=1, ge=1)
    """So many samples must be past the threshold (`each`), or be there at all (`mean`, `median`)."""

    @model_validator(mode="after")
    def _points_fit_the_window(self) -> Self:
        if self.points > self.window:
            raise ValueError(f"points ({self.points}) must not exceed window ({self.window})")
        return self

    def holds(self, value: float) -> bool:
        """Whether one value is past the threshold. A value that is not finite is above every threshold."""
        if math.isnan(value):
            return self.comparison in {"above", "at_least"}
        value = round(value, 12)  # 1.0 - 0.85 is 0.15, not a little more
        return COMPARE[self.comparison](value, self.threshold)

    def past(self, samples: Sequence[Sample]) -> list[Sample]:
        """Return the samples that are past the threshold (for a statistic: one that carries it), or none."""
        samples = samples[-self.window :]
        if self.statistic == "each":
            past = [sample for sample in samples if self.holds(sample.value)]
            return past if len(past) >= self.points else []
        values = [sample.value for sample in samples if math.isfinite(sample.value)]
        if len(values) < self.points:
            return []
        value = mean(values) if self.statistic == "mean" else statistics.median(values)
        return [samples[-1]._replace(value=value)] if self.holds(value) else []

    def worst(self, samples: Sequence[Sample]) -> Sample:
        """Return the sample that is furthest past the threshold."""
        rising = self.comparison in {"above", "at_least"}
        return max(samples, key=lambda sample: _order(sample.value) if rising else -_order(sample.value))


def _order(value: float) -> float:
    return math.inf if math.isnan(value) else value


def require_fillable(message: str) -> None:
    """Raise ValueError for a message that shows something else than PLACEHOLDERS."""
    try:
        message.format(**PLACEHOLDERS)
    except (KeyError, IndexError, ValueError) as error:
        raise ValueError(f"message uses something else than {', '.join(PLACEHOLDERS)}: {error!r}") from error


class Harm(Condition):
    """A condition that makes an alert critical, and how it is worded."""

    message: str
    """Follows the alert's own message; may use the names in PLACEHOLDERS."""

    @model_validator(mode="after")
    def _message_can_be_filled(self) -> Self:
        require_fillable(self.message)
        return self


class Trigger(Condition):
    """A condition that raises the alert, if those in `only_if` hold too."""

    unit: str
    message: str
    """The measured beside the allowed value; may use the names in PLACEHOLDERS."""
    only_if: list[Condition] = Field(default_factory=list)
    critical_if: list[Harm] = Field(default_factory=list)
    """Any of them that holds makes the alert critical, whatever the document's severity."""
    info_if: list[Condition] = Field(default_factory=list)
    """Where all of them hold, it is no more than information, unless something makes it critical."""
    unless_chosen: list[str] = Field(default_factory=list)
    """Keys whose values it calls unusual: where a study of the project chose all that the run has, it raises nothing,
    unless something makes it critical."""

    @model_validator(mode="after")
    def _message_can_be_filled(self) -> Self:
        require_fillable(self.message)
        if not re.search(r"{measured|{count", self.message) or "{threshold" not in self.message:
            raise ValueError("message must show {measured} or {count}, and {threshold}")
        return self

    @property
    def signals(self) -> set[str]:
        """Names of the signals without which it cannot be evaluated."""
        return {self.signal, *(condition.signal for condition in (*self.only_if, *self.info_if))}


Read = Callable[[str], Sequence[Sample]]
"""Gives a signal's samples by its name, in order of step."""


class Raised(NamedTuple):
    """A trigger that holds."""

    trigger: Trigger
    worst: Sample
    times: int
    """Samples past the threshold."""
    harm: tuple[Harm, list[Sample]] | None
    """What makes it critical, where something does."""
    is_mild: bool = False
    """Whether it is information only."""

    def severity(self, usual: Severity) -> Severity:
        """Return the alert's severity, where that of the document is the usual one."""
        if self.harm is not None:
            return "critical"
        return "info" if self.is_mild else usual

    def message(self, epoch: int | None) -> str:
        """Return what happened, in one line."""
        text = filled(self.trigger, self.trigger.message, self.worst, self.times, epoch)
        if self.harm is not None:
            harm, lost = self.harm
            text = f"{text} {filled(harm, harm.message, lost[-1], len(lost), epoch)}"
        return " ".join(text.split())


def raised(triggers: Sequence[Trigger], read: Read, chosen: Collection[str] = ()) -> Raised | None:
    """Return the first trigger that holds; None: there is none.

    Args:
        triggers: of one document, in order.
        read: the signals.
        chosen: keys whose values a study chose, over a range that shows better and worse ones.
    """
    for trigger in triggers:
        found = trigger.past(read(trigger.signal))
        if found and all(condition.past(read(condition.signal)) for condition in trigger.only_if):
            harm = next(((harm, lost) for harm in trigger.critical_if if (lost := harm.past(read(harm.signal)))), None)
            if harm is None and trigger.unless_chosen and set(trigger.unless_chosen) <= set(chosen):
                continue
            is_mild = bool(trigger.info_if) and all(each.past(read(each.signal)) for each in trigger.info_if)
            return Raised(trigger, trigger.worst(found), len(found), harm, is_mild)
    return None


def filled(condition: Condition, message: str, sample: Sample, count: int, epoch: int | None) -> str:
    """Return a message with the values of a sample in it."""
    return message.format(
        measured=sample.value,
        threshold=condition.threshold,
        count=count,
        window=condition.window,
        step=sample.step,
        epoch=epoch if epoch is not None else "?",
        detail=sample.detail,
    )


class Watched(Closed):
    """The part of a diagnostic document that the worker evaluates."""

    id: str
    severity: Severity
    document: str
    """Path of the document, relative to `skills/ml-trainer/`."""
    remedy: str
    """What to do first."""
    triggers: list[Trigger]


# Remaining share of the training loss: one definition for the worker, which judges in training, and the server.

FIRST_STEPS, NEWEST_STEPS = 5, 5
"""Steps whose median loss is the starting one (a batch alone is noisy), and the present one before an epoch ended."""
RAN_AWAY = 3.0
"""First steps whose median is so many times the first loss were driven there by the updates."""
CROSS_ENTROPY = "cross_entropy"


def prior_loss(shares: Sequence[float]) -> float | None:
    """Return the cross entropy of predicting the classes' shares for every sample; None without classes."""
    return -sum(share * math.log(share) for share in shares) if shares else None


def starting_loss(first: Sequence[float], shares: Sequence[float]) -> float | None:
    """Return the training loss before anything was learned; None where no loss is finite.

    The median of the first steps; where these themselves ran away, the first one's. Of cross entropy at least that of
    knowing the classes' shares alone (a model that begins lower has learned before), and where it begins far above that
    of equal chances (its first outputs are wild), those.

    Args:
        first: losses of the first steps.
        shares: of the train split's classes, where the loss is their cross entropy.
    """
    finite = sorted(value for value in first if math.isfinite(value))
    if not finite:
        return None
    start = finite[len(finite) // 2]
    if math.isfinite(first[0]) and 0 < RAN_AWAY * first[0] < start:
        start = first[0]
    prior = prior_loss(shares)
    if prior is None:
        return start
    chances = math.log(len(shares))
    return max(prior, start if start < RAN_AWAY * chances else chances)


def loss_remaining(start: float | None, epochs: Sequence[Sample], steps: Sequence[Sample]) -> list[Sample]:
    """Return training loss ÷ starting loss (1: nothing learned, 0: perfect); per epoch, else of the last steps."""
    samples = list(epochs)
    if not samples and (recent := steps[-NEWEST_STEPS:]):
        samples = [recent[-1]._replace(value=statistics.median_high(sample.value for sample in recent))]
    if start is None or start <= 0:
        return []
    return [sample._replace(value=sample.value / start) for sample in samples if math.isfinite(sample.value)]


# Stop of a run for an alert: requested by a follower, where the worker cannot judge the alert itself, or made alone.
#
# A request is a file for each attempt, `alert_stop.<attempt>.json`, made once and never replaced: of any number of
# followers one requests. The worker alone decides what becomes of it, and writes the events.

REASON = "alert: "
"""What the stop reason of such a run begins with; the alert's id follows."""
SERVER = "server"
"""`found_by` of an alert that the worker did not find itself."""


class AlertStop(Closed):
    """Request to end one attempt of a run for an alert."""

    does: Literal["stop", "checkpoint"]
    """As configured: both save the run; after `stop` it counts as failed."""
    id: str
    because_of: list[str] = Field(default_factory=list)
    """Ids of its consequences that make it as grave."""
    severity: Severity
    message: str
    signal: str
    measured: float | None
    threshold: float
    step: int
    epoch: int | None
    layers: list[str]
    rows: list[int]
    document: str
    remedy: str
    """What to do first."""

    @property
    def reason(self) -> str:
        """The run's stop reason."""
        return f"{REASON}{self.id}"


def request_alert_stop(run: RunDirectory, attempt: int, request: AlertStop) -> bool:
    """Request the end of an attempt; return whether nobody had before. Raises OSError."""
    temporary = run.path / f".alert_stop.{os.getpid()}.{secrets.token_hex(4)}.tmp"
    try:
        temporary.write_text(request.model_dump_json(indent=2))
        os.link(temporary, run.alert_stop(attempt))
    except FileExistsError:
        return False
    finally:
        temporary.unlink(missing_ok=True)
    return True


def requested_alert_stop(run: RunDirectory, attempt: int) -> AlertStop | None:
    """Return the request to end an attempt; None where there is none that can be read."""
    try:
        return AlertStop.model_validate_json(run.alert_stop(attempt).read_bytes())
    except (OSError, ValidationError):
        return None


def alert_behind(status: RunStatus) -> str | None:
    """Return the id of the alert that ended a run, as failed or with a checkpoint; None where none did."""
    if status.failure is not None:
        return str(status.failure.details.get("id")) if status.failure.category == AlertError.category else None
    is_alert = status.stop_reason is not None and status.stop_reason.startswith(REASON)
    return (status.stop_reason or "").removeprefix(REASON) if is_alert else None
