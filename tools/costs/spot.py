"""Break-even of spot machines: how many interruptions a day the lower price pays for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainwright.tools.costs.answer import SpotCost
from trainwright.tools.costs.hours import PROVISIONING_SECONDS, SECONDS_PER_HOUR
from trainwright.trainer.estimation.prices import is_same

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trainwright.tools.costs.measured import Restart
    from trainwright.trainer.estimation.prices import Price

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
        per_day = max(ratio - 1, 0.0) / (lost_seconds / SECONDS_PER_HOUR) * HOURS_PER_DAY
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
    return hours * (1 + interruptions_per_day / HOURS_PER_DAY * lost_seconds / SECONDS_PER_HOUR)
