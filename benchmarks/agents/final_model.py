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
TEST, VALIDATION = "test", "validation"
PROGRAMS = {"onnx": "model.onnx", "torch_export": "model.pt2"}


@dataclass(frozen=True)
class HeldBack:
    """The rows of a split: inputs by name, in the order of the call, and targets."""

    inputs: dict[str, Array]
    targets: Array


class ReleasedModel:
    """A folder `final_model/`. Raises ValueError where what is in it is not what it says.

    Where nothing was certified, as of metrics by the user's code, its program and the newest planning run's rows count.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        path = folder / "evaluation.json"
        self.is_certified = path.is_file()
        self.record: dict[str, Any] = _read(path) if self.is_certified else self._uncertified()

    def claims(self) -> dict[str, dict[str, float]]:
        """Return the figures of the test split by the file that has them, by metric."""
        found = {"metrics.json": dict(_read(self.folder / "metrics.json")[TEST]["metrics"])}
        if self.is_certified:
            certified = self.record["certified"].get(TEST, {})
            found["evaluation.json"] = {name: value for name, value in certified.items() if name != "rows"}
        card = (self.folder / "README.md").read_text(encoding="utf-8").split("---\n")[1]
        results = [one for model in yaml.safe_load(card).get("model-index") or [] for one in model["results"]]
        shown = [metric for one in results if one["dataset"].get("split") == TEST for metric in one["metrics"]]
        return {**found, "README.md": {metric["type"]: metric["value"] for metric in shown}}

    def held_back(self, split: str = TEST) -> HeldBack:
        """Return the rows that planning fixed for a split."""
        rows = self.record["order"]["rows"]["record"]
        if split not in rows.get("splits", {}):
            raise ValueError(rows.get("problem") or f"no rows of the {split} split were fixed")
        found = rows["splits"][split]
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

    def _uncertified(self) -> dict[str, Any]:
        rows = sorted(
            self.folder.parent.glob("runs/smoke-*/artifacts/fixed_rows.json"), key=lambda one: one.stat().st_mtime
        )
        form, program = next((each for each in PROGRAMS.items() if (self.folder / each[1]).is_file()), ("", ""))
        if not rows or not program:
            raise ValueError("nothing was certified, and there is no program, or no rows, to compute a figure from")
        digest = hashlib.sha256((self.folder / program).read_bytes()).hexdigest()
        order = {"program": {"path": program, "form": form, "digest": digest}, "rows": {"record": _read(rows[-1])}}
        return {"order": order, "rows": f"../{rows[-1].parent.relative_to(self.folder.parent)}"}

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


def _read(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text(encoding="utf-8")))


def _named(names: list[str], inputs: dict[str, Array]) -> dict[str, Array]:
    """Return the inputs by the program's own names: equal ones, else by their order."""
    if set(names) <= set(inputs):
        return {name: inputs[name] for name in names}
    return dict(zip(names, inputs.values(), strict=True))
