"""A search that the user asked for is not passed by: `advance` stops before the gate behind which none can start."""

from __future__ import annotations

import re
from typing import Any

import pytest
from tests.worlds.flowers import NAME

from trainwright.tools import projects
from trainwright.tools.projects import advancing

pytestmark = pytest.mark.requirement("PHASE-4", "GATE-7")


@pytest.mark.slow
def test_advance_stops_before_it_skips_a_search_that_the_intent_asks_for(at: Any, monkeypatch: Any) -> None:
    workspace = at("diagnosed")
    monkeypatch.setattr(advancing, "SEARCH", re.compile("tell irises"))
    for _ in range(2):
        answer = projects.advance(workspace, NAME)
        assert (answer.ended, answer.steps, answer.phase) == ("decision", [], "optimization")
        assert "asks for 'tell irises', and none has run: start_tuning(project=" in (answer.reason or "")
        assert (answer.next.tool, answer.next.arguments["phase"]) == ("pass_gate", "optimization")
    passed = projects.pass_gate(workspace, NAME, "optimization")
    assert passed.now_in == "finalization"


@pytest.mark.parametrize(
    ("intent", "asked"),
    [
        ("spam F1 of at least 0.93; a small search; a killed training goes on", "a small search"),
        ("price within 10 %; a search of about 15 trials", "a search"),
        ("tune the learning rate", "tune the"),
        ("find good hyperparameters", "hyperparameters"),
        ("rank the results of our search engine", ""),
        ("patients of three clinical trials", ""),
        ("search queries by topic", ""),
    ],
)
def test_words_that_ask_for_a_search(intent: str, asked: str) -> None:
    found = advancing.SEARCH.search(intent)
    assert (found[0] if found else "") == asked
