"""Seconds of a run: an interval from counted work before anything ran, and a figure after a probe. Light.

Williams et al. 2009, "Roofline": an operation takes at least its arithmetic at the device's peak, and at least its
bytes at the memory's bandwidth. Below the interval's low end no run can be, at any fusion; its high end takes the
operations one by one, as plain PyTorch runs them, at the rates that real models reach.
"""

from __future__ import annotations

from trainwright.trainer.estimation.hardware import Accelerator
from trainwright.trainer.estimation.results import TimeEstimate, Work

LOW_ARITHMETIC, HIGH_ARITHMETIC = 0.8, 0.15
"""Shares of the peak FLOP/s: the best that large products reach, and what small ones do. Training of large models is
reported at 0.3 to 0.55 (Chowdhery et al. 2022, PaLM, arXiv:2204.02311, table 3)."""
LOW_TRAFFIC, HIGH_TRAFFIC = 1.0, 0.35
"""Shares of the bandwidth."""
KEPT_IN_CACHES = 0.25
"""Share of the counted traffic that a low end must still move: the rest may be fused, or stay in caches."""
LAUNCH_SECONDS = {"cuda": 8e-6, "rocm": 10e-6, "cpu": 12e-6}
"""Of one operation from Python, in plain PyTorch."""
PROVISIONING_SECONDS = (120.0, 600.0)
"""Of a rented machine before a run starts: boot, image, packages. Assumed; most platforms bill it."""
START_SECONDS = (5.0, 60.0)
"""From a worker's start to its first step, where no run was measured. Assumed."""
PROBE_SPREAD = 0.05
"""Around a figure from a probe: its 20 steps, against the whole run's."""


def estimate_time(
    work: Work,
    hardware: Accelerator,
    *,
    precision: str,
    devices: int = 1,
) -> TimeEstimate:
    """Return the seconds of the whole run on so many devices, each with the micro-batch that was counted.

    Args:
        work: counted on one device.
        precision: training.precision.

    Raises:
        ValueError: the hardware has no rate for the precision.
    """
    low = _roofline(work, hardware, precision, is_low=True)
    high = _roofline(work, hardware, precision, is_low=False)
    exchange = _exchange(work, hardware, devices)
    step_low, step_high = max(low, exchange), high + exchange
    forward_low = _seconds(work.forward_flops, work.forward_bytes, hardware, precision, is_low=True)
    forward_high = _seconds(work.forward_flops, work.forward_bytes, hardware, precision, is_low=False)
    evaluated = work.validation_batches * work.validations / devices
    return TimeEstimate(
        seconds_low=work.steps * step_low + evaluated * forward_low,
        seconds_high=work.steps * step_high + evaluated * forward_high,
        step_seconds_low=step_low,
        step_seconds_high=step_high,
        basis=f"{work.flops_per_step:.3g} FLOP and {work.bytes_per_step:.3g} bytes a step, counted; {hardware.name}",
    )


def _roofline(work: Work, hardware: Accelerator, precision: str, *, is_low: bool) -> float:
    launch = LAUNCH_SECONDS.get(hardware.kind, 10e-6) * work.operations_per_step
    seconds = _seconds(work.flops_per_step, work.bytes_per_step, hardware, precision, is_low=is_low)
    if is_low:
        return max(seconds, work.update_bytes * KEPT_IN_CACHES / hardware.bandwidth_bytes_per_second)
    return seconds + launch


def _seconds(flops: float, moved_bytes: float, hardware: Accelerator, precision: str, *, is_low: bool) -> float:
    peak, bandwidth = hardware.peak(precision), hardware.bandwidth_bytes_per_second
    if is_low:
        return max(flops / (LOW_ARITHMETIC * peak), KEPT_IN_CACHES * moved_bytes / (LOW_TRAFFIC * bandwidth))
    return flops / (HIGH_ARITHMETIC * peak) + moved_bytes / (HIGH_TRAFFIC * bandwidth)


def _exchange(work: Work, hardware: Accelerator, devices: int) -> float:
    """Return the seconds of a ring's sum of the gradients, as if nothing overlapped it."""
    return 0.0 if devices == 1 else 2 * (devices - 1) / devices * work.exchanged_bytes / hardware.link


def after_probe(
    step_seconds: float, steps: int, forward_seconds: float = 0.0, validation_batches: int = 0
) -> TimeEstimate:
    """Return the seconds of the whole run from a probe's measured steps.

    Args:
        forward_seconds: of one micro-batch, which a batch of validation takes about as long as.
        validation_batches: of all validations together.
    """
    seconds = steps * step_seconds + validation_batches * forward_seconds
    return TimeEstimate(
        seconds_low=seconds * (1 - PROBE_SPREAD),
        seconds_high=seconds * (1 + PROBE_SPREAD),
        seconds=seconds,
        step_seconds_low=step_seconds * (1 - PROBE_SPREAD),
        step_seconds_high=step_seconds * (1 + PROBE_SPREAD),
        source="probe",
        basis=f"steps of {1e3 * step_seconds:.3g} ms, measured, and validations by their forward pass",
    )
