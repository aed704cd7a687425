"""A released model's folder as it is read for deployment: complete, of a gate that passed, and unchanged."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from trainwright.tools.workspace.model_signature import SIGNATURE, require_signed
from trainwright.trainer.base.canonical import sha256_of_file
from trainwright.trainer.base.errors import ConfigurationError, IntegrityError, NotFoundError

FOLDER, EARLIER, LEDGER = "final_model", "releases", "ledger.jsonl"
PROGRAM = "model.onnx"
NEEDED = ("resolved.json", "metrics.json", "config.yaml", "README.md")
SERVED = (PROGRAM, f"{PROGRAM}.data", "schema.json", "predict.py", "tokenizer.json", "README.md")
"""Files that a service takes along, where they are there."""
CODE = "code"
"""Folder of the user's source; a service takes it along where predict.py calls it."""
RELEASED = "pass_gate(project=…, phase='finalization') makes final_model/ once export_model(project=…) has run."


@dataclass(frozen=True)
class FinalModel:
    """The folder of a released model.

    Attributes:
        folder: `final_model/`.
        digests: SHA-256 (hex) of the files that a service takes along, by name.
    """

    folder: Path
    digests: dict[str, str] = field(default_factory=dict)

    @classmethod
    def opened(cls, folder: Path) -> FinalModel:
        """Return the model of a folder, or of the folder above it.

        Raises:
            NotFoundError: it is no final model.
            ConfigurationError: it holds no ONNX program, so nothing but torch could serve it.
            IntegrityError: its program is not the one that was certified, or a file not the one that was signed.
        """
        folder = _inner(folder)
        missing = [name for name in NEEDED if not (folder / name).is_file()]
        if missing:
            raise NotFoundError(f"{folder} is no final_model: it has no {missing[0]}.", remedy=RELEASED)
        found = cls(folder, _digests(folder, SERVED))
        if found.own:
            code = (path.relative_to(folder).as_posix() for path in sorted((folder / CODE).rglob("*.py")))
            found = replace(found, digests=found.digests | _digests(folder, code))
        if "project" not in found.metrics:
            raise NotFoundError(
                f"{folder} is an export that no gate has released: its metrics.json names no project.", remedy=RELEASED
            )
        if PROGRAM not in found.digests:
            raise ConfigurationError(
                f"{folder.name} of {found.project} holds no {PROGRAM}; a service runs on ONNX Runtime alone.",
                remedy=f"configure(project={found.project!r}, begin_release=True, changes={{'deployment.formats': "
                f"['safetensors', 'onnx']}}), then export_model(project={found.project!r}) and the last gate again.",
            )
        found._require_certified()
        if is_signed(folder):
            require_signed(folder)
        return found

    def _require_certified(self) -> None:
        """Compare the program with the one that the clean room computed the card's figures from."""
        recorded = self.evaluation.get("order", {}).get("program", {})
        if recorded.get("form") == "onnx" and recorded["digest"] != self.digests[PROGRAM]:
            raise IntegrityError(
                f"{PROGRAM} is not the one that was certified: its SHA-256 is {self.digests[PROGRAM]}, "
                f"evaluation.json has {recorded['digest']}.",
                remedy="Take the folder from a backup; `trainwright verify` names what was changed.",
            )

    @cached_property
    def resolved(self) -> dict[str, Any]:
        """The content of resolved.json."""
        return self._json("resolved.json")

    @cached_property
    def metrics(self) -> dict[str, Any]:
        """The content of metrics.json."""
        return self._json("metrics.json")

    @cached_property
    def schema(self) -> dict[str, Any]:
        """The content of schema.json; empty where there is none."""
        return self._json("schema.json") if "schema.json" in self.digests else {}

    @property
    def own(self) -> dict[str, str]:
        """Which functions of the user's predict.py calls, `prepare` and `present`: `code/file.py:function` of each."""
        answer = self.schema.get("answer", {})
        found = {"prepare": self.schema["own"]["prepare"]} if self.schema.get("kind") == "own" else {}
        return found | ({"present": answer["present"]} if answer.get("kind") == "own" else {})

    @cached_property
    def evaluation(self) -> dict[str, Any]:
        """The content of evaluation.json; empty where nothing was certified."""
        return self._json("evaluation.json") if (self.folder / "evaluation.json").is_file() else {}

    @cached_property
    def data(self) -> dict[str, Any]:
        """The section `data` of the configuration."""
        return dict(yaml.safe_load((self.folder / "config.yaml").read_text(encoding="utf-8")).get("data") or {})

    @property
    def project(self) -> str:
        """The project's name."""
        return str(self.metrics.get("project", ""))

    @property
    def number(self) -> int | None:
        """Of the release, by its place in the project's folder, which the ledger marks; None of a copy.

        No file of a release holds its number, and a folder `releases` elsewhere is anybody's.
        """
        beside = self.folder.parent
        if beside.parent.name == EARLIER and beside.name.isdigit() and (beside.parents[1] / LEDGER).is_file():
            return int(beside.name)
        if not (beside / LEDGER).is_file():
            return None
        earlier = beside / EARLIER
        return 1 + (sum(one.name.isdigit() for one in earlier.iterdir()) if earlier.is_dir() else 0)

    def outputs(self) -> list[tuple[str, list[int | None]]]:
        """Return name and shape of the program's outputs; None: any size. Raises IntegrityError where it is no ONNX."""
        import onnx

        try:
            graph = onnx.load(str(self.folder / PROGRAM), load_external_data=False).graph
        except Exception as error:  # of protobuf
            raise IntegrityError(f"{PROGRAM} cannot be read: {error}.", remedy="Export the model again.") from error
        return [(one.name, [size.dim_value or None for size in one.type.tensor_type.shape.dim]) for one in graph.output]

    def _json(self, name: str) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads((self.folder / name).read_text(encoding="utf-8"))
        except ValueError as error:
            raise IntegrityError(f"{name} is no JSON: {error}.", remedy="Take the folder from a backup.") from error
        return found


def is_model(folder: Path) -> bool:
    """Return whether a folder looks like a final model, or like one that holds it."""
    return (folder / NEEDED[0]).is_file() or (folder / FOLDER).is_dir()


def is_signed(folder: Path) -> bool:
    """Return whether the final model of a folder has its signature, so that its files can be compared."""
    return (_inner(folder) / SIGNATURE).is_file()


def _digests(folder: Path, names: Iterable[str]) -> dict[str, str]:
    return {name: sha256_of_file(folder / name) for name in names if (folder / name).is_file()}


def _inner(folder: Path) -> Path:
    inner = folder / FOLDER
    return (inner if inner.is_dir() else folder).resolve()
