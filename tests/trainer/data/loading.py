"""Built-in sources as tests load them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.data.sources import load_source


def load(name: str, path: Path | None = None, split: SplitSection | None = None, **args: Any) -> Any:
    """Return what a source holds, of a file in the folder that is its code root."""
    if path is None:
        return load_source(name, args, Path(), split or SplitSection())
    return load_source(name, {"path": path.name, **args}, path.parent, split or SplitSection())
