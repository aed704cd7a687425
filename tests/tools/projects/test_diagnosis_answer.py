"""The answer of a diagnosis stays small with many alerts, and both of its forms hold the same facts."""

from __future__ import annotations

import json
import re

import pytest

from trainwright.server.agent_tool import reply
from trainwright.tools.answers import NextCall
from trainwright.tools.projects.diagnosis_answer import (
    MAX_ALERTS,
    MAX_FURTHER,
    AlertView,
    DiagnosisAnswer,
    FixResult,
    FixTrial,
    _view,
)
from trainwright.tools.training_monitor import Alert, load_diagnostics
from trainwright.tools.training_monitor.curve_summary import CurveSummary
from trainwright.tools.training_monitor.fixes import Fix

LONG = "The gradient norm that reached the optimizer was 1.002e+15 at step 2; it does harm. " * 8
CURVES = ("train/epoch_loss", "validation/loss", "validation/accuracy", "validation/macro_f1")


def answer() -> DiagnosisAnswer:
    """An answer about a run on which every document's alert is raised at once."""
    documents = load_diagnostics()
    alerts = [
        AlertView(
            id=one.id, severity=one.severity, message=f"{one.title}: {LONG}", measured=1.5, threshold=1.0, unit="share",
            step=1234, epoch=7, layers=[f"encoder.layers.{place}.attention.out" for place in range(10)],
            rows=[str(10_000 + place) for place in range(20)], document=one.path,
            fixes=[f'configure(project="p", changes={{"optimizer.learning_rate": 0.{place}}})' for place in range(5)],
            tried=[f"lower_learning_rate (1e15 -> 1e14; best value 1 -> 2) {LONG}"] * 3,
        )
        for one in documents
    ]  # fmt: skip
    numbers = {"last": 0.123456, "best": 0.1, "best_epoch": 3, "steps_since_best": 1000, "trend": "better",
               "slope": -0.00123456, "slope_error": 0.000123456, "noise": 0.0123456, "spikes": 2}  # fmt: skip
    return DiagnosisAnswer(
        project="p", run_id="baseline-p-20261123-194403-abcdef", kind="baseline", state="completed", verdict="stop",
        fit="underfitting", recommendation="debug", reasons=[alert.message for alert in alerts], epochs=12,
        alerts=alerts, curves=[CurveSummary(curve=name, **numbers) for name in CURVES],
        unjudged=[f"{one.id}: needs 10 epochs, 3 so far." for one in documents[:8]],
        next=NextCall(tool="configure", arguments={"changes": {"optimizer.learning_rate": 0.1}}, why=LONG[:400]),
    )  # fmt: skip


def trial() -> FixTrial:
    """Four fixes that were tried."""
    result = FixResult(
        fix="lower_learning_rate", cured="no", why="exploding_gradients is still raised", alert_before=1e15,
        alert_after=7.44313e15, value_before=319057.12, value_after=261092.4, noise=1234.56, run_id="p/cure-12",
    )  # fmt: skip
    return FixTrial(
        alert="exploding_gradients", state="ended", steps=1500, without="p/cure-11", curve="validation/loss",
        results=[result] * 4,
    )  # fmt: skip


@pytest.mark.requirement("DIAG-8")
def test_a_fix_that_is_known_to_be_in_vain_is_told_with_its_measurement_and_not_proposed() -> None:
    fix = Fix(id="lower_learning_rate", text="Take 0.3 of it.", changes={"optimizer.learning_rate": 0.006})
    alert = Alert(
        id="jagged_validation", severity="info", title="", message="", signal="validation_jaggedness", measured=0.4,
        threshold=0.1, unit="share", step=1, document="d.md", requirement="DIAG-7", fixes=[fix],
    )  # fmt: skip
    known = {fix.id: "ablation-1 measured it"}
    assert [len(_view("p", alert, [], vain).fixes) for vain in ({}, known)] == [1, 0]
    assert _view("p", alert, [], known).tried == ["lower_learning_rate: ablation-1 measured it"]


@pytest.mark.requirement("MCP-5", "DIAG-8")
@pytest.mark.parametrize("tried", [None, trial()])
def test_an_answer_with_every_alert_at_once_is_below_1200_tokens_and_names_them(tried: FixTrial | None) -> None:
    found = reply(answer().model_copy(update={"trial": tried}), "Run p/baseline-1 of p (baseline, completed): stop.")
    text = "\n".join(block.text for block in found.content if block.type == "text")
    facts = found.structured_content or {}
    assert len(text) / 4 < 1200
    assert len(json.dumps(facts, ensure_ascii=False, separators=(",", ":"))) / 4 < 1200
    shown = MAX_ALERTS - (tried is not None)
    assert len(facts["alerts"]) == shown
    assert len(facts["further_alerts"]) == MAX_FURTHER + 1
    assert all(one in text for one in facts["further_alerts"]), "those without room are named"
    assert facts["further_alerts"][-1] == f"{len(load_diagnostics()) - shown - MAX_FURTHER} more"
    assert ("fixes" in facts["alerts"][0]) is (tried is None), "the cause's fixes are calls"
    assert "15 more" in text, "rows"


@pytest.mark.requirement("MCP-5")
def test_full_detail_holds_everything() -> None:
    facts = reply(answer(), full=True).structured_content or {}
    assert len(facts["alerts"]) == len(load_diagnostics())
    assert len(facts["alerts"][-1]["rows"]) == 20
    assert facts["alerts"][-1]["measured"] == 1.5


@pytest.mark.requirement("MCP-3")
@pytest.mark.parametrize("full", [False, True])
def test_every_number_of_the_structured_part_stands_in_the_text(full: bool) -> None:
    found = reply(answer(), full=full)
    text = "\n".join(block.text for block in found.content if block.type == "text")
    numbers = set(re.findall(r"-?\d+\.\d+(?:e[+-]?\d+)?", json.dumps(found.structured_content)))
    assert numbers
    assert not [number for number in numbers if number not in text]
