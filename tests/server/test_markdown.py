"""Markdown that carries every fact of an answer, whatever fields it has."""

import json

import pytest

from trainwright.server.agent_tool import alike
from trainwright.server.markdown import markdown, rounded

ANSWER = {
    "project": "digits",
    "state": "failed",
    "step": 3,
    "whole": False,
    "metrics": {"validation/accuracy": 0.91, "train/loss": "nan"},
    "failure": {"category": "user_code", "message": "it broke", "traceback": "File net.py, line 3\n    raise KeyError"},
    "checks": [
        {"id": "planning.one", "status": "failed", "measured": "0 | 1", "required": "2"},
        {"id": "planning.two", "status": "passed", "measured": "2", "required": "2"},
    ],
    "alerts": [
        {"id": "nan_loss", "document": "diagnostics/nan_loss.md", "fixes": ["configure(project='digits')", "x"]}
    ],
    "reasons": ["one reason, with a comma", "a long reason " * 12],
    "projects": [
        {"project": "a", "next": {"tool": "run_status", "arguments": {"run_id": "a/smoke-1"}, "why": "goes on"}}
    ],
    "nested": {"deep": {"deeper": {"deepest": [1, {"value": 42.5}]}}},
    "empty": [],
    "next": {"tool": "run_status", "arguments": {"run_id": "x", "wait_seconds": 50}, "why": "the run goes on"},
}


def leaves(value):
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in leaves(item)]
    if isinstance(value, list):
        return [leaf for item in value for leaf in leaves(item)]
    return [value]


@pytest.mark.requirement("MCP-5")
def test_every_fact_stands_in_the_text_and_the_next_call_is_its_last_line():
    text = markdown(ANSWER, "Project digits: failed.", frozenset({"project", "state"}))
    for leaf in leaves(ANSWER):
        shown = leaf if isinstance(leaf, str) else json.dumps(leaf)
        for line in shown.splitlines():
            assert line.strip().replace("|", "/") in text.replace("|", "/"), leaf
    assert text.splitlines()[0] == "Project digits: failed."
    assert text.splitlines()[-1] == 'Next: run_status(run_id="x", wait_seconds=50) - the run goes on'
    assert "empty" not in text
    assert len(text) < len(json.dumps(ANSWER))


def test_measured_numbers_have_six_digits_and_what_someone_set_stays_as_it_is():
    exact = 0.12345678901
    answer = {"best": {"value": exact}, "changed": {"a.b": [1e-6, exact]}, "next": {"arguments": {"x": exact}}, "n": 3}
    assert rounded(answer) == {**answer, "best": {"value": 0.123457}}


@pytest.mark.requirement("GATE-6")
def test_terminal_codes_and_turning_characters_reach_no_reader():
    answer = {"label": "a\x1b[2Jb\u202ec", "failure": {"message": "one\x07\ntwo\u2028three\u200b"}, "next": None}
    text = markdown(answer, "Project \x1b]0;title\x07digits.")
    assert text == "Project ]0;titledigits.\nlabel: a[2Jbc\nfailure:\n  message:\n    one\n    two\n    three"


def test_a_key_that_a_change_removes_is_shown_as_null() -> None:
    fixes = [{"changes": {"data.split.validation": None}, "text": "Remove the key"}]
    assert "data.split.validation null" in markdown({"fixes": fixes})


def test_rows_of_bounds_are_a_table_and_its_columns_come_in_the_order_of_the_fullest_row():
    text = markdown({"rows": [{"name": "a", "why": "b"}, {"name": "c", "hours": [0.1, 0.25], "why": "d"}]})
    assert text.splitlines() == ["rows: | name | hours | why", "- a | - | b", "- c | [0.1, 0.25] | d"]


def test_news_of_one_cause_is_told_once_with_the_runs_that_have_it():
    news = [
        {"run_id": f"p/trial-{number}", "id": what, "state": "new", "severity": "warning", "message": f"{number} %"}
        for number, what in ((1, "overfitting"), (2, "loss_nan"), (3, "overfitting"), (4, "overfitting"))
    ]
    told = alike(news)
    assert [(one["run_id"], one.get("also"), one["message"]) for one in told] == [
        ("p/trial-1", "p/trial-3, p/trial-4", "1 %"), ("p/trial-2", None, "2 %"),
    ]  # fmt: skip
    assert "also" not in news[0]
