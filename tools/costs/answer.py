"""Answer of an estimate: hours and sums as intervals, what they depend on, and what is assumed."""

from __future__ import annotations

from typing import Any

from trainwright.tools.answers import Answer
from trainwright.trainer.base.records import Frozen

Bounds = tuple[float, float]
"""The least and the most."""


class PlatformCost(Frozen):
    """Cost of the request on one platform's device. Sums are in the answer's currency."""

    platform: str
    accelerator: str
    spot: bool | None = None
    price_per_gpu_hour: float
    price_date: str
    basis: str
    """measured; measured and scaled; counted (nothing ran)."""
    training_hours: Bounds
    training: Bounds
    search: Bounds | None = None
    search_hours: Bounds | None = None
    gpu_hours: Bounds | None = None
    """Training and search, times the devices of one run: what the owner's limit counts. Absent on a processor."""
    storage: float | None = None
    total: Bounds
    per_1000_requests: Bounds | None = None
    """Seconds of prediction alone: a service that costs nothing while it is idle."""
    requests_per_month: Bounds | None = None
    always_on_per_month: Bounds | None = None
    """Of replicas that never stop, enough for the requests."""

    def unsaid(self) -> set[str]:
        """The price's day, which a warning tells where it is old, and parts that are all of the total."""
        alone = {"training"} if self.search is None and not self.storage else set()
        hours = {"gpu_hours"} if self.gpu_hours == self.training_hours else set()
        return {"price_date"} | alone | hours | (set() if self.requests_per_month else {"per_1000_requests"})


class SpotCost(Frozen):
    """A spot price beside the lasting one of the same platform and device."""

    platform: str
    accelerator: str
    saves_percent: float
    """Of the hour's price."""
    break_even_interruptions_per_day: float
    """Of work; with fewer, the spot machine is cheaper."""
    worth_it: bool | None = None
    """At the interruptions that the call says; absent without."""


class CostAnswer(Answer):
    """What training, search, storage and prediction cost, the cheapest platform first."""

    project: str
    currency: str
    basis: str
    """The run that was measured, or that none was."""
    work: dict[str, Any]
    """runs, epochs, trials, gpus, and what a pruner saves."""
    platforms: list[PlatformCost]
    left_out: int | None = None
    """Dearer platforms that are not listed."""
    not_priced: list[str] | None = None
    """Rows that cannot be used, with the reason."""
    spot: list[SpotCost] | None = None
    restart: str | None = None
    """What an interruption costs, and whether it was measured."""
    checkpoints: dict[str, Any] | None = None
    """gb that all runs keep, and how that is known."""
    owner_limit: str | None = None
    assumed: list[str]
    warnings: list[str] | None = None

    def unsaid(self) -> dict[str, Any]:
        """Of each platform what its total says, and what nothing was asked about."""
        return {"platforms": {place: one.unsaid() for place, one in enumerate(self.platforms)}}
