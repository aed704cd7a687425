"""Repetitions over seeds that the user asked for: `next` makes them, and mean and deviation reach the end (Q218)."""

from __future__ import annotations

import statistics
from typing import Any

import pytest
from tests.worlds.flowers import NAME, advance

from trainwright.tools import projects
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.repeats import repeats_text
from trainwright.tools.hyperparameter_tuner import start_study, study_status
from trainwright.tools.ledger import Look
from trainwright.tools.training_architect.intent import with_intent
from trainwright.tools.training_architect.request import PlanRequest

pytestmark = [pytest.mark.slow, pytest.mark.requirement("REPRO-5", "GATE-7")]


def said_of(workspace: Any) -> str:
    with workspace.snapshot() as session:
        return repeats_text(Evidence(session, workspace, NAME, inspection=Look()))


@pytest.mark.long
def test_what_is_asked_for_over_seeds_is_repeated_before_optimization_is_skipped(created_with: Any) -> None:
    workspace = created_with("diagnosed", intent="tell irises apart; mean and std over 3 seeds")
    assert said_of(workspace) == "The intent asks for several seeds ('over 3 seeds'): nothing was repeated."
    call: Any = projects.project_status(workspace, NAME).next
    assert (call.tool, call.arguments["search"]) == ("start_tuning", {"ablation": {"factors": {}, "repeats": 3}})
    view = start_study(workspace, NAME, search=call.arguments["search"])
    watching: Any = projects.project_status(workspace, NAME).next
    assert (watching.tool, watching.arguments["study_id"]) == ("tuning_status", view.study_id)
    while not view.is_ended:
        view = study_status(workspace, view.study_id, 10)
    assert view.state == "completed", view.failure
    with workspace.snapshot() as session:
        evidence = Evidence(session, workspace, NAME, inspection=Look())
        values = evidence.entries("ablation")[-1][1]["results"]["arms"][0]["values"]
    mean, spread = statistics.fmean(values), statistics.stdev(values)
    assert f": validation accuracy {mean:.4g} ± {spread:.2g} (mean and deviation over 3 seeds, " in said_of(workspace)
    with workspace.snapshot() as session:
        evidence = Evidence(session, workspace, NAME, inspection=Look())
        reached = sum(map(evidence.reaches_goal, values))
        mean = "reaches" if evidence.reaches_goal(mean) else "misses"
        assert f"{reached} of 3 seeds reach the goal of {evidence.goal['target']:g}" in said_of(workspace)
    assert said_of(workspace).endswith(f", and their mean {mean} it.")
    after: Any = projects.project_status(workspace, NAME).next
    assert after.tool == "pass_gate"
    with (workspace.path.parent / "code" / "iris.csv").open("a") as file:
        file.write("5.05,3.45,1.65,0.45,0\n")
    for stage in ("smoked", "planned", "trained", "based", "diagnosed"):
        advance(workspace, stage)
    assert said_of(workspace).endswith("nothing was repeated."), "on these data"
    again: Any = projects.project_status(workspace, NAME).next
    assert again.arguments == call.arguments


def test_the_plan_says_which_call_repeats() -> None:
    _, noted = with_intent(PlanRequest("tell irises apart, over several seeds"))
    assert [one for one in noted if "'over several seeds': one run is one seed" in one]


def test_repetitions_that_no_time_is_left_for_are_not_proposed(created_with: Any) -> None:
    limits = {"project_wall_clock_seconds": 1.0}
    workspace = created_with("diagnosed", intent="tell irises apart over several seeds", limits=limits)
    call: Any = projects.project_status(workspace, NAME).next
    assert call.tool == "pass_gate"
