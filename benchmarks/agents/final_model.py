"""A released model as an outsider finds it: its program, the rows that were held back, and the figures it claims."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from task import Array

BATCH = 64
SPLIT = "test"


@dataclass(frozen=True)
class HeldBack:
    """The rows of the test split: inputs by name, in the order of the call, and targets."""

    inputs: dict[str, Array]
    targets: Array


class ReleasedModel:
    """A folder `final_model/`. Raises ValueError where what is in it is not what it says."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        record = folder / "evaluation.json"
        self.record: dict[str, Any] = json.loads(record.read_text(encoding="utf-8")) if record.is_file() else {}

    def claims(self) -> dict[str, dict[str, float]]:
        """Return the figures of the test split by the file that has them, by metric."""
        measured = json.loads((self.folder / "metrics.json").read_text(encoding="utf-8"))[SPLIT]
        found = {"metrics.json": dict(measured["metrics"])}
        if self.record:
            certified = self.record["certified"].get(SPLIT, {})
            found["evaluation.json"] = {name: value for name, value in certified.items() if name != "rows"}
        card = (self.folder / "README.md").read_text(encoding="utf-8").split("---\n")[1]
        results = [one for model in yaml.safe_load(card).get("model-index") or [] for one in model["results"]]
        shown = [metric for one in results if one["dataset"].get("split") == SPLIT for metric in one["metrics"]]
        return {**found, "README.md": {metric["type"]: metric["value"] for metric in shown}}

    def held_back(self) -> HeldBack:
        """Return the rows that planning fixed for the test."""
        rows = self.record["order"]["rows"]["record"]
        if SPLIT not in rows.get("splits", {}):
            raise ValueError(rows.get("problem") or "no rows of the test split were fixed")
        found = rows["splits"][SPLIT]
        place = self.folder if (self.folder / "rows").is_dir() else self.folder / self.record["rows"]
        inputs = {name: self._array(place, found["inputs"][name]) for name in found["order"]}
        return HeldBack(inputs, self._array(place, found["target"]))

    def outputs(self, inputs: dict[str, Array]) -> Array:
        """Return the program's first output for all rows, (rows, ...)."""
        order = self.record["order"]["program"]
        self._require(self.folder / order["path"], order["digest"])
        call = self._onnx() if order["form"] == "onnx" else self._torch_export()
        size = len(next(iter(inputs.values())))
        batches = [slice(start, start + BATCH) for start in range(0, size, BATCH)]
        return np.concatenate([call({name: array[batch] for name, array in inputs.items()}) for batch in batches])

    def _onnx(self) -> Any:
        import onnxruntime

        path = self.folder / self.record["order"]["program"]["path"]
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        names = [given.name for given in session.get_inputs()]
        return lambda inputs: session.run(None, _named(names, inputs))[0]

    def _torch_export(self) -> Any:
        import torch

        path = self.folder / self.record["order"]["program"]["path"]
        module = torch.export.load(path).module(check_guards=False)

        def call(inputs: dict[str, Array]) -> Array:
            with torch.no_grad():
                found = module(*(torch.from_numpy(np.array(array)) for array in inputs.values()))
            first = found if isinstance(found, torch.Tensor) else next(iter(found))
            return np.asarray(first.float().numpy())

        return call

    def _array(self, place: Path, record: dict[str, Any]) -> Array:
        if record.get("shapes"):
            raise ValueError(f"{record['path']} holds rows of several shapes, which this verifier does not read")
        self._require(place / record["path"], record["digest"])
        return np.asarray(np.load(place / record["path"], allow_pickle=False))

    def _require(self, path: Path, digest: str) -> None:
        if not path.is_file():
            raise ValueError(f"{path.name} is missing")
        if hashlib.sha256(path.read_bytes()).hexdigest() != digest:
            raise ValueError(f"{path.name} is not the file that evaluation.json names")


def _named(names: list[str], inputs: dict[str, Array]) -> dict[str, Array]:
    """Return the inputs by the program's own names: equal ones, else by their order."""
    if set(names) <= set(inputs):
        return {name: inputs[name] for name in names}
    return dict(zip(names, inputs.values(), strict=True))
