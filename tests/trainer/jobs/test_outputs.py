"""What the card says of a program's outputs, and its lines that call one, run as they stand on own code."""

from __future__ import annotations

from ast import literal_eval
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.trainer.users import MINE, PARTS

from trainwright.tools.documents.rendering import render
from trainwright.tools.reports.opened import LOADED, opened
from trainwright.trainer.config.schema import DeploymentSection
from trainwright.trainer.jobs.export.outputs import outputs_of
from trainwright.trainer.jobs.export.program import write_others
from trainwright.trainer.jobs.export.served import rows_to_call_with, served_of

pytestmark = pytest.mark.requirement("CKPT-5", "PHASE-6")

NETS = """
class Shares(Net):
    def forward(self, x): return super().forward(x).softmax(1)
class One(Net):
    def forward(self, x): return super().forward(x)[:, :1]
def of_shares(output, target): return -output.log().gather(1, target[:, None]).mean()
"""
SERVE = {"prediction": {"answer": {"kind": "own", "present": "code/serve.py:present"}}}


def outputs(open_session: Any, folder: Path, **section: Any) -> tuple[Any, dict[str, Any]]:
    """Return the session's served model, and what is said of its outputs."""
    (folder / "own_nets.py").write_text(MINE + NETS)
    model = {"use": f"own_nets:{section.pop('net', 'Net')}"}
    session = open_session({**PARTS, "model": model, "data": {"use": "own_nets:data"}, **section})
    rows, are_real = rows_to_call_with(session)
    served = served_of(session, rows, are_real=are_real)
    with torch.no_grad():
        return served, outputs_of(session, [served.serving(*rows.values())])


@pytest.mark.slow
def test_the_cards_lines_call_a_program_of_own_code_and_say_its_class_order_where_no_names_are_known(
    open_session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    served, found = outputs(open_session, tmp_path)
    assert found == {"are": "logits", "shape": [2], "classes": None, "several": False}
    asked = DeploymentSection(formats=["safetensors", "torch_export", "torchscript"])
    written = write_others(served.serving, served.rows, tmp_path, asked)
    assert written.keys() == LOADED.keys()
    wanted = served.serving(torch.zeros(1, 4)).softmax(1)
    resolved = {"input_shapes": [[4]], "input_types": ["float32"], "outputs": found}
    monkeypatch.chdir(tmp_path)
    for name in written:
        exec(opened(name, resolved), {})  # noqa: S102 - as a reader of the card runs it
        shown = literal_eval(capsys.readouterr().out.strip().removeprefix("tensor").strip("()"))
        assert torch.allclose(torch.tensor(shown), wanted, atol=1e-4)
    programs = [(name, opened(name, resolved), parity) for name, parity in written.items()]
    card = render("reports/use.md.j2", programs=programs, served=resolved, **SERVE)
    assert card.count("```python\nimport torch\n") == 2
    assert card.endswith(
        "Its outputs are logits, one a class: softmax makes probabilities of them. Classes, in their order: as your "
        "data's code numbers them, from 0, since no names are known. The answers of predict.py are what "
        "`code/serve.py:present` makes of them.\n"
    )
    classes = render("reports/slices.md.j2", class_lines=[[0, "test", 9, "1", "1"]], **SERVE)
    assert "No names of classes are known: these are the numbers of your targets" in classes
    assert "No names" not in render("reports/slices.md.j2", class_lines=[["setosa"]], classes_are_named=True)


@pytest.mark.parametrize(
    ("section", "are", "told"),
    [
        ({"net": "Shares", "loss": "own_nets.py:of_shares"}, "probabilities", "Its outputs are probabilities"),
        ({"loss": "own_nets.py:of_shares"}, "", "What its outputs are, only the loss or step of yours says."),
        ({"net": "One", "loss": "bce_with_logits"}, "log_odds", "Its output is the logit of class 1: sigmoid"),
        ({"net": "One", "loss": "mse"}, "targets", "Its outputs are the targets in their own units."),
    ],
)
def test_what_outputs_are_is_of_the_loss_that_they_were_trained_by(
    open_session: Any, tmp_path: Path, section: dict[str, Any], are: str, told: str
) -> None:
    _, found = outputs(open_session, tmp_path, **section)
    assert found["are"] == are
    assert told in render("reports/outputs.md.j2", served={"outputs": found})


def test_inputs_of_a_text_are_made_up_of_ones_and_the_first_of_several_outputs_is_taken() -> None:
    resolved = {"input_shapes": [[8], []], "input_types": ["int64", "float64"], "outputs": {"several": True}}
    code = opened("model.torchscript.pt", resolved)
    assert "[torch.ones(1, 8, dtype=torch.int64), torch.zeros(1, dtype=torch.float64)]" in code
    assert "outputs, *_ = model(*inputs)\nprint(outputs)" in code
