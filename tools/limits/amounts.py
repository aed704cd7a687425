"""Amounts: what a run uses of each limit, and what a project may use under the owner's limits and grants."""

from __future__ import annotations

from typing import Any, Self

from sqlalchemy.orm import Session

from trainwright.tools.owner import Grant, granted
from trainwright.tools.workspace import Settings, Workspace
from trainwright.tools.workspace.settings import LEAST, ProjectLimits
from trainwright.tools.workspace.tables import Project
from trainwright.trainer.base.records import Frozen
from trainwright.trainer.base.time_units import HOUR
from trainwright.trainer.run import Limits


class Amounts(Frozen):
    """Four amounts that add up over runs."""

    wall_clock_seconds: float = 0.0
    gpu_hours: float = 0.0
    money: float = 0.0
    disk_bytes: float = 0.0

    @classmethod
    def of_work(cls, seconds: float, gpus: int, price_per_gpu_hour: float, disk_bytes: float = 0.0) -> Self:
        """Return the amounts of so many seconds of work on so many devices."""
        hours = seconds * gpus / HOUR
        money = hours * price_per_gpu_hour
        return cls(wall_clock_seconds=seconds, gpu_hours=hours, money=money, disk_bytes=disk_bytes)

    def __add__(self, other: Amounts) -> Amounts:
        """Add each amount."""
        return Amounts(**{name: getattr(self, name) + getattr(other, name) for name in AMOUNTS})

    def beyond(self, other: Amounts) -> Amounts:
        """Return by how much each amount exceeds the other's; none is negative."""
        return Amounts(**{name: max(0.0, getattr(self, name) - getattr(other, name)) for name in AMOUNTS})


AMOUNTS = tuple(Amounts.model_fields)


class Reservation(Frozen):
    """Amounts reserved for a run from its start to its end; recorded in the ledger with its permit."""

    share: Amounts
    gpus: int
    """Devices that the run is expected to work on; its worker counts those that it finds."""
    price_per_gpu_hour: float
    limits: Limits
    """Limits that the worker enforces on itself."""

    def until(self, epoch: int | None) -> Self:
        """Return the reservation of a run that is to stop after an epoch; None: at its end."""
        return self.model_copy(update={"limits": self.limits.model_copy(update={"until_epoch": epoch})})


def effective_limits(session: Session, workspace: Workspace, project: Project) -> ProjectLimits:
    """Return the limits in force for the project."""
    grants = [request.grant for request in granted(session, workspace, project.name)]
    return limits_under(workspace.settings, project.limits, grants)


def limits_under(settings: Settings, requested: dict[str, Any], grants: list[Grant]) -> ProjectLimits:
    """Return the limits of a project that requested these, under the owner's settings and grants."""
    values: dict[str, Any] = {
        name: (max if name in LEAST else min)(requested.get(name, value), value)
        for name, value in settings.limits.model_dump().items()
    }
    for grant in grants:
        if grant.kind == "limit" and grant.value is not None:
            looser = min if grant.name in LEAST else max
            values[grant.name] = type(values[grant.name])(looser(values[grant.name], grant.value))
    return ProjectLimits.model_validate(values)
