"""Evaluation of a pair of short runs, with a fix and without it: whether the fix cured the alert, with figures."""

from __future__ import annotations

import math
from typing import Any

from pydantic import Field

from trainwright.tools.training_monitor.curve_summary import curve_summaries, first_loss, fitted_line
from trainwright.tools.training_monitor.diagnosis import SEVERITIES, Alert, diagnose_record
from trainwright.tools.training_monitor.documents import load_diagnostics
from trainwright.tools.training_monitor.record import SCALES_THE_LOSS, STEP_LOSS, VALIDATION_LOSS, RunRecord
from trainwright.trainer.base.records import Frozen
from trainwright.trainer.run import Goal, RunDirectory

DEVIATIONS = 2.0
"""A loss is worse if it is so many standard deviations of the curves' noise above the other's."""
MIN_SHARE = 0.02
"""And by so much of the other's at least; without a measured noise by UNKNOWN_SHARE."""
UNKNOWN_SHARE = 0.1
ONE_BATCH = 0.25
"""By so much may a loss end above that of its first batch alone, which says little."""
FAR = 5.0
"""Standard deviations of the noise by which a curve is so much better that a warning may still be raised."""
LAST_BUCKETS = 10


class PairOutcome(Frozen):
    """What a fix did to an alert in a run as short as the one without it."""

    fix: str
    changes: dict[str, Any]
    cured: bool | None
    """None: it could not be evaluated."""
    why: str
    before: float | None = None
    """The alert's measured value without the fix; None where that was not finite."""
    after: float | None = None
    """With it; None where the alert was gone, or the value not finite."""
    curve: str | None = None
    """The curve by which both are compared; None: there is none of one scale."""
    value_before: float | None = None
    """The end of that curve without the fix; None where it was not finite."""
    value_after: float | None = None
    noise: float | None = None
    """Standard deviation of both curves' last points around their lines, the larger."""
    new_alerts: list[str] = Field(default_factory=list)
    run: str = ""
    steps: int = 0


class Pair:
    """The run without a fix, read once, and the comparison of each other one with it."""

    def __init__(self, control: RunDirectory, alert: str, goal: Goal | None = None) -> None:
        self._documents, self._goal, self._name = load_diagnostics(), goal, alert
        self._control = RunRecord(control)
        self._alerts = {one.id: one for one in diagnose_record(self._control, self._documents)}

    @property
    def shown(self) -> Alert | None:
        """The alert, where the short run without any fix raised it too."""
        return self._alerts.get(self._name)

    def not_shown(self, fix: dict[str, Any], steps: int) -> PairOutcome:
        """Return the outcome of a fix that was not run, where the short run without any did not raise the alert."""
        why = f"{self._name} did not arise in {steps} steps without a fix, so that none can be seen to clear it"
        return PairOutcome(fix=fix["id"], changes=fix["changes"], cured=None, why=why)

    def outcome(self, changed: RunDirectory, fix: dict[str, Any]) -> PairOutcome:
        """Return what the fix did. Raises IntegrityError for a damaged record."""
        record = RunRecord(changed)
        alerts = {one.id: one for one in diagnose_record(record, self._documents)}
        found = PairOutcome(
            fix=fix["id"], changes=fix["changes"], cured=None, why="", run=changed.run_id, steps=record.status.step
        )
        if self.shown is None:
            return found.model_copy(update={"why": f"{self._name} did not arise in the short run without a fix"})
        failure, then = record.status.failure, alerts.get(self._name)
        if failure is not None and then is None and not alerts:
            return found.model_copy(update={"why": f"its run failed: {failure.message}"})
        least = SEVERITIES.index(self.shown.severity)
        new = [a.id for a in alerts.values() if a.id not in self._alerts and SEVERITIES.index(a.severity) <= least]
        figures, is_worse = self._compared(record, fix["changes"])
        worse = f"{figures['curve']} is worse beyond its noise" if is_worse else ""
        gain = self._gain(figures) if then is not None and then.severity != "critical" else ""
        why = ("" if gain else self._still_raised(then, least)) or worse or _not_learned(record) or _raises(new)
        if not why and then is not None and not figures:
            why = f"{self._name} is only {then.severity} now, and no curve of one scale shows that it trains better"
        return found.model_copy(
            update={**figures, "before": self.shown.measured, "after": then.measured if then else None,
                    "new_alerts": new, "cured": not why, "why": why or gain or self._success(then)}
        )  # fmt: skip

    def _still_raised(self, then: Alert | None, least: int) -> str:
        """Return that the alert is as severe as before; empty where it is not."""
        is_there = then is not None and SEVERITIES.index(then.severity) <= least
        return f"{self._name} is still raised" if is_there else ""

    def _gain(self, figures: dict[str, Any]) -> str:
        """Return by how much the curve is better where that is far beyond its noise; empty where it is not."""
        before, after, noise = (figures.get(name) for name in ("value_before", "value_after", "noise"))
        if before is None or after is None or not noise or figures["curve"] == STEP_LOSS:
            return ""
        is_goal = self._goal is not None and figures["curve"] == f"validation/{self._goal.metric}"
        sign = 1 if is_goal and self._goal is not None and self._goal.direction == "maximize" else -1
        times = sign * (after - before) / noise
        is_far = times >= FAR and abs(after - before) > UNKNOWN_SHARE * abs(before)
        return f"{figures['curve']} is better by {times:.0f} times its noise: go on in this direction" if is_far else ""

    def _success(self, then: Alert | None) -> str:
        return f"{self._name} is gone" if then is None else f"{self._name} is only {then.severity} now"

    def _compared(self, record: RunRecord, changes: dict[str, Any]) -> tuple[dict[str, Any], bool]:
        """Return the curve and its ends, and whether the one with the fix is worse beyond the noise of both."""
        is_scaled = any(key == name or key.startswith(f"{name}.") for key in changes for name in SCALES_THE_LOSS)
        key, sign = self._curve(record, is_scaled=is_scaled)
        if key is None:
            return {}, False
        before, after = _end(self._control, key), _end(record, key)
        noises = [found for one in (self._control, record) if (found := _noise(one, key)) is not None]
        noise = max(noises, default=None)
        worse = before is not None and (after is None or -sign * (after - before) > _allowed(before, noise))
        return {"curve": key, "value_before": before, "value_after": after, "noise": noise}, worse

    def _curve(self, record: RunRecord, *, is_scaled: bool) -> tuple[str | None, int]:
        """Return the first curve that both have, and its sign: the goal's metric, the validation loss, the steps'."""
        shared = set(self._control.metrics.keys()) & set(record.metrics.keys())
        wanted: list[tuple[str, int]] = []
        if self._goal is not None:
            wanted.append((f"validation/{self._goal.metric}", 1 if self._goal.direction == "maximize" else -1))
        wanted += [(VALIDATION_LOSS, -1), (STEP_LOSS, -1)]
        losses = {VALIDATION_LOSS, STEP_LOSS} if is_scaled else set()
        return next(((key, sign) for key, sign in wanted if key in shared - losses), (None, 0))


def _raises(new: list[str]) -> str:
    return f"it raises {', '.join(new)}" if new else ""


def _not_learned(record: RunRecord) -> str:
    """Return that a run's training loss ends above where it began, by its own scale; empty where it does not."""
    first, end = first_loss(record), _end(record, STEP_LOSS)
    if first is None:
        return ""
    if end is None:
        return "its train/loss ends without a finite value"
    allowed = ONE_BATCH * abs(first) + DEVIATIONS * (_noise(record, STEP_LOSS) or 0.0)
    return f"its train/loss ends at {end:.4g}, above the {first:.4g} of its start" if end > first + allowed else ""


def _end(record: RunRecord, key: str) -> float | None:
    """Return where a curve ends: its last epoch's value, or the mean of the last tenth of the steps."""
    if key != STEP_LOSS:
        samples = record.by_epoch(key)
        return samples[-1].value if samples and math.isfinite(samples[-1].value) else None
    if (last := record.metrics.last(key)) is None or not math.isfinite(last.value):
        return None
    buckets = record.buckets(key, LAST_BUCKETS)
    return buckets[-1][1] if buckets and math.isfinite(buckets[-1][1]) else None


def _noise(record: RunRecord, key: str) -> float | None:
    if key != STEP_LOSS:
        return next((one.noise for one in curve_summaries(record) if one.curve == key), None)
    buckets = record.buckets(key, LAST_BUCKETS)[LAST_BUCKETS // 2 :]
    line = fitted_line([float(step) for step, *_ in buckets], [mean for _, mean, _, _ in buckets])
    return line.noise if line is not None else None


def _allowed(before: float, noise: float | None) -> float:
    """Return by how much a loss may be worse than the one before without counting as worse."""
    if noise is None:
        return UNKNOWN_SHARE * abs(before)
    return max(DEVIATIONS * noise, MIN_SHARE * abs(before))
