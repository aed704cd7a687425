"""Range of predicted numbers as signals: errors at the ends of the targets, beside what the targets' noise implies.

By squared error the best prediction is the mean of what a row's inputs leave open. So predictions of noisy targets are
narrower than these (with the correlation r they have r of the deviation), too high for the lowest and too low for the
highest. Rows that are predicted alike then have that mean: where they have another, the model's own scale is off.
"""

from __future__ import annotations

from trainwright.tools.training_monitor.record import RunRecord
from trainwright.tools.training_monitor.signals.losses import LOSSES_OF_NUMBERS
from trainwright.trainer.run.conditions import Sample
from trainwright.trainer.run.evaluation import Evaluation, Fifth, Ranges

CHANCE = 3.0
"""Standard errors up to which the mean error of a fifth may be chance."""


def error_at_an_end(record: RunRecord) -> list[Sample]:
    """Mean error in the lowest or the highest fifth of the targets, as a share of their deviation (one sample)."""
    found = _furthest(record)
    if found is None:
        return []
    return [Sample(record.status.step, abs(_at_an_end(found.by_target)) / found.deviation, detail=_told(found))]


def scale_off_at_an_end(record: RunRecord) -> list[Sample]:
    """The same by fifths of the predictions; 0 where it may be chance, so that the targets' noise explains all.

    And where another loss than the squared error of the targets themselves is trained: of a skewed target its best
    prediction, such as the median, is no mean.
    """
    found = _furthest(record)
    if found is None:
        return []
    is_mean = record.loss == "mse" and record.config.target_scaling not in {"log", "log1p"}
    return [Sample(record.status.step, abs(_own(found)) / found.deviation if is_mean else 0.0)]


def _furthest(record: RunRecord) -> Ranges | None:
    """Return the ranges of the target, of several, whose ends are missed most."""
    if record.loss not in LOSSES_OF_NUMBERS:  # a quantile, or the logarithm of a rate: no guess of the target itself
        return None
    ranges = record.part(Evaluation).ranges
    return max(ranges, key=lambda one: abs(_at_an_end(one.by_target)) / one.deviation, default=None)


def _at_an_end(fifths: list[Fifth], *, beyond: float = 0.0) -> float:
    """Return the larger mean error of the first and the last fifth; 0 where it is within so many standard errors."""
    errors = [one.error for one in (fifths[0], fifths[-1]) if abs(one.error) > beyond * one.standard_error]
    return max(errors, key=abs, default=0.0)


def _own(found: Ranges) -> float:
    return _at_an_end(found.by_prediction, beyond=CHANCE)


def _told(found: Ranges) -> str:
    error, own = _at_an_end(found.by_target), _own(found)
    where = "lowest" if error == found.by_target[0].error else "highest"
    reason = (
        f"the rows with the {'lowest' if own == found.by_prediction[0].error else 'highest'} predictions are "
        f"{'above' if own < 0 else 'below'} these by {abs(own):.3g} too, which noise does not explain"
        if own
        else f"noise alone does so: r2 {found.correlation**2:.2g} implies {found.correlation:.2g} of the targets' "
        f"deviation, and they have {found.spread / found.deviation:.2g}"
    )
    low, high = found.targets
    return (
        f"Predictions go from {found.predictions[0]:.3g} to {found.predictions[1]:.3g}, targets from {low:.3g} to "
        f"{high:.3g}: {abs(error):.3g} too {'high' if error > 0 else 'low'} in the {where} fifth; {reason}"
    )
