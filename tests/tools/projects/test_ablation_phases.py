"""Ablation studies in the phases after the baseline and after the release: told, verified, and under no gate."""

from __future__ import annotations

import random
from collections.abc import Callable
from statistics import fmean
from typing import Any

import pytest
from tests.worlds.flowers import MODEL, NAME, advance, finish
from tests.worlds.records import Script
from tests.worlds.scripted import scripted

from trainwright.tools import projects
from trainwright.tools.documents.rendering import render
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.phase_status import phase_status_of
from trainwright.tools.gates.searches import proposed_search
from trainwright.tools.hyperparameter_tuner import StudyView, start_study, study_status
from trainwright.tools.ledger import append, entries
from trainwright.tools.reports.model_card import _tried
from trainwright.tools.training_orchestrator import start_run
from trainwright.tools.verification import verify_workspace
from trainwright.tools.workspace import Workspace
from trainwright.trainer.base.errors import ConfigurationError, ConflictError
from trainwright.trainer.run import RunKind, RunSpecification
from trainwright.trainer.run.evidence import Code

At = Callable[[str], Workspace]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

RATE, WIDTH, CLIP = "optimizer.learning_rate", "model.args.width", "training.clip_norm"


def curve(plan: RunSpecification, epoch: int) -> dict[str, float]:
    """What the rate does is seen on every seed; the width does as much as another seed."""
    assert plan.config.model is not None
    drawn = random.Random(f"{plan.config.seed} {plan.config.model.args}")
    value = 0.5 + 0.4 * (plan.config.optimizer.learning_rate != 1e-7) - 0.1 / epoch + drawn.uniform(-0.01, 0.01)
    return {"loss": 1 - value, "accuracy": value}


def conducted(workspace: Workspace, ablation: dict[str, Any]) -> StudyView:
    with scripted(Script(curve=curve)) as launcher:
        study = start_study(workspace, NAME, search={"ablation": ablation, "width": 2}).study_id
        launcher.wait()
        view = study_status(workspace, study)
    assert view.state == "completed", view.failure
    return view


@pytest.mark.requirement("TUNE-5", "PHASE-8")
def test_variants_of_code_are_planned_once_and_then_levels(at: At) -> None:
    workspace = at("diagnosed")
    code = workspace.path.parent / "code"
    (code / "wide.py").write_text(MODEL.replace("Net", "Wide").replace("16", "32"))
    level = {"ablation": {"factors": {"model.use": ["wide.py:Wide"]}}}
    choices = {"space": {"model.use": {"type": "categorical", "choices": ["flower_model.py:Net", "wide.py:Wide"]}}}
    for search, called in ((level, "An ablation study"), (choices, "A search")):
        with pytest.raises(ConflictError, match=f"{called} keeps the code that planning fixed, and wide.py is new"):
            start_study(workspace, NAME, search=search)
    with pytest.raises(ConfigurationError, match="wider"):
        projects.configure(workspace, NAME, changes={"code_files": ["wider.py"]})
    projects.configure(workspace, NAME, changes={"code_files": ["wide.py"]})
    for stage in ("smoked", "planned", "trained", "based"):
        advance(workspace, stage)
    run = finish(workspace, start_run(workspace, NAME, RunKind.ABLATION, changes={"model.use": "wide.py:Wide"}).run_id)
    assert run.state == "completed", run.failure
    recorded = workspace.run_directory(NAME, run.run_id).part(Code).files
    assert sorted(recorded) == ["wide.py"], "and the plan has it"


@pytest.mark.long
@pytest.mark.requirement("TUNE-5", "PHASE-5", "GATE-3")
def test_before_a_search_that_is_skipped_it_changes_no_decision(at: At) -> None:
    workspace = at("based")
    with pytest.raises(ConfigurationError, match=r"makes no use of loader\.prefetch_factor"):
        start_study(workspace, NAME, search={"ablation": {"factors": {"loader.prefetch_factor": [8], RATE: [1e-7]}}})
    view = conducted(workspace, {"factors": {RATE: [1e-7], CLIP: [1e6]}, "repeats": 3})
    assert view.ablation is not None
    found = {one["effect"]: one for one in view.ablation["effects"]}
    assert found[f"{RATE} = 1e-07"]["mean"] == pytest.approx(-0.4)
    assert found[f"{CLIP} = 1000000.0"]["verdict"] == "changes nothing: the same weights on every seed"
    assert view.next is not None
    assert view.next.tool == "diagnose_run", "what the phase asks for, as before"
    assert projects.project_status(workspace, NAME).ablation == f"{view.study_id} (completed)"
    projects.diagnose(workspace, NAME)
    projects.pass_gate(workspace, NAME, "diagnostics")
    answer = projects.pass_gate(workspace, NAME, "optimization")
    assert answer.outcome == "skipped"
    assert "attempts" not in str(next(one.measured for one in answer.checks if one.id == "optimization.needed"))
    assert verify_workspace(workspace.path).problems == []


@pytest.mark.requirement("TUNE-5", "PHASE-5")
def test_what_an_ablation_study_found_better_is_confirmed_by_the_next_search(at: At) -> None:
    workspace = at("diagnosed")
    projects.configure(workspace, NAME, changes={"optimizer.learning_rate": 1e-7})
    found = {"reference": ({}, [0.5, 0.51, 0.49]), "rate": ({RATE: 0.01}, [0.9, 0.91, 0.9]),
             "both": ({RATE: 0.01, WIDTH: 4}, [0.91, 0.9, 0.91])}  # fmt: skip
    arms = [{"name": name, "changes": changes, "values": values, "mean": fmean(values)}
            for name, (changes, values) in found.items()]  # fmt: skip
    results = {"effects": [{"verdict": "better"}], "arms": arms, "direction": "maximize"}
    with workspace.session() as session:
        evidence = Evidence(session, workspace, NAME)
        base = {"study_id": "a", "base_config_digest": evidence.config_digest}
        append(session, NAME, "ablation", base)
        append(session, NAME, "ablation", {"study_id": "a", "results": results})
    with workspace.session() as session:
        wanted = proposed_search(Evidence(session, workspace, NAME))
    assert wanted == {
        "method": "grid",
        "trials": 2,
        "space": {RATE: {"type": "categorical", "choices": [1e-7, 0.01]}},
    }, "the width gives nothing beyond the noise"


@pytest.mark.long
@pytest.mark.requirement("TUNE-5", "PHASE-11", "GATE-3")
def test_a_factorial_after_the_release_leaves_it_finished_and_looks_at_no_test_row(at: At) -> None:
    workspace = at("finished")
    with workspace.session() as session:
        gates = len(entries(session, NAME, "gate"))
    view = conducted(workspace, {"factors": {RATE: [1e-7], WIDTH: [4]}, "design": "factorial", "repeats": 3})
    assert view.ablation is not None
    assert view.trials_done == 12
    assert view.ablation["letters"] == {"A": WIDTH, "B": RATE}
    assert {one["effect"] for one in view.ablation["effects"]} == {f"A ({WIDTH} = 4)", f"B ({RATE} = 1e-07)", "A:B"}
    found = {one["effect"][0:3]: one for one in view.ablation["effects"]}
    assert found["B ("]["mean"] == pytest.approx(-0.4, abs=0.02)
    with workspace.session() as session:
        evidence = Evidence(session, workspace, NAME)
        assert phase_status_of(evidence).is_finished
        assert len(entries(session, NAME, "gate")) == gates
        assert not any(run.test_access.samples for run in runs_of_study(evidence, view.study_id))
        told = render("reports/tried.md.j2", tried=_tried(evidence))
    assert "1 ablation studies with 12 runs" in told
    assert verify_workspace(workspace.path).problems == []


def runs_of_study(evidence: Evidence, study_id: str) -> list[Any]:
    ids = [run_id for run_id, start in evidence.facts.started.items() if start.study == study_id]
    assert len(ids) == 12
    return [evidence.run(run_id) for run_id in ids]
