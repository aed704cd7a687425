"""Cross-validation: a baseline and ablations over the folds, one test split, and nothing that fools a gate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.worlds.flowers import NAME, advance, finish
from tests.worlds.scripted import scripted

from trainwright.tools import limits, projects
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.training_orchestrator import refresh_run, start_run
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.records import runs_of
from trainwright.trainer.base.errors import ConflictError, LimitReachedError
from trainwright.trainer.run import RunKind

pytestmark = [pytest.mark.slow, pytest.mark.requirement("TRAIN-1", "GATE-2")]


def test_few_rows_advise_folds_at_the_smoke_run(at: Callable[[str], Workspace]) -> None:
    workspace = at("smoked")
    (smoke,) = (workspace.project_folder(NAME) / "runs").glob("smoke-*")
    notes = refresh_run(workspace, smoke.name).notes
    assert notes is not None
    assert notes[-1].startswith("149 rows leave 30 for validation")


@pytest.mark.long
def test_folds_give_mean_and_deviation_over_one_test_split(at: Callable[[str], Workspace]) -> None:
    workspace = at("created")
    projects.configure(workspace, NAME, changes={"data.split.folds": 3})
    for stage in ("smoked", "planned", "trained"):
        advance(workspace, stage)
    with workspace.session() as session:
        baseline = Evidence(session, workspace, NAME).baseline
        assert baseline is not None
    assert "once the baseline gate has passed" in str(finish(workspace, baseline.id).folds), "no call that is refused"
    advance(workspace, "based")
    view = finish(workspace, start_run(workspace, NAME, RunKind.ABLATION, changes={"data.split.fold": 1}).run_id)
    assert view.state == "completed", view.failure
    assert view.folds.startswith("2 of 3 folds: validation accuracy ")
    assert "(mean and deviation; fold 0 " in view.folds
    assert 'changes={"data.split.fold": 2}) adds the next' in view.folds
    assert view.evaluated is None  # rows were fixed for the planned fold alone
    with workspace.session() as session:
        runs = [workspace.run_directory(NAME, run.id) for run in runs_of(session, NAME)]
        tests = {run.evidence("data")["splits"]["test"]["fingerprint"] for run in runs}
    assert len(runs) == 3
    assert len(tests) == 1
    with pytest.raises(ConflictError, match="its changes to data.split.seed make others") as refused:
        start_run(workspace, NAME, RunKind.ABLATION, changes={"data.split.seed": 9})
    assert "leak_price" in refused.value.remedy
    steps: list[str] = []
    for _ in range(12):
        answer = projects.advance(workspace, NAME)
        steps += answer.steps
        if answer.ended == "finished":
            break
    ended = [step.partition("-")[0] for step in steps if ": completed" in step]
    assert ended == ["replay", "ablation", "export"], steps  # no look at the test rows before the last fold
    assert any(said.startswith("3 of 3 folds: validation accuracy ") for said in answer.result), answer.result
    card = (workspace.project_folder(NAME) / "final_model" / "README.md").read_text()
    assert "each epoch chosen on its fold: 3 of 3 folds: validation accuracy " in card


@pytest.mark.parametrize("waits", [False, True], ids=["used up", "held by another run"])
def test_a_fold_for_which_a_limit_leaves_nothing_does_not_keep_back_the_export(
    at: Callable[[str], Workspace], monkeypatch: pytest.MonkeyPatch, waits: bool
) -> None:
    def only_others(*given: Any, **more: Any) -> Any:
        if RunKind.ABLATION in given:
            raise LimitReachedError("The limit money is used up.", remedy="Ask.", details={"waits": waits})
        return reserve(*given, **more)

    workspace, reserve, steps = at("created"), limits.reserve, list[str]()
    projects.configure(workspace, NAME, changes={"data.split.folds": 2})
    monkeypatch.setattr(limits, "reserve", only_others)
    with scripted():
        for _ in range(6):
            answer = projects.advance(workspace, NAME)
            steps += answer.steps
            if answer.ended not in {"wait", "alert"}:
                break
    refused = "fold 1 refused, and the export goes on without it: The limit money is used up. Ask."
    assert steps.count(refused) == (0 if waits else 1)
    assert any(step.startswith("export-") and "completed" in step for step in steps) is not waits, steps
    assert (answer.ended == "refusal") is waits, answer
