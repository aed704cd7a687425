"""Tensors in files of the safetensors format."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def save_tensors(tensors: Mapping[str, Tensor], path: Path, metadata: dict[str, str] | None = None) -> None:
    """Write tensors by name into a file that whoever may read its folder may read.

    safetensors makes files that their owner alone may read, which a service under another user cannot load.
    """
    from safetensors.torch import save_file

    save_file(dict(tensors), path, metadata)
    path.chmod(path.parent.stat().st_mode & 0o666)
