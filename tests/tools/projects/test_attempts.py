"""Choosing among attempts is told: earlier baselines with their seeds and values, and how much was tried."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.worlds.flowers import NAME, train

from trainwright.tools import projects
from trainwright.tools.documents.rendering import render
from trainwright.tools.gates.attempts import attempts, configurations, describe_attempts
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.reports.model_card import _tried
from trainwright.tools.verification import verify_workspace
from trainwright.tools.workspace import Workspace
from trainwright.trainer.run import RunKind

At = Callable[[str], Workspace]


def needed(answer: Any) -> str:
    return str(next(check.measured for check in answer.checks if check.id == "optimization.needed"))


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
    assert "2 configurations, 2 baselines, ablations and final runs, 0 studies with 0 runs of trials." in card
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
