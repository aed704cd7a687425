"""The list of projects, and what configure says it did."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.worlds.flowers import NAME

from trainwright.tools import projects
from trainwright.tools.workspace import Workspace

At = Callable[[str], Workspace]


@pytest.mark.requirement("MCP-5", "PHASE-1")
def test_the_list_of_projects_says_what_for_how_far_and_how_good(at: At) -> None:
    [created] = projects.project_status(at("created"))  # type: ignore[misc]
    assert (created.intent, created.goal) == ("tell irises apart", "validation accuracy >= 0.6")
    assert (created.state, created.best) == ("planning", None)
    [based] = projects.project_status(at("based"))  # type: ignore[misc]
    assert based.state == "diagnostics"
    assert based.best is not None
    assert based.best >= 0.6
    [finished] = projects.project_status(at("finished"))  # type: ignore[misc]
    assert finished.state.startswith("finished on ")


@pytest.mark.requirement("CONF-5", "PHASE-8")
def test_configure_says_what_changed_and_which_gates_it_reopens(at: At) -> None:
    answer = projects.configure(at("diagnosed"), NAME, changes={"optimizer": {"learning_rate": 0.01}})
    assert answer.changed == {"optimizer.learning_rate": [0.02, 0.01]}
    assert [told.partition(":")[0] for told in answer.reopened] == ["planning", "baseline", "diagnostics"]
    assert "optimizer.learning_rate 0.02 -> 0.01" in answer.reopened[0]
