"""Estimates as records, which travel as JSON from the worker process to the server. Light: free of torch."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

PARTS = (
    "weights", "buffers", "gradients", "optimizer", "activations", "temporary", "batch", "exchange", "context",
    "margin",
)  # fmt: skip
"""activations are kept for the backward pass (recomputed ones as they are again); temporary: working space of the
passes and the update, gradients of activations included; exchange: buffers of several processes; context: what a GPU
takes for itself; margin: the estimator's allowance, so that no estimate lies below."""


@dataclass(frozen=True)
class MemoryEstimate:
    """Peak memory of one device over the first steps of training."""

    parts: dict[str, int]
    """Bytes at the peak, by the names of PARTS."""
    strategy: str = "single"
    devices: int = 1
    device_kind: str = "cpu"
    parameters: int = 0
    trained_parameters: int = 0
    trained_bytes: int = 0
    """Of the trained weights on one device, undivided."""
    weights_bytes: int = 0
    """Of all weights, undivided."""
    state_bytes: int = 0
    """Of the optimizer's state, undivided, after a step."""
    largest_layer_bytes: int = 0
    """Of the largest group of weights that a divided strategy gathers at once."""
    batch_size: int | None = None
    """Samples of one micro-batch on one device."""
    batch_shapes: list[list[int]] = field(default_factory=list)
    peak_phase: str = ""
    """Where the peak is: try (the first batch, tried), forward, backward or update."""
    error_percent: float | None = None
    """Largest error of this estimator in benchmarks/memory; None: what the figures are of was not measured."""
    notes: list[str] = field(default_factory=list)
    """Assumptions that the figures rest on."""

    @property
    def peak_bytes(self) -> int:
        """Bytes to compare with the device's memory: the sum of the parts."""
        return sum(self.parts.values())

    def changed(self, strategy: str, devices: int, *notes: str, **parts: int) -> Self:
        """Return the estimate with some parts replaced."""
        return replace(
            self, strategy=strategy, devices=devices, parts={**self.parts, **parts}, notes=[*self.notes, *notes]
        )

    def as_dict(self) -> dict[str, Any]:
        """Return JSON types, the peak among them."""
        return {**asdict(self), "peak_bytes": self.peak_bytes}

    @classmethod
    def from_dict(cls, given: dict[str, Any]) -> Self:
        """Return the estimate of `as_dict`."""
        return cls(**{name: value for name, value in given.items() if name != "peak_bytes"})


@dataclass(frozen=True)
class Work:
    """Arithmetic and traffic of training on one device, counted and not timed."""

    flops_per_step: float
    """Of one update, all its micro-batches, forward and backward."""
    bytes_per_step: float
    """Read and written by the step's operations one by one, as plain PyTorch runs them."""
    forward_flops: float
    """Of one micro-batch's forward pass."""
    forward_bytes: float
    operations_per_step: int
    update_bytes: float
    """Read and written by the update alone."""
    exchanged_bytes: float
    """Gradients of one update, which several processes sum."""
    steps: int
    """Updates of the full run."""
    epochs: int
    validation_batches: int
    """Of one validation."""
    validations: int
    samples_per_step: int
    """Of all processes together."""

    def as_dict(self) -> dict[str, Any]:
        """Return JSON types."""
        return asdict(self)


@dataclass(frozen=True)
class TimeEstimate:
    """Seconds of the whole run."""

    seconds_low: float
    seconds_high: float
    seconds: float | None = None
    """Best single figure: after a probe's measured steps alone."""
    step_seconds_low: float = 0.0
    step_seconds_high: float = 0.0
    source: str = "roofline"
    """roofline (counted, nothing ran) or probe (measured steps)."""
    basis: str = ""
    """What the figures are made of, in words."""

    def as_dict(self) -> dict[str, Any]:
        """Return JSON types."""
        return asdict(self)


@dataclass(frozen=True)
class Estimate:
    """What a worker process finds out of a configuration."""

    memory: MemoryEstimate
    work: Work

    def as_dict(self) -> dict[str, Any]:
        """Return JSON types."""
        return {"memory": self.memory.as_dict(), "work": self.work.as_dict()}

    @classmethod
    def from_dict(cls, given: dict[str, Any]) -> Self:
        """Return the estimate of `as_dict`."""
        return cls(MemoryEstimate.from_dict(given["memory"]), Work(**given["work"]))
