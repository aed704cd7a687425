"""The model: files that are compared with their digests, and its own predict.py, which runs the program."""

from __future__ import annotations

import base64
import hashlib
import json
import runpy
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np


class NotTheModelError(SystemExit):
    """A file is not the one that this service was generated for."""


def read_signature(folder: Path) -> dict[str, Any]:
    """Return signature.json, after a check of the model's files. Raises NotTheModelError."""
    signature: dict[str, Any] = json.loads((folder / "signature.json").read_text(encoding="utf-8"))
    for name, wanted in signature["files"].items():
        path = folder / "model" / name
        found = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "none: it is not there"
        if found != wanted:
            raise NotTheModelError(
                f"model/{name} is not the released file. Its SHA-256 must be {wanted}; found: {found}. "
                "Generate the service again from final_model/: trainwright deploy."
            )
    return signature


class NotFiniteError(Exception):
    """The program gave an output that is no finite number."""


@cache
def shipped(model: Path) -> dict[str, Any]:
    """Return what predict.py defines, which prepares inputs, runs the program and words its answers."""
    return runpy.run_path(str(model / "predict.py"))


def program(model: Path, threads: int) -> Any:
    """Return the program: its first output, (rows, ...), for inputs (rows, ...) by name. `threads` are of one run."""
    return shipped(model)["Program"](model / "model.onnx", (), threads)


def content_of(text: str) -> bytes:
    """Return the content of a file that is given in base64, or as a data URL. Raises ValueError."""
    try:
        return base64.b64decode(text.partition(",")[2] if text.startswith("data:") else text, validate=True)
    except ValueError:  # binascii's for a wrong letter, its own for one beyond ASCII
        raise ValueError("it is no base64") from None


def finite(outputs: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return outputs as float64. Raises NotFiniteError for one that is no finite number."""
    found = np.asarray(outputs, dtype=np.float64)
    if not np.isfinite(found).all():
        raise NotFiniteError("the model gave no finite number for this row")
    return found
