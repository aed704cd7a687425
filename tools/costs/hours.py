"""Hours of training, search and prediction on one device, from steps, epochs and starts."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from trainwright.tools.costs.answer import SpotCost
from trainwright.tools.costs.measured import Measured, Restart
from trainwright.tools.costs.scaling import MEASURED, Interval, Steps
from trainwright.tools.hyperparameter_tuner.halving import rungs
from trainwright.trainer.base.time_units import HOUR
from trainwright.trainer.config import TrainingConfig
from trainwright.trainer.config.search import SearchSection
from trainwright.trainer.estimation import duration
from trainwright.trainer.estimation.prices import Price, is_same
from trainwright.trainer.estimation.results import Work

PROVISIONING_SECONDS = Interval(*duration.PROVISIONING_SECONDS)
START_SECONDS = Interval(*duration.START_SECONDS)
EVALUATED_SHARE = Interval(0.0, 0.5)
"""Of an epoch's steps, that its validation and checkpoints take, where none was measured. Assumed."""
HOURS_PER_MONTH = 730.0
BUSY_SHARE = 0.6
"""Of a replica's time that predictions may take, so that requests do not queue. Assumed."""


@dataclass(frozen=True)
class Epochs:
    """What an epoch and a start take on one device."""

    steps_seconds: Interval
    """Of an epoch's steps."""
    other_seconds: Interval
    """Of an epoch beside them: validation and checkpoints, also where `training.max_steps` cuts the epoch short."""
    start_seconds: Interval

    def seconds(self, epochs: float) -> Interval:
        """Return the seconds of so many epochs, of which the last may be cut short."""
        return self.steps_seconds.times(epochs) + self.other_seconds.times(math.ceil(epochs))

    def hours(self, epochs: float, runs: float = 1.0, *, is_rented: bool) -> Interval:
        """Return the hours of so many runs of so many epochs; of a rented machine, one provisioning with each."""
        one = self.seconds(epochs) + self.start_seconds
        return (one + (PROVISIONING_SECONDS if is_rented else Interval(0.0, 0.0))).times(runs / HOUR)


def epochs_on(steps: Steps, measured: Measured | None, work: Work | None) -> Epochs:
    """Return an epoch's and a start's seconds, from the steps on the device and what was measured beside them."""
    epoch = steps.seconds.times(steps_per_epoch(measured, work))
    if measured is None:
        share = EVALUATED_SHARE
        return Epochs(epoch, Interval(epoch.low * share.low, epoch.high * share.high), START_SECONDS)
    start = Interval.around(measured.start_seconds, measured.spread)
    other = Interval.around(measured.other_seconds, measured.spread)
    if steps.basis != MEASURED:
        faster = min(steps.seconds.low / measured.step_seconds, 1.0)
        slower = max(steps.seconds.high / measured.step_seconds, 1.0)
        other = Interval(other.low * faster, other.high * slower)
        start = Interval(start.low, max(start.high, START_SECONDS.high))
    return Epochs(epoch, other, start)


def steps_per_epoch(measured: Measured | None, work: Work | None) -> float:
    """Return the updates of a whole epoch, as measured, else as counted; 0 where neither says."""
    if measured is not None:
        return measured.steps_per_epoch
    return work.steps / max(work.epochs, 1) if work is not None else 0.0


def bounded_epochs(epochs: int, max_steps: int | None, per_epoch: float) -> float:
    """Return the epochs that a run makes of so many: a run ends at `training.max_steps`, also within an epoch."""
    if max_steps is None or per_epoch <= 0:
        return float(epochs)
    return min(float(epochs), max_steps / per_epoch)


def searched_epochs(
    search: SearchSection | None, trials: int, epochs: int, bound: float = math.inf
) -> tuple[Interval, str]:
    """Return the epochs of all trials together, and in words what a pruner saves: what is planned, or nothing.

    Args:
        bound: epochs after which every run ends, by `training.max_steps`.
    """
    whole = trials * min(float(epochs), bound)
    pruning = search.pruning.name if search is not None else "none"
    if search is None or pruning not in {"successive_halving", "hyperband"} or epochs < 2:
        low = whole * (0.5 if pruning not in {"none", "successive_halving", "hyperband"} else 1.0)
        saved = f"{pruning} saves at most half (assumed)" if low < whole else "no pruner: every trial runs all epochs"
        return Interval(low, whole), saved
    planned = _planned(search, trials, epochs, bound)
    return Interval(planned, whole), f"{pruning} saves {1 - planned / whole:.0%} as planned, or nothing"


def _planned(search: SearchSection, trials: int, epochs: int, bound: float) -> float:
    """Return the epochs if each rung lets one in `reduction_factor` go on, as `halving.promoted` does."""
    total, left, bracket = 0.0, trials, 0
    while left > 0:
        wave = min(search.wave, left)
        going, before = float(wave), 0.0
        for rung in rungs(search, bracket, epochs):
            total += going * (min(rung, bound) - before)
            going, before = max(1.0, math.floor(going / search.pruning.reduction_factor)), min(rung, bound)
        total += going * (min(epochs, bound) - before)
        left, bracket = left - wave, bracket + 1
    return total


def confirming_runs(config: TrainingConfig, trials: int) -> int:
    """Return the full runs with which a search confirms its best beside the baseline; 0 without a search."""
    return 2 * config.search.confirmation_repeats if config.search is not None and trials else 0


# Break-even of spot machines: how many interruptions a day the lower price pays for.

HOURS_PER_DAY = 24.0
ASSUMED_RESTART_SECONDS = 60.0
"""From a worker's start to its first new step, where none of the project's runs was resumed."""
UNNOTICED_SECONDS = 120.0
"""Of work lost with a machine that goes without notice: half of what lies between two checkpoints. Assumed."""


def restart_seconds(restart: Restart | None) -> tuple[float, str]:
    """Return what one interruption costs in machine time, at the worst, and that in words."""
    own = restart.seconds if restart is not None else ASSUMED_RESTART_SECONDS
    whole = own + PROVISIONING_SECONDS.high + UNNOTICED_SECONDS
    measured = (
        f"{own:.3g} s from a worker's start to its first new step, the median of its {restart.resumes} resumes"
        if restart is not None
        else f"{own:g} s from a worker's start to its first new step (assumed: no run of this project was resumed yet)"
    )
    return whole, (
        f"{measured}; beside it, assumed: {PROVISIONING_SECONDS.high:g} s for another machine, "
        f"{UNNOTICED_SECONDS:g} s of work lost without a notice (none with one)"
    )


def spot_costs(prices: Iterable[Price], lost_seconds: float, interruptions_per_day: float | None) -> list[SpotCost]:
    """Return each spot price that has a lasting one beside it, with its break-even.

    A spot hour of work takes `1 + interruptions * lost` hours, so it is cheaper while that times its price is less.
    """
    rows = list(prices)
    found = []
    for spot in (row for row in rows if row.spot and row.price_per_hour):
        lasting = [row.price_per_hour for row in rows if not row.spot and row.platform == spot.platform
                   and is_same(row.accelerator, spot.accelerator) and row.price_per_hour]  # fmt: skip
        if not lasting or spot.price_per_hour is None:
            continue
        ratio = min(lasting) / spot.price_per_hour
        per_day = max(ratio - 1, 0.0) / (lost_seconds / HOUR) * HOURS_PER_DAY
        found.append(
            SpotCost(
                platform=spot.platform,
                accelerator=spot.accelerator,
                saves_percent=round(100 * (1 - 1 / ratio), 1),
                break_even_interruptions_per_day=round(per_day, 2),
                worth_it=None if interruptions_per_day is None else interruptions_per_day < per_day,
            )
        )
    return found


def with_interruptions(hours: float, interruptions_per_day: float, lost_seconds: float) -> float:
    """Return the hours of a spot machine for so many hours of work."""
    return hours * (1 + interruptions_per_day / HOURS_PER_DAY * lost_seconds / HOUR)
