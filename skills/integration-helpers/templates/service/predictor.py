"""The model: files that are compared with their digests, then run by ONNX Runtime. No torch, no user code."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

TYPES = {
    "tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16,
    "tensor(uint8)": np.uint8, "tensor(int64)": np.int64, "tensor(int32)": np.int32, "tensor(bool)": np.bool_,
}  # fmt: skip


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


class Predictor:
    """Runs the program on prepared inputs.

    Args:
        folder: of the service.
        threads: of one run.
    """

    def __init__(self, folder: Path, threads: int) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = threads
        program = str(folder / "model" / "model.onnx")
        self.session = onnxruntime.InferenceSession(program, options, providers=["CPUExecutionProvider"])
        self.inputs = {given.name: TYPES[given.type] for given in self.session.get_inputs()}
        self.output = self.session.get_outputs()[0].name
        first = [given.shape[0] for given in self.session.get_inputs() if given.shape]
        self.batch = next((size for size in first if isinstance(size, int)), None)
        """How many rows the program takes at a time; None: any number."""

    def outputs(self, inputs: Mapping[str, np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
        """Return the program's first output, (rows, ...), for inputs (rows, ...) by name or in the program's order."""
        named = inputs if set(self.inputs) <= inputs.keys() else dict(zip(self.inputs, inputs.values(), strict=False))
        feed: dict[str, Any] = {
            name: np.ascontiguousarray(named[name], dtype=kind) for name, kind in self.inputs.items()
        }
        count = len(next(iter(feed.values())))
        size = self.batch or count
        parts = []
        for at in range(0, count, size):
            part = {name: _filled(value[at : at + size], size) for name, value in feed.items()}
            parts.append(self.session.run([self.output], part)[0])
        found: np.ndarray[Any, Any] = (parts[0] if len(parts) == 1 else np.concatenate(parts))[:count]
        return found


def finite(outputs: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return outputs as float64. Raises NotFiniteError for one that is no finite number."""
    found = np.asarray(outputs, dtype=np.float64)
    if not np.isfinite(found).all():
        raise NotFiniteError("the model gave no finite number for this row")
    return found


def _filled(rows: np.ndarray[Any, Any], size: int) -> np.ndarray[Any, Any]:
    """Return rows repeated up to the number that the program takes."""
    return rows if len(rows) == size else np.resize(rows, (size, *rows.shape[1:]))
