"""A search that the user asked for: `next`, `advance`, the gate and start_tuning say the same of it (Q144, Q151)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.worlds.flowers import NAME

from trainwright.tools import projects
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.next_call import next_of, owed_search
from trainwright.tools.gates.searches import FIRST_TRIALS, first_search, no_room, proposed_call, seconds_a_trial
from trainwright.tools.hyperparameter_tuner import start_study, stop_study
from trainwright.tools.ledger import Look
from trainwright.trainer.base.errors import ConfigurationError

pytestmark = [pytest.mark.slow, pytest.mark.requirement("PHASE-4", "GATE-7", "TUNE-5")]
RATE = {"optimizer.learning_rate": {"type": "float", "low": 0.002, "high": 0.2, "log": True}}


def test_each_voice_names_the_search_of_as_many_trials_as_the_intent_asks_for(created_with: Any) -> None:
    workspace = created_with("diagnosed", intent="tell irises apart, 6 trials")
    status: Any = projects.project_status(workspace, NAME)
    search = {"trials": 6, "space": RATE}
    assert (status.next.tool, status.next.arguments) == ("start_tuning", {"project": NAME, "search": search})
    assert "the intent asks for a search ('6 trials')" in status.next.why
    for _ in range(2):
        answer = projects.advance(workspace, NAME)
        assert (answer.ended, answer.steps, answer.next) == ("decision", [], status.next)
    with pytest.raises(ConfigurationError) as refused:
        start_study(workspace, NAME)
    assert refused.value.details["amend"] == {"search": search}
    passed = projects.pass_gate(workspace, NAME, "optimization")
    assert passed.now_in == "finalization"
    again = "configure(project='flowers', changes={'search': "
    assert f"('6 trials'), and none was made: {again}" in (passed.unsearched or ""), passed
    assert again in passed.outcome_in_words


def test_a_search_without_a_number_of_trials_has_those_that_the_intent_asks_for(created_with: Any) -> None:
    workspace = created_with("diagnosed", intent="tell irises apart; try two settings")
    begun = start_study(workspace, NAME, search={"space": RATE})
    stop_study(workspace, begun.study_id)
    assert begun.trials_total == 2
    assert "trials 2: the intent asks for 'two settings'" in (begun.taken_as or [])


def test_a_search_that_no_time_is_left_for_is_named_where_the_gate_is_passed(created_with: Any) -> None:
    workspace = created_with(
        "diagnosed", intent="tell irises apart, 6 trials", limits={"project_wall_clock_seconds": 1.0}
    )
    status: Any = projects.project_status(workspace, NAME)
    call = status.next
    assert call.tool == "pass_gate"
    assert "('6 trials'), and none is proposed: " in call.why
    assert "s are left of project_wall_clock_seconds" in call.why


def test_whatever_is_asked_and_left_no_two_voices_propose_another_search(at: Any) -> None:
    workspace = at("diagnosed")
    asks = {
        "": None,
        "tell irises apart, no tuning": None,
        "a small search": FIRST_TRIALS,
        "6 trials": 6,
        "80 trials": 80,
    }

    @settings(max_examples=40, deadline=None, database=None)
    @given(st.sampled_from(sorted(asks)), st.one_of(st.none(), st.floats(0.5, 2000)), st.integers(0, 100))
    def one_search(intent: str, seconds: float | None, trials: int) -> None:
        with workspace.snapshot() as session:
            evidence = Evidence(session, workspace, NAME, inspection=Look())
            evidence.project.intent = intent
            evidence.__dict__ |= {"seconds_left": seconds, "trials_left": trials}
            call, owed, hindered = next_of(evidence), owed_search(evidence), no_room(evidence)
            voices = [call, owed, proposed_call(evidence, ""), None if hindered else first_search(evidence)]
            searches = [one.arguments["search"] for one in voices if one is not None and one.tool == "start_tuning"]
            session.expunge_all()
        assert call is not None
        assert (call.tool == "start_tuning") is (asks[intent] is not None and not hindered), "asked for, and possible"
        if not hindered:
            assert all(one == searches[0] for one in searches), "one search, whoever names it"
            assert searches[0]["trials"] <= min(asks[intent] or FIRST_TRIALS, trials)
            assert seconds is None or (searches[0]["trials"] + 6) * seconds_a_trial(evidence) <= seconds
        elif asks[intent] is not None:
            assert call.tool == "pass_gate"
            assert hindered in call.why, "what is left out is named"

    one_search()
