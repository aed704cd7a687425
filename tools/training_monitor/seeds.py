"""Groups of runs that differ in their seed alone: mean and deviation of each, and what may be claimed between two.

A difference of two configurations that each ran on one seed may be chance (Bouthillier et al. 2021, arXiv:2103.03098).
"""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict

from trainwright.tools.training_monitor.no_effect import is_beside_training
from trainwright.trainer.base.canonical import digest_json
from trainwright.trainer.config import flatten

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trainwright.tools.training_monitor.record import Basis, RunRecord

LEAST_SEEDS = 3
"""Of each configuration, before a difference of two is called one."""
ERRORS_APART = 2.0
"""Standard errors by which means must differ: about a 95 % interval."""


class SeedGroup(BaseModel):
    """Runs of one configuration, data and code, on several seeds or one."""

    model_config = ConfigDict(frozen=True)

    runs: list[str]
    seeds: int
    metric: str | None
    mean: float | None = None
    """Of the best epochs' values."""
    deviation: float | None = None
    """Sample standard deviation; None of one seed."""

    @property
    def name(self) -> str:
        """The first run's id, and how many more there are."""
        return self.runs[0] + (f" and {len(self.runs) - 1} more" if len(self.runs) > 1 else "")


def seed_groups(records: Sequence[RunRecord], basis: Basis) -> list[SeedGroup]:
    """Group runs that differ only in their seed (and in keys beside training), the best mean first."""
    found: dict[str, list[RunRecord]] = {}
    for record in records:
        found.setdefault(digest_json(_identity(record)), []).append(record)
    groups = [_group(members, basis) for members in found.values()]
    return sorted(groups, key=lambda group: -math.inf if group.mean is None else basis.sign * group.mean, reverse=True)


def _identity(record: RunRecord) -> list[Any]:
    config = flatten(record.config.model_dump(mode="json"))
    kept = {key: value for key, value in config.items() if key != "seed" and not is_beside_training(key)}
    return [kept, record.config.selection.metric, record.data.fingerprint, record.code.meaning or record.code.digest]


def _group(members: list[RunRecord], basis: Basis) -> SeedGroup:
    values = [value for record in members if (value := basis.value_of(record)) is not None]
    return SeedGroup(
        runs=[record.run.run_id for record in members],
        seeds=len({record.config.seed for record in members}),
        metric=basis.key_of(members[0]),
        mean=statistics.fmean(values) if values else None,
        deviation=statistics.stdev(values) if len(values) > 1 else None,
    )


def claims(groups: Sequence[SeedGroup]) -> list[str]:
    """Return what the values of the best two groups allow to say of their difference."""
    valued = [group for group in groups if group.mean is not None]
    if len(valued) < 2 or len({group.metric for group in valued}) > 1:
        return []
    first, second = valued[:2]
    apart = abs((first.mean or 0.0) - (second.mean or 0.0))
    few = [group for group in (first, second) if group.seeds < LEAST_SEEDS]
    if few:
        seeds = " and ".join(f"{group.seeds} seed{'s' if group.seeds > 1 else ''} ({group.name})" for group in few)
        return [
            f"No claim that one is better: {seeds}, and another seed may change the {apart:.4g} by which "
            f"they differ in {first.metric}. {LEAST_SEEDS} seeds of each would tell."
        ]
    error = math.sqrt(sum((group.deviation or 0.0) ** 2 / len(group.runs) for group in (first, second)))
    spread = (
        f"{apart:.4g} apart in {first.metric}, {apart / error:.1f} standard errors" if error else f"{apart:.4g} apart"
    )
    if apart > ERRORS_APART * error:
        return [f"{first.name} is better than {second.name}: means {spread} ({first.seeds} and {second.seeds} seeds)."]
    return [f"No claim that {first.name} is better than {second.name}: means {spread}."]
