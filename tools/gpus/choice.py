"""Choice of a run's GPUs: a function of the inventory, of who is on which GPU, and of who waits."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from trainwright.tools.gpus.assign import Claim, Waiter
    from trainwright.tools.gpus.inventory import Device
    from trainwright.tools.launchers.environment import Gpu

WHOLE = Fraction(1)
GIB = 1024**3


@dataclass(frozen=True)
class Need:
    """How a run wants its GPUs, beside their number."""

    runs_per_gpu: int = 1
    """With how many like it one GPU is shared, itself counted."""
    needed_bytes: int | None = None
    """Memory of each GPU that it is going to use; None: not known."""
    waits: bool = False
    """Whether it waits for a place of its own; else it shares the least loaded GPU when all are taken."""
    since: float | None = None
    """Unix seconds since it waits; None: it has just come."""


@dataclass(frozen=True)
class Assignment:
    """What a run is given: no GPU at all, or as many as it has processes."""

    gpus: tuple[Gpu, ...] = ()
    runs_per_gpu: int = 1
    beside: tuple[str, ...] = ()
    """Runs that are on these GPUs already though a place was not left for this one."""
    hides_gpus: bool = False
    """Whether it is to be shown none, whatever this machine shows its processes."""


@dataclass
class _Loads:
    """What of each GPU is taken, by id."""

    taken: dict[str, Fraction] = field(default_factory=dict)

    @classmethod
    def of(cls, claims: Iterable[Claim]) -> _Loads:
        loads = cls()
        for claim in claims:
            loads.add(claim.gpus, claim.share)
        return loads

    def add(self, ids: Iterable[str], share: Fraction) -> None:
        for one in ids:
            self.taken[one] = self.at(one) + share

    def at(self, id_: str) -> Fraction:
        return self.taken.get(id_, Fraction(0))

    def least(self, devices: Iterable[Device]) -> list[Device]:
        """Return the GPUs, the least loaded first; of equals, those with the most free memory, in whole GiB."""
        return sorted(devices, key=lambda device: (self.at(device.gpu.id), -(device.free_bytes or 0) // GIB))


def choose(
    devices: Sequence[Device], claims: Sequence[Claim], me: Waiter, need: Need, waiters: Sequence[Waiter] = ()
) -> Assignment | None:
    """Return the run's GPUs; None: it has to wait.

    The least loaded come first, and all of one kind where one kind has enough. A run that waits leaves a place to each
    waiting run whose project has fewer GPUs at present, or as many and waits longer, on a GPU that has room for it. One
    that does not wait shares.

    Args:
        devices: those it may use; at least `me.count`.
        claims: of the runs under way.
        me: the run: its project, how many GPUs, of which kind.
        waiters: others that wait.
    """
    share = Fraction(1, need.runs_per_gpu)
    real, loads = _Loads.of(claims), _Loads.of(claims)
    for other in _ahead(me, need, waiters, claims) if need.waits else ():
        taken = loads.least(_fitting(devices, real, other))[: other.count]
        loads.add([device.gpu.id for device in taken], Fraction(1, other.runs_per_gpu))
    free = [device for device in devices if _has_room(device, loads, share, need.needed_bytes)]
    found = _of_one_kind(loads.least(free), me.count)
    if len(found) == me.count:
        return Assignment(tuple(device.gpu for device in found), need.runs_per_gpu)
    if need.waits:
        return None
    found = _of_one_kind(real.least(devices), me.count)
    ids = {device.gpu.id for device in found}
    beside = tuple(claim.run for claim in claims if ids.intersection(claim.gpus))
    return Assignment(tuple(device.gpu for device in found), need.runs_per_gpu, beside)


def _ahead(me: Waiter, need: Need, waiters: Sequence[Waiter], claims: Sequence[Claim]) -> list[Waiter]:
    """Return the waiting runs that come before this one, which may stand among them itself, in their turn."""

    def turn(waiter: Waiter) -> tuple[Fraction, float]:
        held = sum((claim.share * len(claim.gpus) for claim in claims if claim.project == waiter.project), Fraction(0))
        return held, waiter.since

    mine = (turn(me)[0], float("inf") if need.since is None else need.since)
    return sorted((one for one in waiters if turn(one) < mine), key=turn)


def _fitting(devices: Sequence[Device], real: _Loads, waiter: Waiter) -> list[Device]:
    """Return the GPUs of which a place is left to a waiting run: none where too few have room for it.

    What a run of this workspace holds is given back when it ends; what others hold may stay.
    """
    alike = [device for device in devices if waiter.kind in {None, device.gpu.name}]
    needed = waiter.needed_bytes
    fitting = [
        device
        for device in alike
        if has_memory(device, needed) and (real.at(device.gpu.id) or not _is_full(device, needed))
    ]
    return fitting if len(fitting) >= min(waiter.count, len(alike)) else []


def has_memory(device: Device, needed_bytes: int | None) -> bool:
    """Return whether the whole GPU would do; one whose memory is not known may."""
    return needed_bytes is None or not 0 < device.gpu.memory_bytes < needed_bytes


def _is_full(device: Device, needed_bytes: int | None) -> bool:
    return needed_bytes is not None and device.free_bytes is not None and device.free_bytes < needed_bytes


def _has_room(device: Device, loads: _Loads, share: Fraction, needed_bytes: int | None) -> bool:
    """Return whether a share of the GPU is left, and memory, which others than this workspace's runs may hold too."""
    return loads.at(device.gpu.id) + share <= WHOLE and not _is_full(device, needed_bytes)


def _of_one_kind(ordered: Sequence[Device], count: int) -> list[Device]:
    """Return the first `count` GPUs of one kind, of the kind that has so many first; of several if none has."""
    by_kind: dict[str, list[Device]] = {}
    for device in ordered:
        alike = by_kind.setdefault(device.gpu.name, [])
        alike.append(device)
        if len(alike) == count:
            return alike
    return list(ordered[:count])
