"""Smaller variants of a program: tried at the export, evaluated apart on validation rows, told on the card."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from tests.tools.evaluation.conftest import Evaluated

from trainwright.tools.evaluation.evaluate import order_of
from trainwright.tools.evaluation.variants import variants_of
from trainwright.tools.reports.model_card import variant_lines
from trainwright.tools.verification.evaluations import _figures
from trainwright.trainer.config.schema import DeploymentSection
from trainwright.trainer.jobs.export.exporters import DYNAMO, data_of
from trainwright.trainer.jobs.export.inputs import Example
from trainwright.trainer.jobs.export.program import write_program
from trainwright.trainer.jobs.export.variants import write_variants
from trainwright.trainer.run.artifacts import Program
from trainwright.trainer.run.results import Export, Variant

pytestmark = pytest.mark.requirement("PHASE-6", "CONF-4")

GOAL = {"metric": "accuracy", "direction": "maximize"}


class Wide(torch.nn.Module):
    """A network whose dynamo program names shapes, which the quantiser takes amiss."""

    output_names = ("output",)

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(4, 64), torch.nn.ReLU(), torch.nn.Linear(64, 3))

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        outputs: torch.Tensor = self.layers(inputs[0])
        return outputs


def test_a_program_of_the_dynamo_exporter_gets_both_variants_which_are_smaller(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model: Any = Wide().eval()
    rows = Example({"input": torch.randn(16, 4)})
    path = write_program(model, rows, tmp_path / "final_model", (DYNAMO,), 1e-4).path
    before = path.read_bytes()
    half, quarter = write_variants(["fp16", "int8", "fp16"], path, tmp_path, rows)
    assert (half.path, quarter.path) == ("final_model/model_fp16.onnx", "final_model/model_int8.onnx")
    assert (half.problem, quarter.problem, path.read_bytes() == before) == (None, None, True)
    assert 0 < half.share < 1
    assert 0 < quarter.share < 1
    types = {one.data_type for one in onnx.load(tmp_path / str(quarter.path)).graph.initializer}
    assert onnx.TensorProto.INT8 in types
    inputs = onnx.load(tmp_path / str(half.path)).graph.input
    assert inputs[0].type.tensor_type.elem_type == onnx.TensorProto.FLOAT, "it takes what the program takes"


def test_a_variant_that_cannot_be_made_is_named_and_not_left(tmp_path: Path) -> None:
    rows = Example({"input": torch.randn(16, 4)})
    path = write_program(Wide().eval(), rows, tmp_path, (DYNAMO,), 1e-4).path  # type: ignore[arg-type]
    two = Example({"input": torch.randn(16, 5)})
    (found,) = write_variants(["int8"], path, tmp_path, two)
    assert (found.path, found.bytes) == (None, 0)
    assert "Got invalid dimensions for input" in str(found.problem)
    data_of(path).write_bytes(b"")
    (found,) = write_variants(["fp16"], path, tmp_path, rows)
    assert "weights are beside it" in str(found.problem)
    assert {one.name for one in tmp_path.iterdir()} == {path.name, data_of(path).name}


def varied(evaluated: Evaluated, *names: str) -> Any:
    """Let the run be an export that wrote these variants; evaluate it."""
    program, rows = evaluated.run.artifacts / "model" / "model.onnx", torch.from_numpy(evaluated.room.inputs)
    written = write_variants(names, program, evaluated.run.artifacts, Example({"input": rows}))
    reported = {"size": 90, "metrics": {"accuracy": evaluated.accuracy, "loss": evaluated.loss}}
    evaluated.run.write_evidence(Export.model_validate({"validation": reported, "variants": written}))
    return evaluated.evaluation()


@pytest.mark.long
def test_variants_are_evaluated_apart_on_the_same_validation_rows(evaluated: Evaluated) -> None:
    found = varied(evaluated, "fp16", "int8")
    assert found.problem == ""
    assert found.certified()["accuracy"] == pytest.approx(evaluated.accuracy), "the program is what is certified"
    variants = found.splits["validation"]["variants"]
    assert list(variants) == ["model_fp16.onnx", "model_int8.onnx"]
    half = variants["model_fp16.onnx"]
    assert (half["rows"], "batch" in half, variants["model_int8.onnx"]["batch"]) == (90, False, 1)
    assert half["metrics"]["loss"] == pytest.approx(evaluated.loss, rel=1e-2)
    assert half["metrics"]["loss"] != found.certified()["loss"]
    assert {"intervals", "classes", "loss"} <= half["paired"].keys(), "what its word on the card follows from"
    figures = _figures(found.splits, {})
    assert figures["validation accuracy of model_fp16.onnx"] == half["metrics"]["accuracy"], "verify compares it too"
    run, planned = evaluated.sealed()
    order = order_of(evaluated.run.specification(), run, planned, run.part(Program))
    again = variants_of(run, {**order, "splits": ["validation", "test"]})  # of which there are no rows here
    assert again["model_fp16.onnx"]["metrics"] == half["metrics"], "the test rows are never asked for"
    line = variant_lines(found, GOAL)[1]
    assert line.startswith("model_int8.onnx: ")
    assert f"accuracy {variants['model_int8.onnx']['metrics']['accuracy']:.4g} against {evaluated.accuracy:.4g}" in line
    assert "on the same 90 validation rows, one row in a call" in line
    assert "not told apart" in line


def test_a_variant_that_is_worse_is_told_to_be_and_another_file_has_no_figure(evaluated: Evaluated) -> None:
    targets = evaluated.room.logits.argmax(1)
    evaluated.room.fix(evaluated.room.inputs, targets)
    evaluated.fix(splits=evaluated.room.order["rows"]["record"]["splits"])
    other = evaluated.room.program(np.roll(np.eye(4, 3, dtype=np.float32), 1, axis=1), "model_fp16.onnx")
    place = evaluated.run.artifacts / "model_fp16.onnx"
    Path(other["path"]).rename(place)
    variant = Variant(name="fp16", path=place.name, digest=other["digest"], bytes=50, share=0.5)
    evaluated.run.write_evidence(Export.model_validate({"variants": [variant, {"name": "int8", "problem": "no room"}]}))
    found = evaluated.evaluation()
    lines = variant_lines(found, GOAL)
    assert "0.5 of the size (50 bytes), accuracy" in lines[0]
    assert "against 1 on the same 90 validation rows: it is worse (95 % interval" in lines[0]
    assert lines[1] == "model_int8.onnx: not there; no figure: no room."
    place.write_bytes(b"another")
    assert "no figure: " in variant_lines(evaluated.evaluation(), GOAL)[0]


def test_variants_are_of_an_onnx_program_and_make_another_export() -> None:
    with pytest.raises(ValueError, match="add onnx to deployment.formats"):
        DeploymentSection(formats=["safetensors"], variants=["int8"])
    usual = DeploymentSection()
    assert not usual.writes_as(DeploymentSection(variants=["int8"]))
    assert DeploymentSection(variants=["int8", "fp16"]).writes_as(DeploymentSection(variants=["fp16", "int8"]))
