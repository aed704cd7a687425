"""A trace of a few steps is written where it is asked for, and changes no bit of the run."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

VALUES: dict[str, Any] = {
    "model": {"use": "mlp", "args": {"hidden": [8], "dropout": 0.3}},
    "data": {"use": "iris"},
    "training": {"epochs": 3},
    "logging": {"tensorboard": False},
}


@pytest.mark.requirement("TRACK-3", "REPRO-6")
def test_a_trace_holds_the_steps_that_were_asked_for_with_the_same_bits(
    tmp_path: Path, make_run: Any, work: Any
) -> None:
    plain = make_run(tmp_path / "plain", VALUES)
    traced = make_run(tmp_path / "traced", {**VALUES, "logging": {"tensorboard": False, "trace_steps": 3}})
    for run in (plain, traced):
        assert work(run) == 0, run.log.read_text()
    assert plain.evidence("summary")["weights_digest"] == traced.evidence("summary")["weights_digest"]
    assert plain.evidence("trace") is None
    assert not traced.events("note")
    found = traced.evidence("trace")
    assert found["steps"] == 3
    assert found["operations"][0]["self_ms"] >= found["operations"][-1]["self_ms"]
    with gzip.open(traced.path / found["path"]) as file:
        events = json.load(file)["traceEvents"]
    steps = {event["name"] for event in events if event.get("name", "").startswith("ProfilerStep#")}
    assert len(steps) == 3
    assert any("addmm" in event.get("name", "") for event in events)


@pytest.mark.requirement("TRACK-3")
def test_a_run_that_is_too_short_says_so(tmp_path: Path, make_run: Any, work: Any) -> None:
    values = {**VALUES, "training": {"epochs": 1, "max_steps": 2}, "logging": {"tensorboard": False, "trace_steps": 3}}
    run = make_run(tmp_path / "run", values)
    assert work(run) == 0, run.log.read_text()
    assert run.evidence("trace") is None
    (note,) = run.events("note")
    assert "No step was traced" in note.data["text"]
