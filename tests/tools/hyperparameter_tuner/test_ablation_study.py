"""An ablation study whose conductor and workers end on its way: no run lost or doubled, every figure derived again."""

from __future__ import annotations

import random
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.worlds.records import Script
from tests.worlds.scripted import Scripted, scripted

from trainwright.tools import ledger, limits
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.improvement import confirmation_seeds
from trainwright.tools.hyperparameter_tuner import StudyView, start_study, stop_study, study_status
from trainwright.tools.hyperparameter_tuner.trials import COMPLETED, FAILED, RUNNING, trials_of
from trainwright.tools.verification import verify_workspace
from trainwright.tools.verification.findings import Case
from trainwright.tools.verification.searches import verify_ablations
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.records import latest_config, runs_of
from trainwright.trainer.config import config_digest, parse_config
from trainwright.trainer.run import Failure, RunKind, RunSpecification

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

RATE, DECAY, BATCH = "optimizer.learning_rate", "optimizer.weight_decay", "loader.batch_size"
STUDY: dict[str, Any] = {"ablation": {"factors": {RATE: [1e-6]}, "repeats": 3}, "width": 2}
GOOD: dict[str, Any] = {"optimizer": {"learning_rate": 0.01}, "training": {"epochs": 2}}


REFERENCE, SLOW, NOISE = 0.9, 0.3, 0.002
"""Accuracy with the reference's rate and with that of the study's level, and what a seed and a configuration add."""


def curve(plan: RunSpecification, epoch: int) -> dict[str, float]:
    config = plan.config
    value = SLOW if config.optimizer.learning_rate == 1e-6 else REFERENCE
    drawn = random.Random(f"{config.seed} {config.optimizer.weight_decay} {config.loader.batch_size}")
    value += drawn.uniform(-NOISE, NOISE) - 0.1 / epoch
    return {"loss": 1 - value, "accuracy": value}


def ended(launcher: Scripted, workspace: Workspace, study_id: str) -> StudyView:
    launcher.wait()
    return study_status(workspace, study_id)


@pytest.fixture(scope="module")
def module_launcher() -> Iterator[Scripted]:
    with scripted(Script(curve=curve)) as launcher:
        yield launcher


@pytest.fixture(scope="module")
def killed(module_launcher: Scripted, module_workspace: Workspace, make_project: Callable[..., str]) -> StudyView:
    """A study whose conductor ended twice, while a worker had the run, whose workers died, and that was stopped."""
    ends = [3, 6]

    def curve_and_end(plan: RunSpecification, epoch: int) -> dict[str, float]:
        if ends and len(module_launcher.started) == ends[0]:
            ends.pop(0)
            raise SystemExit
        return curve(plan, epoch)

    def death(plan: RunSpecification, attempt: int) -> tuple[int, int] | None:
        is_level = plan.config.optimizer.learning_rate == 1e-6
        return (1, -signal.SIGKILL) if is_level and attempt == 1 else None

    module_launcher.script = Script(curve=curve_and_end, death=death)
    make_project(module_workspace, "war", **GOOD)
    study = start_study(module_workspace, "war", search=STUDY | {"width": 1}).study_id
    module_launcher.wait()
    assert study_status(module_workspace, study).state == "running"  # which starts another conductor
    module_launcher.wait()
    assert not ends
    assert stop_study(module_workspace, study).next is not None
    assert start_study(module_workspace, "war", search=STUDY | {"width": 1}).study_id == study
    return ended(module_launcher, module_workspace, study)


@pytest.mark.long
@pytest.mark.requirement("TUNE-5", "TUNE-7")
def test_it_equals_one_left_in_peace_whose_runs_were_side_by_side(
    module_launcher: Scripted, module_workspace: Workspace, killed: StudyView, make_project: Callable[..., str]
) -> None:
    module_launcher.script = Script(curve=curve)
    make_project(module_workspace, "peace", **GOOD)
    view = ended(module_launcher, module_workspace, start_study(module_workspace, "peace", search=STUDY).study_id)
    tables = []
    for study in (view.study_id, killed.study_id):
        with module_workspace.session() as session:
            tables.append([{**vars(trial), "run": None} for trial in trials_of(session, study)])
    assert tables[0] == tables[1]
    assert view.ablation is not None
    assert killed.ablation is not None
    assert view.ablation["effects"] == killed.ablation["effects"]


@pytest.mark.requirement("TUNE-5", "TUNE-7")
def test_killed_it_loses_and_doubles_no_run(module_workspace: Workspace, killed: StudyView) -> None:
    assert (killed.state, killed.trials_done, killed.completed, killed.best) == ("completed", 6, 6, None)
    with module_workspace.session() as session:
        runs = runs_of(session, "war", RunKind.ABLATION)
        trials = trials_of(session, killed.study_id)
        values = latest_config(session, "war").values
        assert limits.count_trials(session, "war") == (6, 0)
    assert sorted(run.id for run in runs) == sorted(trial.run or "" for trial in trials)
    config = parse_config(values)
    seeds = {trial.parameters["seed"] for trial in trials}
    assert len(seeds) == 3
    confirmed = confirmation_seeds(config_digest(config), 20, own_seed=config.seed)
    assert not seeds & {config.seed, *confirmed}, "no look at the seeds on which a search will be confirmed"
    for trial in trials:
        assert trial.parameters.get(RATE) == (1e-6 if trial.number % 2 else None)


@pytest.mark.requirement("TUNE-5")
def test_a_level_that_learns_nothing_is_worse_and_the_answer_and_the_report_say_it(
    module_workspace: Workspace, killed: StudyView
) -> None:
    assert killed.ablation is not None
    (effect,) = killed.ablation["effects"]
    assert effect["verdict"] == "worse"
    assert effect["mean"] == pytest.approx(SLOW - REFERENCE), "what a seed adds to both cancels"
    assert killed.ablation["conclusion"].startswith("1 of 1 effects differ beyond the seeds' noise")
    folder = module_workspace.project_folder("war")
    report = (folder / "ablation_results.md").read_text()
    assert f"`{RATE} = 1e-06`" in report
    assert "| worse |" in report
    assert (folder / "plots" / "ablation_forest.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.requirement("TUNE-5", "GATE-3")
def test_verify_derives_every_figure_again_and_no_gate_sees_it(module_workspace: Workspace, killed: StudyView) -> None:
    found = verify_workspace(module_workspace.path)
    assert found.checked["ablation_studies"] >= 1
    assert not [one.what for one in found.findings if "ablation" in one.what]
    with module_workspace.session() as session:
        evidence = Evidence(session, module_workspace, "war")
        assert (evidence.study, evidence.confirmation, evidence.entries("study")) == (None, {}, [])
    for damage, told in (
        (lambda body: body["results"]["effects"][0].update(mean=0.5), "its effects is recorded otherwise"),
        (lambda body: body["results"].update(seeds=[1, 2, 3]), "its seeds is recorded otherwise"),
        (lambda body: body["trials"][1].update(value=0.99), "recorded other values"),
        (lambda body: body["trials"][1]["parameters"].update(seed=7), "is not the design's"),
        (lambda body: body["trials"].pop(), "it lists 5 runs, and its design has 6"),
    ):
        with module_workspace.session() as session:
            case = Case(session, module_workspace)
            damage(case.of("ablation")[-1][1])
            assert told in "; ".join(finding.what for finding in verify_ablations(case)[1])


@pytest.mark.requirement("TUNE-5")
def test_a_larger_study_trains_what_is_missing_and_where_nothing_differs_says_what_it_could_have_seen(
    module_launcher: Scripted, module_workspace: Workspace, killed: StudyView
) -> None:
    module_launcher.script = Script(curve=curve)
    search = {"ablation": {"factors": {DECAY: [0.011], BATCH: [33]}, "repeats": 3}, "width": 2}
    study = start_study(module_workspace, "war", search=search).study_id
    view = ended(module_launcher, module_workspace, study)
    with module_workspace.session() as session:
        trials = trials_of(session, study)
        own = [run for run in runs_of(session, "war", RunKind.ABLATION) if run.study == study]
        earlier = {trial.run for trial in trials_of(session, killed.study_id)}
    assert len(own) == 6, "the reference's three runs are those of the first study"
    assert {trial.run for trial in trials if trial.number % 3 == 0} < earlier
    assert view.ablation is not None
    assert not any(one["verdict"] in {"better", "worse"} for one in view.ablation["effects"])
    assert "Nothing differs beyond the noise of 3 seeds. That is no proof of no effect" in view.ablation["conclusion"]
    assert "would have been seen with 80% probability" in view.ablation["conclusion"]
    assert killed.study_id in (module_workspace.project_folder("war") / "ablation_results.md").read_text()
    assert not [one.what for one in verify_workspace(module_workspace.path).findings if "artifact" in one.what]


@pytest.mark.requirement("TUNE-5")
def test_a_level_that_fails_is_its_own_finding_and_a_reference_that_fails_ends_the_study(
    launcher: Scripted, workspace: Workspace, make_project: Callable[..., str]
) -> None:
    no_13 = Failure(category="user_code", message="no 13", remedy="Take another.")
    launcher.script = Script(curve=curve, failure=lambda plan: no_13 if plan.config.loader.batch_size == 13 else None)
    make_project(workspace, **GOOD)
    search = {"ablation": {"factors": {BATCH: [13, 9]}, "repeats": 3}, "width": 2}
    view = ended(launcher, workspace, start_study(workspace, "digits", search=search).study_id)
    assert (view.state, view.completed, view.failed) == ("completed", 6, 3)
    assert view.ablation is not None
    assert f"{BATCH} = 13 failed on 3 of 3 seeds" in view.ablation["conclusion"]
    assert [one["effect"] for one in view.ablation["effects"]] == [f"{BATCH} = 9"]

    make_project(workspace, "broken", **GOOD, loader={"batch_size": 13})
    search = {"ablation": {"factors": {BATCH: [9]}, "repeats": 3}}
    view = ended(launcher, workspace, start_study(workspace, "broken", search=search).study_id)
    assert view.state == "failed"
    assert view.failure is not None
    assert "The reference failed with seed" in view.failure["message"]
    assert "no 13" in view.failure["message"]
    with workspace.session() as session:
        assert [trial.state for trial in trials_of(session, view.study_id)] == [FAILED]
        assert COMPLETED not in {entry[1].get("state") for entry in ledger.entries(session, "broken", "ablation")}


@pytest.mark.requirement("TUNE-5", "GATE-4")
def test_where_a_limit_is_used_up_it_stops_and_begins_no_further_run(
    launcher: Scripted, workspace: Workspace, make_project: Callable[..., str]
) -> None:
    make_project(workspace, **GOOD, limits={"project_wall_clock_seconds": 0.2})
    ablation = {"factors": {RATE: [1e-6, 1e-5], DECAY: [0.3]}, "repeats": 20}
    search = {"ablation": ablation, "width": 2}
    view = ended(launcher, workspace, start_study(workspace, "digits", search=search).study_id)
    assert view.state == "stopped"
    assert view.failure is not None
    assert "project_wall_clock_seconds is used up" in view.failure["message"]
    with workspace.session() as session:
        trials = trials_of(session, view.study_id)
    assert 0 < len(trials) < 40, "of 80 runs"
    assert sum(trial.state == RUNNING for trial in trials) <= 2
    assert not [one.what for one in verify_workspace(workspace.path).findings if "trial" in one.what]
