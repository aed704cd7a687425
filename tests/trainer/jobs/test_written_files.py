"""What an export writes: programs held to the outputs of the model, at their scale, and files that others may read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from trainwright.trainer.base.errors import IntegrityError
from trainwright.trainer.config.schema import DeploymentSection
from trainwright.trainer.jobs.export.exporters import FAST
from trainwright.trainer.jobs.export.inputs import Example
from trainwright.trainer.jobs.export.program import write_others, write_program
from trainwright.trainer.jobs.export.work import let_read

pytestmark = pytest.mark.slow


class Scaled(torch.nn.Module):
    """Gives outputs of about this size; `wrong` ones where it is exported."""

    def __init__(self, scale: float, *, wrong: float = 0.0) -> None:
        super().__init__()
        self.layer, self.output_names = torch.nn.Linear(64, 3), ["output"]
        self.scale, self.wrong = scale, wrong

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        outputs = self.layer(inputs[0]) * self.scale
        is_exported = torch.jit.is_tracing()
        return outputs * (1.0 + self.wrong) if is_exported else outputs


@pytest.mark.requirement("PHASE-6", "CONF-4")
def test_programs_for_pytorch_are_written_where_they_are_asked_for_and_held_to_the_models_outputs(
    tmp_path: Path,
) -> None:
    torch.manual_seed(0)
    rows = Example({"input": torch.randn(16, 64)})
    model: Any = Scaled(1.0).eval()
    asked = DeploymentSection(formats=["safetensors", "torch_export", "torchscript"])
    found = write_others(model, rows, tmp_path, asked)
    assert [(name, parity.passed, parity.batch_sizes) for name, parity in found.items()] == [
        ("model.pt2", True, [1, 2, 7, 16]),
        ("model.torchscript.pt", True, [1, 2, 7, 16]),
    ]
    few = torch.randn(5, 64)
    for opened in (
        torch.jit.load(tmp_path / "model.torchscript.pt"),
        torch.export.load(tmp_path / "model.pt2").module(),
    ):
        assert torch.allclose(opened(few), model(few), atol=1e-5)
    assert write_others(model, rows, tmp_path, asked) == {}, "what is evaluated is not written again"
    assert write_others(model, rows, tmp_path / "usual", DeploymentSection()) == {}
    with pytest.raises(IntegrityError, match="torchscript: The program written by torch.jit.trace differs") as met:
        write_others(
            Scaled(1.0, wrong=0.1).eval(), rows, tmp_path / "wrong", DeploymentSection(formats=["torchscript", "onnx"])
        )  # type: ignore[arg-type]
    assert met.value.details["changes"] == {"deployment.formats": ["onnx"]}
    assert "leave torchscript out of deployment.formats" in met.value.remedy
    assert not [*(tmp_path / "wrong").iterdir()]


@pytest.mark.requirement("PHASE-6", "GATE-6")
def test_large_outputs_may_differ_by_as_much_as_their_rounding(tmp_path: Path) -> None:
    torch.manual_seed(0)
    rows = Example({"input": torch.randn(16, 64)})

    def written(model: Any) -> Any:
        return write_program(model.eval(), rows, tmp_path, (FAST,), 1e-4)

    found = written(Scaled(1e6)).parity
    assert found.passed
    assert found.largest_output > 1e5
    with pytest.raises(IntegrityError, match="differs from the model by") as met:
        written(Scaled(1e6, wrong=1e-3))
    assert met.value.details["changes"] == {"deployment.formats": ["safetensors"]}
    with pytest.raises(IntegrityError, match=r"more than 0\.0001 of outputs up to 0\."):
        written(Scaled(0.1, wrong=1e-2))


@pytest.mark.requirement("PHASE-6")
def test_whoever_may_read_the_folder_may_read_what_a_library_wrote_for_its_owner_alone(tmp_path: Path) -> None:
    folder = tmp_path / "final_model"
    (folder / "transformers").mkdir(parents=True)
    for path in (folder / "predict.py", folder / "transformers" / "model.safetensors"):
        path.touch(0o600)
    folder.chmod(0o755)
    (folder / "transformers").chmod(0o750)
    let_read(folder)
    modes = {path.name: oct(path.stat().st_mode & 0o777) for path in folder.rglob("*.*")}
    assert modes == {"predict.py": "0o644", "model.safetensors": "0o640"}
