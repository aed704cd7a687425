"""The run that leaves the house: the proven baseline, or one that trained longer over the same configuration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.worlds.flowers import NAME, finish, train

from trainwright.tools import projects
from trainwright.tools.ledger import ProjectFacts
from trainwright.tools.projects import ProjectStatus
from trainwright.tools.training_orchestrator import replay_run, start_run
from trainwright.tools.verification import verify_workspace
from trainwright.tools.workspace import Workspace
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.run import RunKind

At = Callable[[str], Workspace]


def status_of(workspace: Workspace) -> ProjectStatus:
    found = projects.project_status(workspace, NAME)
    assert isinstance(found, ProjectStatus)
    return found


def final_run(workspace: Workspace, **overlay: Any) -> Any:
    return finish(workspace, start_run(workspace, NAME, RunKind.FINAL, **overlay).run_id)


@pytest.mark.timeout(600)
@pytest.mark.requirement("PHASE-6", "PHASE-7", "GATE-7")
def test_a_baseline_whose_configuration_is_final_is_not_trained_a_second_time(at: At) -> None:
    workspace = at("tuned")
    baseline = next(run for run in status_of(workspace).runs if run.kind == "baseline")
    call = status_of(workspace).next
    assert call is not None
    assert (call.tool, call.arguments["run_id"]) == ("verify_reproducibility", baseline.run_id)
    assert "template='production'" in call.why, "it may train longer first"
    ordered = start_run(workspace, NAME, RunKind.FINAL)
    assert (ordered.run_id, ordered.state) == (baseline.run_id, "completed")
    assert ordered.note
    assert "The baseline stands as the final run" in ordered.note
    workspace = at("finished")
    assert not [run for run in status_of(workspace).runs if run.kind == "final"]
    assert verify_workspace(workspace.path).problems == []
    card = (workspace.project_folder(NAME) / "final_model" / "README.md").read_text()
    assert f"---\n\n# {NAME}\n\n**Goal reached: 0." in card, card[:300]


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.requirement("PHASE-12", "CONF-4", "GATE-3")
def test_a_final_run_trains_longer_by_a_template_and_is_repeated_exported_and_verified(at: At) -> None:
    workspace = at("tuned")
    changes = {"training.epochs": 9, "early_stopping": {"enabled": False}}
    run = final_run(workspace, template="production", changes=changes)
    assert (run.state, run.kind, run.total_epochs, run.epoch) == ("completed", "final", 9, 9)
    specification = workspace.run_directory(NAME, run.run_id).specification()
    assert specification.config.schedule.model_dump()["final_fraction"] == 0.01, "the template's"
    assert specification.config.optimizer.learning_rate == 0.02, "the accepted configuration's"
    with workspace.session() as session:
        overlay = ProjectFacts(session, NAME).started[run.run_id].overlay
    assert overlay == specification.overlay
    assert overlay["training.epochs"] == 9
    assert start_run(workspace, NAME, RunKind.FINAL, template="production", changes=changes).run_id == run.run_id
    replay = finish(workspace, replay_run(workspace, NAME).run_id)
    assert replay.result
    assert replay.result["identical"] is True
    train(workspace, RunKind.EXPORT)
    answer = projects.pass_gate(workspace, NAME, "finalization")
    assert answer.now_in == "finished"
    card = (workspace.project_folder(NAME) / "final_model" / "README.md").read_text()
    assert "laid over the accepted configuration | " in card
    assert "training.epochs = 9" in card
    assert verify_workspace(workspace.path).problems == []


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.requirement("PHASE-12", "PIPE-3", "GATE-2")
def test_an_overlay_that_loses_what_was_accepted_is_refused_and_left_out_again(at: At) -> None:
    workspace = at("tuned")
    final_run(workspace, changes={"training.max_steps": 1})
    drift = next(check for check in status_of(workspace).checks if check.id == "finalization.drift_bounded")
    assert drift.status == "failed", drift
    run = final_run(workspace)
    assert (run.kind, run.total_epochs) == ("final", 6), "without the overlay, as the gates accepted it"
    drift = next(check for check in status_of(workspace).checks if check.id == "finalization.drift_bounded")
    assert drift.status == "passed", drift


@pytest.mark.timeout(600)
@pytest.mark.requirement("PHASE-12", "GATE-2", "GATE-5")
@pytest.mark.parametrize(
    ("changes", "refused", "kept"),
    [
        ({"training.epochs": 9, "optimizer.learning_rate": 0.5}, "optimizer.learning_rate", {"training.epochs": 9}),
        ({"training": {"epochs": 9, "clip_norm": 1.0}}, "training.clip_norm", {"training.epochs": 9}),
        ({"data.split.validation": 0.5}, "data.split.validation", {}),
        ({"selection.metric": "loss"}, "selection.metric", {}),
    ],
)
def test_what_decides_what_is_learnt_is_no_overlay_and_the_rest_of_the_wish_is_kept(
    at: At, changes: dict[str, Any], refused: str, kept: dict[str, Any]
) -> None:
    workspace = at("tuned")
    with pytest.raises(ConfigurationError, match=rf"A final run may not set {refused}") as error:
        start_run(workspace, NAME, RunKind.FINAL, template="production", changes=changes)
    given = f", changes={kept!r}" if kept else ""
    assert f"kind='final', template='production'{given})" in error.value.remedy
    assert f"configure(project={NAME!r}, changes={{'{refused}'" in error.value.remedy


@pytest.mark.requirement("CONF-4", "GATE-2")
def test_only_a_final_run_takes_a_template(at: At) -> None:
    with pytest.raises(ConfigurationError, match="only a final run takes one") as error:
        start_run(at("planned"), NAME, RunKind.BASELINE, template="production")
    assert "kind='baseline')" in error.value.remedy
