"""GPU of a launch: which device a worker is given, by a name that CUDA takes and that no other device has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict

if TYPE_CHECKING:
    from collections.abc import Sequence

VISIBLE = "CUDA_VISIBLE_DEVICES"


class Gpu(BaseModel):
    """One device: a whole GPU, or an instance of one that MIG divides."""

    model_config = ConfigDict(frozen=True)

    id: str
    """As CUDA_VISIBLE_DEVICES names it: a UUID (`GPU-…`, `MIG-…`) where the driver says one, else a number."""
    index: int | None = None
    """NVML's number of the GPU; None where the owner's list alone tells of it."""
    name: str = ""
    """Kind of device. Bits differ between kinds, so a study keeps to one."""
    memory_bytes: int = 0
    """Of the whole device; 0: not known."""

    def __str__(self) -> str:
        """Return it as answers show it: `GPU 0, NVIDIA A100-SXM4-40GB (GPU-5c…)`."""
        place = "GPU" if self.index is None else f"GPU {self.index}"
        return f"{place}, {self.name} ({self.id})" if self.name else f"{place} ({self.id})"


def visible(gpus: Sequence[Gpu], *, hides_gpus: bool = False) -> dict[str, str]:
    """Return the variable that shows a worker its GPUs alone, or none at all; empty where nothing was decided."""
    return {VISIBLE: ",".join(gpu.id for gpu in gpus)} if gpus or hides_gpus else {}
