"""The torch model of a released folder, made again: the parts of `load.py`, which imports nothing of ours."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any


def from_source(how: dict[str, Any], folder: Path) -> Any:
    """Return the model that the folder's source makes, with the folder's weights, in evaluation mode."""
    from importlib import import_module

    from safetensors.torch import load_file

    for place in how["paths"]:
        sys.path.insert(0, str(folder / place))
    made: Any = import_module(how["module"])
    for part in how["name"].split("."):
        made = getattr(made, part)
    model = made(*how["args"], **how["options"])
    model.load_state_dict(load_file(folder / how["weights"]))
    return model.eval()


def from_library(how: dict[str, Any], folder: Path) -> Any:
    """Return the model that plain transformers reads from the folder, in evaluation mode."""
    import transformers

    kind = getattr(transformers, how["name"])
    return kind.from_pretrained(folder / how["folder"], local_files_only=True, use_safetensors=True).eval()
