"""A run and its planning's rows on disk, as a worker would leave them, and the digests they are sealed with."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.trainer.clean_room.conftest import Room

from trainwright.tools.evaluation import Others, Sealed, evaluate_program
from trainwright.tools.ledger.events import RunEvaluated
from trainwright.trainer.config import config_digest, parse_config
from trainwright.trainer.run import RunDirectory, RunKind, RunSpecification
from trainwright.trainer.run.artifacts import FixedRows, Program
from trainwright.trainer.run.digests import run_digests
from trainwright.trainer.run.evidence import Part, Resolved, Summary

CONFIG: dict[str, Any] = {
    "model": {"use": "mlp"},
    "data": {"use": "iris"},
    "metrics": ["accuracy"],
    "selection": {"metric": "accuracy", "direction": "maximize"},
}


class Evaluated:
    """A completed baseline with a linear program, and a smoke run with 90 validation rows."""

    def __init__(self, folder: Path) -> None:
        self.rows = self._run(folder / "smoke-1", RunKind.SMOKE, CONFIG)
        self.room = Room(self.rows.artifacts)
        self.run = self._run(folder / "baseline-1", RunKind.BASELINE, CONFIG)
        self.accuracy = float((self.room.logits.argmax(1) == self.room.targets).mean())
        logits = self.room.logits.astype(float)
        shifted = logits - logits.max(1, keepdims=True)
        logs = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
        self.loss = float(-logs[np.arange(len(logits)), self.room.targets].mean())
        self.fix(splits=self.room.order["rows"]["record"]["splits"])
        named = copy.deepcopy(self.room.order["program"])
        target = self.run.artifacts / "model" / "model.onnx"
        target.parent.mkdir()
        Path(named.pop("path")).rename(target)
        self.export(**named, path="model/model.onnx")
        self.report(accuracy=self.accuracy, loss=self.loss)
        self.resolve()

    def _run(self, path: Path, kind: RunKind, values: dict[str, Any]) -> RunDirectory:
        config = parse_config(values)
        specification = RunSpecification(
            run_id=path.name, project="flowers", kind=kind, config=config, config_digest=config_digest(config),
            code_root=str(path.parent),
        )  # fmt: skip
        return RunDirectory.create(path, specification)

    def fix(self, **record: Any) -> None:
        """Write the record of the fixed rows."""
        self.rows.write_evidence(FixedRows.model_validate(record))

    def export(self, **record: Any) -> None:
        """Write the record of the exported program."""
        self.run.write_evidence(Program.model_validate(record))

    def report(self, **metrics: float) -> None:
        """Write what the training process reported of its best epoch."""
        self.run.write_evidence(Summary.model_validate({"best": {"epoch": 1, "metrics": metrics}}))

    def resolve(self, **record: Any) -> None:
        """Write how the model is called: plainly, unless said otherwise."""
        self.run.write_evidence(Resolved.model_validate({"returns": "output", "loss": "cross_entropy", **record}))

    def configure(self, **values: Any) -> None:
        """Plan the run with other values of its configuration."""
        config = parse_config({**CONFIG, **values})
        self.plan(config=config, config_digest=config_digest(config))

    def plan(self, **values: Any) -> None:
        """Plan the run otherwise."""
        plan = self.run.specification().model_copy(update=values)
        (self.run.path / "run.json").write_text(plan.model_dump_json())

    def sealed(self) -> tuple[Sealed, Sealed]:
        """Return the run and its rows with the digests of this moment."""
        return Sealed(self.run, run_digests(self.run)), Sealed(self.rows, run_digests(self.rows))

    def evaluation(self) -> RunEvaluated:
        """Evaluate the run, which has a program."""
        run, rows = self.sealed()
        found = evaluate_program(run, Others(rows))
        assert found is not None
        return found

    def remove(self, part: type[Part]) -> None:
        """Remove a part of the run's evidence."""
        (self.run.artifacts / f"{part.file}.json").unlink()


@pytest.fixture
def evaluated(tmp_path: Path) -> Evaluated:
    """Return an honest run with its rows."""
    return Evaluated(tmp_path)
