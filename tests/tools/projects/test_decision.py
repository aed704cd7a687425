"""One decision point: over drawn states no answer has two voices, repeats a failure, or discards work silently."""

from __future__ import annotations

import ast
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainwright.tools.answers import NextCall
from trainwright.tools.gates.decision import LOOKS_AT_TEST, About, Facts, Option, decide

TOOLS = {
    "start_training", "start_tuning", "configure", "export_model", "verify_reproducibility", "diagnose_run",
    "run_status",
}  # fmt: skip
WHYS = st.sampled_from(["", "", "smoke-1 failed on these digests", "it would be refused in this phase"])
SECONDS = st.one_of(st.none(), st.floats(1, 1e5))
STATES = (500, pytest.param(5000, marks=pytest.mark.long))


def option(tools: set[str]) -> st.SearchStrategy[Option]:
    numbers = st.integers(0, 3)
    calls = st.builds(
        lambda tool, number: NextCall(tool=tool, arguments={"number": number}, why="a reason"),
        st.sampled_from(sorted(tools)),
        numbers,
    )
    return st.builds(Option, call=calls, vain=WHYS, seconds=SECONDS)


def maybe(*tools: str) -> st.SearchStrategy[Option | None]:
    return st.one_of(st.none(), option(set(tools)))


ABOUT = st.builds(
    About,
    lost=maybe("stop_training"),
    tried=maybe("run_status", "diagnose_run"),
    broken=maybe("resume_training", "start_training"),
    cures=st.lists(option({"configure", "diagnose_run"}), max_size=3),
)
DOCUMENT = NextCall(tool="read_document", arguments={"path": "phases/WORKFLOW.md"}, why="work on the code")
FACTS = st.builds(
    Facts,
    about=ABOUT,
    is_finished=st.booleans(),
    trial=maybe("run_status"),
    leak=maybe("configure"),
    closed=st.lists(option(TOOLS), max_size=4),
    document=st.just(DOCUMENT),
    price=maybe("start_training"),
    cures=st.lists(option({"configure", "diagnose_run"}), max_size=2),
    search=maybe("start_tuning"),
    gate=st.just(Option(call=NextCall(tool="pass_gate", arguments={"phase": "optimization"}))),
    seconds_left=SECONDS,
    after=st.one_of(st.none(), st.builds(lambda one: one.call, option(TOOLS))),
)


def stands(facts: Facts, one: Option | None) -> bool:
    """Whether nothing is known against a call."""
    if one is None or one.vain:
        return False
    if facts.after is not None and (one.call.tool, one.call.arguments) == (facts.after.tool, facts.after.arguments):
        return False  # it is being answered
    return facts.seconds_left is None or one.seconds is None or one.seconds <= facts.seconds_left


@pytest.mark.requirement("GATE-7", "DIAG-10")
@pytest.mark.parametrize("states", STATES)
def test_whatever_the_state_one_call_is_proposed_that_nothing_is_known_against(states: int) -> None:
    settings(max_examples=states, deadline=None, database=None)(given(FACTS)(one_call_stands))()


def one_call_stands(facts: Facts) -> None:
    """Hold the call of a state, or that there is none."""
    call = decide(facts)
    every: list[Option] = [
        one
        for one in (
            facts.about.lost, facts.about.tried, facts.about.broken, facts.trial, *facts.about.cures, facts.leak,
            *facts.closed, facts.price, *facts.cures, facts.search, facts.gate,
        )
        if one is not None
    ]  # fmt: skip
    if call is None:
        assert facts.is_finished, "only a finished project wants nothing"
        return
    own = [one for one in every if (one.call.tool, one.call.arguments) == (call.tool, call.arguments)]
    assert call.tool == "read_document" or any(stands(facts, one) for one in own), "refused, in vain, or too long"
    assert facts.after is None or (call.tool, call.arguments) != (facts.after.tool, facts.after.arguments)
    ahead = [facts.about.lost, facts.about.tried]
    if facts.is_finished:
        assert own[0] in ahead, "a finished project is told no old remedy"
        return
    if any(stands(facts, one) for one in ahead):
        return
    if call.tool in LOOKS_AT_TEST:
        assert (call.tool, call.arguments) == (facts.closed[0].call.tool, facts.closed[0].call.arguments), (
            "the test split waits for every other check"
        )
    if call.tool == "pass_gate":
        assert not facts.closed
        assert not stands(facts, facts.search), "work that was asked for is not discarded silently"
        assert not any(stands(facts, one) for one in facts.cures), "a known cure comes first"


@pytest.mark.requirement("GATE-7")
def test_a_replay_that_failed_stops_before_the_test_split() -> None:
    smoke = Option(call=NextCall(tool="start_training", arguments={"kind": "smoke"}), vain="smoke-1 is complete")
    export = Option(call=NextCall(tool="export_model", arguments={}))
    call = decide(Facts(closed=[smoke, export], document=DOCUMENT))
    assert call is not None
    assert (call.tool, call.why) == ("read_document", "work on the code (smoke-1 is complete)")


URGENCY = ["lost", "tried", "broken", "trial", "cure", "leak", "proven", "closed", "document"]
OPEN = [*URGENCY[:-2], "price", "search", "gate"]
"""What is proposed while a gate is closed, and while it is open: the most urgent first."""
ABOUT_A_RUN = {"lost": "lost", "tried": "tried", "broken": "broken", "cure": "cures"}


def placed(*names: str, vain: str = "", **others: Any) -> Facts:
    """Facts in which there is just what is named; the first of it is known to be of no use where `vain` says so."""
    about: dict[str, Any] = {}
    facts: dict[str, Any] = dict(others)
    for name in names:
        own = Option(call=NextCall(tool=name, arguments={}, why="a reason"), vain=vain if name == names[0] else "")
        if name == "document":
            facts["document"] = own.call
        elif name in ABOUT_A_RUN:
            about[ABOUT_A_RUN[name]] = [own] if name == "cure" else own
        else:
            facts["cures" if name == "proven" else name] = [own] if name in {"proven", "closed"} else own
    return Facts(about=About(**about), **facts)


@pytest.mark.requirement("GATE-7", "DIAG-10")
@pytest.mark.parametrize(("first", "then"), sorted({*pairwise(URGENCY), *pairwise(OPEN)}))
def test_the_more_urgent_comes_first_and_the_next_where_it_is_in_vain(first: str, then: str) -> None:
    assert [call.tool for call in (decide(placed(then, first)), decide(placed(first, then, vain="tried"))) if call] == [
        first, then,
    ]  # fmt: skip


@pytest.mark.requirement("GATE-7", "GATE-2")
@pytest.mark.parametrize("further", ["price", "search", "gate"])
def test_behind_a_closed_gate_nothing_further_is_proposed(further: str) -> None:
    assert decide(placed("closed", further, vain="tried")) is None


@pytest.mark.requirement("GATE-7")
def test_what_is_passed_over_is_named_and_what_is_being_answered_is_not() -> None:
    failed, answered, other = (
        Option(call=NextCall(tool=tool, arguments={}, why="a reason"), vain=vain)
        for tool, vain in (("start_training", "smoke-1 failed"), ("diagnose_run", ""), ("configure", ""))
    )
    for closed, why in (([failed, other], "a reason (smoke-1 failed)"), ([answered, other], "a reason")):
        call = decide(Facts(closed=closed, document=DOCUMENT, after=answered.call))
        assert call is not None
        assert (call.tool, call.why) == ("configure", why)


def test_no_answer_has_a_second_voice() -> None:
    """Answers have one field that proposes a call: `next`."""
    found: dict[str, list[str]] = {}
    for path in Path("tools").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and any(getattr(base, "id", "") == "Answer" for base in node.bases):
                calls = [
                    one
                    for one in node.body
                    if isinstance(one, ast.AnnAssign) and "NextCall" in ast.dump(one.annotation)
                ]
                found |= {node.name: [ast.unparse(one.target) for one in calls]} if calls else {}
    assert not found, found
