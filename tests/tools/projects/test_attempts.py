"""Choosing among attempts is told: earlier baselines with their seeds and values, and how much was tried."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.worlds.blank_pictures import blank_pictures
from tests.worlds.flowers import GOAL, NAME, train
from tests.worlds.records import Script
from tests.worlds.scripted import scripted

from trainwright.tools import projects
from trainwright.tools.documents.rendering import render
from trainwright.tools.gates import attempts as room
from trainwright.tools.gates.attempts import attempts, chosen_of, configurations, describe_attempts, gain_over_first
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.run_evidence import RunEvidence
from trainwright.tools.reports.model_card import _tried
from trainwright.tools.training_orchestrator import start_run
from trainwright.tools.verification import verify_workspace
from trainwright.tools.workspace import Workspace
from trainwright.trainer.run import RunKind, RunSpecification
from trainwright.trainer.run.validation import Verdict

At = Callable[[str], Workspace]


def needed(answer: Any) -> str:
    return str(next(check.measured for check in answer.checks if check.id == "optimization.needed"))


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.requirement("GATE-1", "GATE-5", "PHASE-5")
def test_a_baseline_found_by_another_seed_is_told_where_optimization_is_skipped_and_in_the_card(at: At) -> None:
    workspace = at("based")
    projects.configure(workspace, NAME, changes={"seed": 7})
    for kind, phase in ((RunKind.SMOKE, "planning"), (RunKind.BASELINE, "baseline")):
        train(workspace, kind)
        projects.pass_gate(workspace, NAME, phase)
    projects.diagnose(workspace, NAME)
    projects.pass_gate(workspace, NAME, "diagnostics")
    answer = projects.pass_gate(workspace, NAME, "optimization")
    assert answer.outcome == "skipped"
    with workspace.session() as session:
        evidence = Evidence(session, workspace, NAME)
        first, second = attempts(evidence)
        card = render("reports/tried.md.j2", tried=_tried(evidence))
    assert [(each.seed, each.configuration) for each in (first, second)] == [(42, 1), (7, 2)]
    chosen_among = f"2 attempts, 2 configurations: baselines {first.value:.6g} (seed 42), {second.value:.6g} (seed 7)"
    assert needed(answer).endswith(f"; {chosen_among}")
    assert chosen_among in (workspace.project_folder(NAME) / "tuning_results.md").read_text()
    assert "Configurations: 2. Baselines, ablations and final runs: 2. Searches: 0, with 0 runs of trials." in card
    assert f"| {first.run} | baseline | 1 | 42 | {first.value:.6g} | completed |" in card
    assert verify_workspace(workspace.path).problems == []

    (workspace.run_directory(NAME, first.run).artifacts / "summary.json").unlink()
    with workspace.session() as session:
        forged = attempts(Evidence(session, workspace, NAME))[0]
    assert (forged.value, forged.state) == (None, "record changed"), "a forged value is not told"


@pytest.mark.requirement("PHASE-5")
def test_the_only_attempt_needs_no_telling(at: At) -> None:
    workspace = at("tuned")
    with workspace.session() as session:
        evidence = Evidence(session, workspace, NAME)
        assert (len(attempts(evidence)), configurations(evidence), describe_attempts(evidence)) == (1, 1, "")


FALLING = {"metric": "loss", "direction": "minimize", "target": 1.0}
LEAK = Verdict(family="leaks", name="leak_target", column="boat", severity="warning", passed=False, text="It tells.")


def best_known(plan: RunSpecification, epoch: int) -> dict[str, float]:
    leaks = plan.config.optimizer.learning_rate == 0.5
    return {"loss": 0.1 + plan.config.optimizer.learning_rate / 10, "accuracy": 1.0 if leaks else 0.8 + epoch / 100}


def leaks_found(run: RunEvidence) -> list[Verdict]:
    return [LEAK] if run.directory.specification().config.optimizer.learning_rate == 0.5 else []


@pytest.mark.requirement("PIPE-2", "PHASE-6")
@pytest.mark.parametrize(
    ("first_rate", "goal", "gain"),
    [
        (0.5, GOAL, "none told: {} had boat.leak_target in its data, which was taken out since"),
        pytest.param(0.25, GOAL, "+0.0000 ({} 0.83, the final run 0.83)", marks=pytest.mark.long),
        pytest.param(0.25, FALLING, "+0.0150 ({} 0.125, the final run 0.11)", marks=pytest.mark.long),
        (0.05, FALLING, "-0.0050 ({} 0.105, the final run 0.11)"),
    ],
)
def test_a_baseline_whose_data_leaked_is_named_so_and_compared_with_nothing(
    tmp_path: Path, first_rate: float, goal: dict[str, Any], gain: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    leaked = "boat.leak_target" if first_rate == 0.5 else ""
    monkeypatch.setattr(room, "leaks_of", leaks_found)  # written runs validate nothing
    workspace = Workspace.open(tmp_path / "workspace")
    config = {"model": {"use": "mlp"}, "data": {"use": "iris"}, "training": {"epochs": 3}}
    config["optimizer"] = {"learning_rate": first_rate}
    projects.create_project(workspace, NAME, intent="", goal=goal, config=config)
    with scripted(Script(best_known)), blank_pictures():
        for rate in (first_rate, 0.1):
            projects.configure(workspace, NAME, changes={"optimizer.learning_rate": rate})
            start_run(workspace, NAME, RunKind.SMOKE)
            projects.pass_gate(workspace, NAME, "planning")
            start_run(workspace, NAME, RunKind.BASELINE)
        projects.pass_gate(workspace, NAME, "baseline")
        projects.diagnose(workspace, NAME)
        projects.pass_gate(workspace, NAME, "diagnostics")
        projects.pass_gate(workspace, NAME, "optimization")
    with workspace.session() as session:
        evidence = Evidence(session, workspace, NAME)
        first, second = attempts(evidence)
        assert (first.leaked, second.leaked) == (leaked, "")
        assert gain_over_first(evidence) == gain.format(first.run)
        best = f"(loss 0.11), and not the best on the validation split, {first.run} (0.105)." * (first_rate == 0.05)
        assert chosen_of(evidence).endswith(best or "The best of several attempts was chosen on the validation split.")
        card = render("reports/tried.md.j2", tried=_tried(evidence))
    assert ("; its data had boat.leak_target, taken out since |" in card) is bool(leaked)
    workspace.close()
