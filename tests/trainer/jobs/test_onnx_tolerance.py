"""An ONNX file is held to the model's outputs, at the scale that these have; what mends a difference is named."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from trainwright.trainer.base.errors import IntegrityError
from trainwright.trainer.jobs.export.formats import write_onnx

pytestmark = pytest.mark.slow


class Scaled(torch.nn.Module):
    """Gives outputs of about this size; `wrong` ones where it is exported."""

    def __init__(self, scale: float, *, wrong: float = 0.0) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(64, 3)
        self.scale, self.wrong = scale, wrong

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        outputs = self.layer(inputs[0]) * self.scale
        return outputs * (1.0 + self.wrong) if torch.compiler.is_exporting() else outputs


@pytest.mark.requirement("PHASE-6")
def test_large_outputs_may_differ_by_as_much_as_their_rounding(tmp_path: Path) -> None:
    torch.manual_seed(0)
    rows = {"input": torch.randn(16, 64)}
    found = write_onnx(Scaled(1e6).eval(), rows, tmp_path / "model.onnx", 1e-4)  # type: ignore[arg-type]
    assert found.passed
    assert found.largest_output > 1e5
    with pytest.raises(IntegrityError, match="The ONNX file differs from the model by") as met:
        write_onnx(Scaled(1e6, wrong=1e-3).eval(), rows, tmp_path / "wrong.onnx", 1e-4)  # type: ignore[arg-type]
    assert met.value.details["changes"] == {"deployment.formats": ["safetensors"]}
    with pytest.raises(IntegrityError, match=r"more than 0\.0001 of outputs up to 0\."):
        write_onnx(Scaled(0.1, wrong=1e-2).eval(), rows, tmp_path / "small.onnx", 1e-4)  # type: ignore[arg-type]
