"""What planning and the card say that a final model will lack, of raw inputs and answers: each sentence alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.tools.gates.test_each_check import LINES, VALUES, changed, config_with, evidence_of

from trainwright.tools.documents.rendering import render
from trainwright.tools.gates.outcomes import CHECKS
from trainwright.trainer.run.artifacts import ExportProbe, Parity

SOUND = ExportProbe(parity=Parity(rows_compared=4, max_abs_difference=1e-7, passed=True))
SAMPLES = "; final_model/ will take samples as your code gives them: no preprocessing of raw inputs is shipped"
NUMBERS = "; predict.py will answer with the model's outputs as numbers: data.present (output to answer) is missing"
OWN = {"use": "mine:data"}
PREPARED = OWN | {"prepare": "serve.py:prepare"}
FAILED, UNTRIED = ExportProbe(problem="no forward"), ExportProbe(reason="too large")
UNHEARD = SOUND.model_copy(update={"own_reason": "data.present, since it takes long"})


def measured(folder: Path, data: dict[str, Any], probe: ExportProbe, formats: list[str]) -> str:
    evidence = evidence_of(folder)
    changed(evidence, "config", config_with(data=data, deployment={"formats": formats}))
    changed(evidence, "smoke.parts", {ExportProbe: probe})
    return str(CHECKS["planning.export_tried"](evidence, LINES["planning.export_tried"]).measured)


@pytest.mark.requirement("GATE-1", "CKPT-5")
@pytest.mark.parametrize(
    ("data", "probe", "formats", "told"),
    [
        (OWN, SOUND, ["onnx"], f"ONNX differs by 1.0e-07{SAMPLES}"),
        (OWN, FAILED, ["onnx"], f"no forward{SAMPLES}"),
        (OWN, UNTRIED, ["onnx"], f"too large{SAMPLES}"),
        (OWN, SOUND, ["safetensors"], f"no ONNX is wanted: safetensors{SAMPLES}"),
        (VALUES["data"], FAILED, ["onnx"], "no forward"),
        (PREPARED, FAILED.model_copy(update={"answers_outputs": True}), ["onnx"], f"no forward{NUMBERS}"),
        (PREPARED, UNTRIED, ["onnx"], "too large"),
        (PREPARED, UNHEARD, ["onnx"], "by 1.0e-07; not tried before the export: data.present, since it takes long"),
    ],
)
def test_planning_says_it_whether_or_not_there_is_an_onnx(
    tmp_path: Path, data: dict[str, Any], probe: ExportProbe, formats: list[str], told: str
) -> None:
    assert measured(tmp_path, data, probe, formats).endswith(told)


NO_INPUTS = "**No preprocessing is shipped**: predict.py takes samples as the data's code gave them to the model."
NO_PROGRAM = "**No preprocessing is shipped**: the rows of the data are not turned into the model's inputs here."
NO_ACTIONS = "**No actions are given**: predict.py answers an observation with the model's outputs, since no"
NO_ANSWERS = "**Outputs are not interpreted**: predict.py answers with the model's numbers, since no `data.present`"


def shipped(kind: str, answer: str, *, are_targets: bool = False, **more: Any) -> dict[str, Any]:
    return {"kind": kind, "answer": {"kind": answer, "are_targets": are_targets}, "use": [], **more}


@pytest.mark.requirement("PHASE-6", "CKPT-5")
@pytest.mark.parametrize(
    ("prediction", "is_raw", "told"),
    [
        (shipped("array", "numbers"), False, NO_INPUTS),
        (shipped("array", "numbers"), True, ""),
        ({}, False, NO_PROGRAM),
        (shipped("array", "numbers", episodes={"use": "", "function": "", "needs": ""}), False, NO_ACTIONS),
        (shipped("array", "own", episodes={"use": "", "function": "", "needs": ""}), False, ""),
        (shipped("array", "classes", episodes={"use": "", "function": "", "needs": ""}), False, ""),
        (shipped("own", "numbers"), True, NO_ANSWERS),
        (shipped("own", "numbers", are_targets=True), True, ""),
        (shipped("own", "own"), True, ""),
        (shipped("table", "classes"), True, ""),
    ],
)
def test_the_card_says_what_the_folder_does_not_do(prediction: dict[str, Any], is_raw: bool, told: str) -> None:
    card = render("reports/model_card.md.j2", prediction=prediction, is_raw=is_raw, intent="")
    said = [one for one in (NO_INPUTS, NO_PROGRAM, NO_ACTIONS, NO_ANSWERS) if one in card]
    assert said == [told] * bool(told)


@pytest.mark.requirement("PHASE-6", "CKPT-5")
def test_the_card_says_why_answers_were_not_compared() -> None:
    prediction = shipped("array", "numbers", needs="numpy")
    told = "Before the release its answers were not compared with the model's: no held-out row can be taken alone."
    assert told in render("reports/use.md.j2", prediction=prediction, unproven="no held-out row can be taken alone")
    assert "Before the release" not in render("reports/use.md.j2", prediction=prediction)
