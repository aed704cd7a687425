"""A baseline that learns by heart and guesses: `next` leads to the rows, and no key is tried in vain."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.worlds.records import Script
from tests.worlds.scripted import scripted

from trainwright.tools import projects
from trainwright.tools.answers import NextCall
from trainwright.tools.gates.trying import look_instead
from trainwright.tools.training_monitor import Diagnostic, load_diagnostics
from trainwright.tools.training_orchestrator import start_run
from trainwright.tools.workspace import Workspace
from trainwright.trainer.base.errors import ConflictError
from trainwright.trainer.run import RunKind, RunSpecification
from trainwright.trainer.run.evaluation import Evaluation, ShownRow

NAME = "noise"
CONFIG = {
    "model": {"use": "mlp", "args": {"hidden": [8], "dropout": 0.1}},
    "data": {"use": "iris"},
    "training": {"epochs": 8},
    "logging": {"tensorboard": False},
}
GOAL = {"metric": "accuracy", "direction": "maximize", "target": 1.0}


def by_heart(_: RunSpecification, epoch: int) -> dict[str, float]:
    return {"loss": 1.1 + 0.1 * epoch, "accuracy": 0.33, "train_loss": 1.1 * 0.7**epoch}


@pytest.mark.requirement("DIAG-8", "DIAG-10", "PHASE-4")
def test_where_no_key_cures_the_cause_next_is_to_look_and_none_is_tried_on_what_follows(tmp_path: Path) -> None:
    workspace = Workspace.open(tmp_path / "workspace")
    worst = Evaluation(worst=[ShownRow(row=1, loss=9.0, target="setosa", prediction="virginica")])
    falling = {"train/loss": lambda step: 1.1 * 0.95**step}
    with scripted(Script(by_heart, series=falling, further=lambda _: [worst])):
        projects.create_project(workspace, NAME, intent="", goal=GOAL, config=CONFIG)
        for kind, phase in ((RunKind.SMOKE, "planning"), (RunKind.BASELINE, "baseline")):
            run_id = start_run(workspace, NAME, kind).run_id
            projects.pass_gate(workspace, NAME, phase)
        way = projects.advance(workspace, NAME)
        answer = projects.diagnose(workspace, NAME)
        with pytest.raises(ConflictError, match="have no untried fix"):
            projects.diagnose(workspace, NAME, fix="try")
    assert [(one.id, one.consequence_of) for one in answer.alerts] == [
        ("labels_unrelated", None), ("overfitting", "labels_unrelated")]  # fmt: skip
    assert not any("configure(" in fix for one in answer.alerts for fix in one.fixes)
    assert answer.next == NextCall(
        tool="plot_metrics",
        arguments={"run_ids": [run_id], "kind": "worst_samples"},
        why="labels_unrelated: no key of the configuration cures it, nor what follows from it. "
        + " ".join(answer.alerts[0].fixes),
    )
    assert (way.ended, way.next) == ("decision", answer.next), "it does not go on to a search unasked"
    workspace.close()


@pytest.mark.requirement("DIAG-8")
def test_without_recorded_rows_the_document_is_named_and_no_word_of_it_where_a_key_may_cure() -> None:
    run: Any = SimpleNamespace(id="baseline-1", part=lambda kind: kind())
    alert = {"id": "labels_unrelated", "document": "diagnostics/labels_unrelated.md", "fixes": [{"text": "Look."}]}
    found = look_instead(run, alert)
    assert found is not None
    assert (found.tool, found.arguments) == ("read_document", {"path": alert["document"]})
    assert look_instead(run, alert | {"id": "overfitting"}) is None


@pytest.mark.requirement("DIAG-8")
def test_a_document_that_says_that_no_key_cures_has_no_fix_by_a_key() -> None:
    (one,) = [one.model_dump() for one in load_diagnostics() if one.id == "overfitting"]
    with pytest.raises(ValueError, match="these fixes change some: early_stopping, dropout, weight_decay"):
        Diagnostic.model_validate(one | {"beyond_keys": "document"})
