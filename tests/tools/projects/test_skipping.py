"""Skipping optimization is a decision: what was asked for, begun, or needs another look comes first (N3, N4)."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from tests.worlds.scripted import scripted

from trainwright.tools import projects
from trainwright.tools.gates.next_call import _by_a_hair
from trainwright.tools.hyperparameter_tuner import start_study
from trainwright.tools.projects.advancing import advance
from trainwright.tools.workspace import Workspace
from trainwright.trainer.base.errors import GateRefusedError

NAME = "flowers"
SEARCH: dict[str, Any] = {
    "trials": 1,
    "confirmation_repeats": 3,
    "pruning": {"name": "none"},
    "space": {"optimizer.learning_rate": {"type": "float", "low": 0.01, "high": 0.02}},
}


def next_of(workspace: Workspace) -> Any:
    status = projects.project_status(workspace, NAME)
    assert isinstance(status, projects.ProjectStatus)
    return status.next


@pytest.mark.slow
@pytest.mark.requirement("TUNE-5", "PHASE-5")
def test_a_search_that_the_configuration_asks_for_is_played_though_the_goal_is_met(
    at: Callable[[str], Workspace],
) -> None:
    workspace = at("diagnosed")
    assert next_of(workspace).tool == "pass_gate", "nobody asked for one"
    projects.configure(workspace, NAME, changes={"search": SEARCH})
    call = next_of(workspace)
    assert (call.tool, call.arguments) == ("start_tuning", {"project": NAME})
    assert f"pass_gate(project={NAME!r}, phase='optimization') goes on without it" in call.why
    with scripted():
        answer = advance(workspace, NAME)
    assert "study" in answer.steps[0], answer
    assert not any("optimization skipped; " in step for step in answer.steps[:1])


@pytest.mark.slow
@pytest.mark.requirement("TUNE-5", "PHASE-8")
def test_a_skipped_phase_is_opened_again_by_one_call_before_the_export(at: Callable[[str], Workspace]) -> None:
    workspace = at("tuned")
    with pytest.raises(GateRefusedError) as refused:
        start_study(workspace, NAME, search=SEARCH)
    call = refused.value.details["next"]
    assert (call["tool"], list(call["arguments"]["changes"])) == ("configure", ["search"])
    answer = projects.configure(workspace, NAME, changes=call["arguments"]["changes"])
    assert answer.phase == "optimization"
    assert answer.next is not None
    assert answer.next.tool == "start_tuning"


@pytest.mark.parametrize(
    ("value", "target", "rows", "by_a_hair"),
    [
        (0.901, 0.9, 1000, True),
        (0.93, 0.9, 1000, False),
        (0.9545, 0.93, 22, True),
        (1.0, 0.99, 22, False),
        (0.9, 0.8, 22, False),
    ],
)
def test_a_goal_met_by_a_row_or_less_than_chance_is_met_by_a_hair(
    value: float, target: float, rows: int, *, by_a_hair: bool
) -> None:
    evidence: Any = SimpleNamespace(
        baseline=SimpleNamespace(best_value=lambda _: value), goal_metric="accuracy", goal={"target": target},
        smoke=SimpleNamespace(data=SimpleNamespace(sizes={"validation": rows})),
    )  # fmt: skip
    assert bool(_by_a_hair(evidence)) is by_a_hair
