"""Tasks of unlike units: scaled for the loss, in their units for all others, and the clean room computes the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trainwright.tools.training_monitor import diagnose
from trainwright.trainer.clean_room.evaluation import comparisons

CODE = """
import torch
from torch import nn

class Net(nn.Linear):
    def __init__(self):
        super().__init__(4, 2)

def rows(count, seed):
    x = torch.randn(count, 4, generator=torch.Generator().manual_seed(seed))
    return torch.utils.data.TensorDataset(x, torch.stack([500 + 40 * x[:, 0], 0.02 * x[:, 1]], dim=1))

def data():
    return {"train": rows(400, 0), "validation": rows(60, 1), "test": rows(60, 2)}
"""


@pytest.mark.slow
@pytest.mark.requirement("GATE-6", "TRAIN-5", "DIAG-7")
@pytest.mark.parametrize("scaling", [None, "standardize"])
def test_tasks_of_unlike_units_are_learned_scaled_and_compared_in_their_units(
    make_run: Any, work: Any, tmp_path: Path, scaling: str | None
) -> None:
    (tmp_path / "mine.py").write_text(CODE)
    small, large = ({"loss": "mse", "outputs": 1, "metrics": ["r2"], "target": place} for place in (1, 0))
    values = {
        "model": {"use": "mine:Net"}, "data": {"use": "mine:data"}, "logging": {"tensorboard": False},
        "objective": {"name": "multi_task", "tasks": {"small": small, "large": large}},
        "optimizer": {"learning_rate": 0.02}, "training": {"epochs": 12}, "loader": {"batch_size": 16},
        **({"target_scaling": scaling} if scaling else {}),
    }  # fmt: skip
    run = make_run(tmp_path / "run", values, exports_program=True, code_root=str(tmp_path))
    assert work(run) == 0, run.log.read_text()
    best = run.evidence("summary")["best"]["metrics"]
    told = [one for one in diagnose(run) if one.id == "unscaled_targets"]
    if scaling is None:
        assert best["large_r2"] < 0
        assert told[0].fixes[0].changes == {"target_scaling": "standardize"}, "which is the other case of this test"
        return
    assert not told
    assert min(best["small_r2"], best["large_r2"]) > 0.99
    assert found_by_the_clean_room(run) == pytest.approx(best, rel=1e-3)


def found_by_the_clean_room(run: Any) -> dict[str, float]:
    """What it computes of the program's outputs on the validation rows, by the run plan and the recorded scaling."""
    import onnxruntime
    import torch

    inputs = torch.randn(60, 4, generator=torch.Generator().manual_seed(1)).numpy()
    targets = np.stack([500 + 40 * inputs[:, 0], 0.02 * inputs[:, 1]], axis=1)
    program = onnxruntime.InferenceSession(
        str(run.artifacts / run.evidence("program")["path"]), providers=["CPUExecutionProvider"]
    )
    outputs = program.run(None, {program.get_inputs()[0].name: inputs})[0]
    assert np.abs(outputs - targets[:, ::-1]).max() < 20, "in the targets' units, in the order of the tasks"
    order = {"tasks": run.specification().config.model_dump(mode="json")["objective"]["tasks"]}
    found: dict[str, float] = {}
    for one in comparisons(order, {"target_scaling": run.evidence("resolved")["target_scaling"]}):
        one.add({"output": outputs}, targets)
        errors = outputs[:, one.output] - targets[:, one.columns]
        found[f"{one.name}_loss"] = one.mean_loss(np.arange(len(targets)))
        found[f"{one.name}_r2"] = float(1 - (errors**2).mean() / targets[:, one.columns].var())
    return {**found, "loss": found["small_loss"] + found["large_loss"]}
