"""Accelerators as an estimate needs them: memory, bandwidth, arithmetic per second. Light: free of torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal["cuda", "rocm", "cpu", "tpu"]
FALLBACK = {"tf32": ("tf32", "fp32"), "bf16": ("bf16", "fp16", "fp32"), "fp16": ("fp16", "bf16", "fp32")}
"""Precision to the rates that hold for it, the first that a record has."""
PCIE_BYTES_PER_SECOND = 25e9
"""Of a link that the record does not tell: PCIe 4.0 with 16 lanes, as measured by most."""


@dataclass(frozen=True)
class Accelerator:
    """A record of a data sheet, or of a short measurement."""

    name: str
    kind: Kind
    memory_bytes: int
    bandwidth_bytes_per_second: float
    """Of the device's memory."""
    flops_per_second: Mapping[str, float] = field(default_factory=dict)
    """Dense peak (no sparsity) by fp32, tf32, bf16, fp16, fp8, int8; what is missing is not supported."""
    link_bytes_per_second: float | None = None
    """To its neighbours, one direction; None: PCIE_BYTES_PER_SECOND."""
    date: str = ""
    """Of the record, ISO."""
    source: str = ""
    supported: bool = True
    """Whether this engine runs on it; a TPU is listed, and not supported."""

    def peak(self, precision: str) -> float:
        """Return the FLOP/s of a training precision (fp32, tf32, bf16, fp16), or of the next one that it has.

        Raises:
            ValueError: the record has no rate for it.
        """
        for name in FALLBACK.get(precision, ("fp32", "tf32", "bf16")):
            if name in self.flops_per_second:
                return self.flops_per_second[name]
        known = ", ".join(self.flops_per_second) or "none"
        raise ValueError(f"{self.name} has no rate for {precision}: its record has {known}; add flops_per_second")

    @property
    def link(self) -> float:
        """Bytes per second to a neighbour."""
        return self.link_bytes_per_second or PCIE_BYTES_PER_SECOND

    def as_dict(self) -> dict[str, Any]:
        """Return JSON types."""
        return {**vars(self), "flops_per_second": dict(self.flops_per_second)}
