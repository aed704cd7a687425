"""Rows and a program on disk, and the clean room as the process that it is."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trainwright.trainer import clean_room

ENTRY = Path(clean_room.__file__).resolve().parent / "__main__.py"
LIBRARIES = [str(Path(np.__file__).parents[1])]


class Room:
    """A folder with rows and a linear program for them, the order that names both, and answers to orders.

    Attributes:
        inputs: (rows, 4).
        targets: class numbers (rows,).
        logits: what the program gives, (rows, 3).
    """

    def __init__(self, folder: Path, rows: int = 90) -> None:
        self.folder = folder
        (folder / "rows").mkdir()
        draws = np.random.default_rng(0)
        self.inputs = draws.normal(size=(rows, 4)).astype(np.float32)
        self.targets = draws.integers(0, 3, rows)
        weights = draws.normal(size=(4, 3)).astype(np.float32)
        self.logits = self.inputs @ weights
        self.order: dict[str, Any] = {
            "program": self.program(weights),
            "rows": {"folder": str(folder), "record": {"splits": {}}},
            "splits": ["validation"],
            "metrics": ["accuracy", "f1"],
            "loss": {"name": "cross_entropy", "args": {}},
            "task": "classification",
            "libraries": LIBRARIES,
        }
        self.fix(self.inputs, self.targets)

    def program(self, weights: np.ndarray, name: str = "model.onnx", takes: str = "input") -> dict[str, Any]:
        """Write a program that multiplies one input by the weights; return its part of an order."""
        from onnx import TensorProto, helper, numpy_helper

        graph = helper.make_graph(
            [helper.make_node("MatMul", [takes, "weights"], ["output"])], "linear",
            [helper.make_tensor_value_info(takes, TensorProto.FLOAT, ["rows", *[None] * (weights.ndim - 1)])],
            [helper.make_tensor_value_info("output", TensorProto.FLOAT, None)],
            [numpy_helper.from_array(weights, "weights")],
        )  # fmt: skip
        opset = [helper.make_opsetid("", 20)]
        return self.written(name, helper.make_model(graph, opset_imports=opset, ir_version=10).SerializeToString())

    def written(self, name: str, content: bytes) -> dict[str, Any]:
        """Write a program's file; return its part of an order."""
        path = self.folder / name
        path.write_bytes(content)
        named = {"inputs": ["input"], "outputs": ["output"]}
        return {"path": str(path), "form": "onnx", "digest": hashlib.sha256(content).hexdigest(), **named}

    def array(self, name: str, values: np.ndarray, shapes: np.ndarray | None = None) -> dict[str, Any]:
        """Write an array below rows/; return its record."""
        path = self.folder / "rows" / f"{name}.npy"
        np.save(path, values)
        return {
            "path": f"rows/{name}.npy", "digest": hashlib.sha256(path.read_bytes()).hexdigest(),
            "dtype": values.dtype.name, "shape": list(values.shape),
            "shapes": None if shapes is None else self.array(f"{name}_shapes", shapes),
        }  # fmt: skip

    def fix(self, inputs: np.ndarray, targets: np.ndarray, *, size: int = 0) -> None:
        """Fix these rows as the validation split, of `size` rows in all."""
        self.order["rows"]["record"]["splits"]["validation"] = {
            "size": size or len(targets), "rows": len(targets), "chosen": None,
            "inputs": {"input": self.array("input", inputs)}, "target": self.array("target", targets),
        }  # fmt: skip

    def answer(self, cwd: Path | None = None, **environment: str) -> dict[str, Any]:
        """Return the clean room's answer to the order; it must be the only thing on stdout."""
        process = subprocess.run(
            [sys.executable, "-I", "-S", "-B", str(ENTRY)], input=json.dumps(self.order), text=True,
            capture_output=True, cwd=cwd, env={**os.environ, **environment}, check=False,
        )  # fmt: skip
        assert "Traceback" not in process.stderr, process.stderr
        (line,) = process.stdout.splitlines()
        answer: dict[str, Any] = json.loads(line)
        assert process.returncode == ("problem" in answer)
        return answer

    def validation(self) -> dict[str, Any]:
        """Return the answer's numbers of the validation split."""
        answer = self.answer()
        assert "problem" not in answer, answer
        found: dict[str, Any] = answer["splits"]["validation"]
        return found


@pytest.fixture
def room(tmp_path: Path) -> Room:
    """Return a room whose order can be answered."""
    return Room(tmp_path)
