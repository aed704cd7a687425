"""Seconds of a step on other hardware, as an interval: measured ones scaled by a roofline, and counted work.

Williams et al. 2009, "Roofline": a step is bound by arithmetic or by bandwidth. Which of the two, and how far from the
bound, is not known of a measured step, so the ratio of two devices lies between that of their arithmetic and that of
their bandwidth; what waits for data or for Python does not get faster at all. Where the work of a step was counted too,
both intervals hold, and the narrower common one is taken.
"""

from __future__ import annotations

from dataclasses import dataclass

from trainwright.tools.costs.measured import Measured
from trainwright.tools.training_architect.hardware import Device
from trainwright.trainer.estimation.duration import estimate_time
from trainwright.trainer.estimation.hardware import Accelerator
from trainwright.trainer.estimation.results import Work

DIVIDED_AT_LEAST = 0.5
"""Share of the ideal speed-up that several devices reach at least: assumed, not measured."""
OTHER_CPU_TIMES = (0.25, 4.0)
"""Of one processor's seconds, that another one takes: assumed, since a row of prices says neither cores nor speed."""
MEASURED, SCALED, COUNTED = "measured", "measured and scaled", "counted"


@dataclass(frozen=True)
class Interval:
    """Seconds, or an amount of money: the least and the most."""

    low: float
    high: float

    def __add__(self, other: Interval) -> Interval:
        """Add the ends."""
        return Interval(self.low + other.low, self.high + other.high)

    def times(self, factor: float) -> Interval:
        """Return both ends times a factor."""
        return Interval(self.low * factor, self.high * factor)

    @classmethod
    def around(cls, value: float, spread: float) -> Interval:
        """Return the value with a share of it on each side."""
        return cls(value * (1 - spread), value * (1 + spread))


@dataclass(frozen=True)
class Steps:
    """Seconds of an update on a device, with where they come from."""

    seconds: Interval
    basis: str
    """MEASURED, SCALED or COUNTED."""


def step_on(
    target: Device, gpus: int, *, measured: Measured | None, source: Device | None, work: Work | None, precision: str
) -> Steps | None:
    """Return the seconds of an update on a device; None where neither a measurement nor a count reaches it.

    Args:
        gpus: devices that the run is divided among.
        measured: of the project's own run.
        source: the device that it ran on.
        work: of an update on one device, as counted before anything ran.
        precision: training.precision.
    """
    counted = _counted(work, target, gpus, precision)
    if measured is None or source is None:
        return None if counted is None else Steps(counted, COUNTED)
    own = Interval.around(measured.step_seconds, measured.spread)
    is_cpu, is_same = source.kind == target.kind == "cpu", is_same_device(source, target)
    if is_same and (is_cpu or gpus == max(measured.gpus, 1)):
        return Steps(own, MEASURED)
    if is_cpu:
        return Steps(on_other_cpu(own), SCALED)
    ratio = _ratio(source, target, precision)
    if ratio is None:
        return None if counted is None else Steps(counted, COUNTED)
    scaled = _scaled(own, ratio, measured.data_wait_share)
    scaled = _divided(scaled, gpus / max(measured.gpus, 1))
    return Steps(_common(scaled, counted), SCALED)


def on_other_cpu(own: Interval) -> Interval:
    """Return a processor's seconds as those of another, which may be a core of a server or all of a large one."""
    return Interval(own.low * OTHER_CPU_TIMES[0], own.high * OTHER_CPU_TIMES[1])


def is_same_device(one: Device, other: Device) -> bool:
    """Return whether two devices are of one kind: by name, or, of a probed one, by its row's figures."""
    figures = (one.bandwidth_gb_s, one.teraflops)
    is_alike = one.bandwidth_gb_s is not None and figures == (other.bandwidth_gb_s, other.teraflops)
    return one.kind == other.kind and (one.name == other.name or is_alike)


def _counted(work: Work | None, target: Device, gpus: int, precision: str) -> Interval | None:
    if work is None or target.accelerator is None:
        return None
    try:
        one = estimate_time(work, target.accelerator, precision=precision)
        many = estimate_time(work, target.accelerator, precision=precision, devices=gpus)
    except ValueError:  # no rate for the precision
        return None
    exchange = many.step_seconds_high - one.step_seconds_high
    divided = _divided(Interval(one.step_seconds_low, one.step_seconds_high), gpus)
    return Interval(max(divided.low, exchange if gpus > 1 else 0.0), divided.high + exchange)


def _divided(seconds: Interval, factor: float) -> Interval:
    """Return the seconds on so many times the devices: several reach from half of the ideal speed-up to all of it.

    More are at best divided by the number, at worst by half of it; fewer take at most so many times as long, and at
    least half of that, since what was measured on several may have reached no more than half.
    """
    if factor <= 1:
        return Interval(seconds.low * max(DIVIDED_AT_LEAST / factor, 1.0), seconds.high / factor)
    return Interval(seconds.low / factor, seconds.high / max(factor * DIVIDED_AT_LEAST, 1.0))


def _ratio(source: Device, target: Device, precision: str) -> Interval | None:
    """Return by what the bound part of a step gets longer; None between a processor and a GPU.

    A processor's step says nothing on a GPU's: launches, caches and number formats are others.
    """
    one, other = source.accelerator, target.accelerator
    if source.kind != target.kind or one is None or other is None:
        return None
    bandwidth = one.bandwidth_bytes_per_second / other.bandwidth_bytes_per_second
    arithmetic = _rates(one, other, precision)
    return None if arithmetic is None else Interval(min(bandwidth, arithmetic), max(bandwidth, arithmetic))


def _rates(one: Accelerator, other: Accelerator, precision: str) -> float | None:
    try:
        return one.peak(precision) / other.peak(precision)
    except ValueError:
        return None


def _scaled(own: Interval, ratio: Interval, waiting: float) -> Interval:
    """Return the seconds with the bound part scaled; the end that is not scaled stands for launches and Python."""
    low = own.low * (waiting + (1 - waiting) * min(ratio.low, 1.0))
    high = own.high * (waiting + (1 - waiting) * max(ratio.high, 1.0))
    return Interval(low, high)


def _common(scaled: Interval, counted: Interval | None) -> Interval:
    """Return what both intervals hold; where they have nothing in common, all that either holds."""
    if counted is None:
        return scaled
    low, high = max(scaled.low, counted.low), min(scaled.high, counted.high)
    if low <= high:
        return Interval(low, high)
    return Interval(min(scaled.low, counted.low), max(scaled.high, counted.high))
