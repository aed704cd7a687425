"""What a step is summed up to leaves out what has no gradient by algebra, and what begins at zero."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

MODELS = """
import torch
from torch import nn


class Net(nn.Module):
    '''Attention whose key bias has no gradient, a bias before a batch norm, a gate and a head that begin at zero.'''

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(8))
        self.query, self.key, self.value = nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 16)
        self.gate = nn.Parameter(torch.zeros(1))
        self.head = nn.Linear(16, 10)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(self, x):
        x = self.stem(x.reshape(-1, 8, 8))
        seen = (self.query(x) @ self.key(x).mT / 4).softmax(-1) @ self.value(x)
        return self.head((x + (self.gate + 0.1) * seen).mean(1))


class Quantised(nn.Module):
    '''A frozen base of whole numbers, as 8-bit weights are, below a head.'''

    def __init__(self):
        super().__init__()
        self.base = nn.Parameter(torch.randint(-9, 9, (64, 16), dtype=torch.int8), requires_grad=False)
        self.head = nn.Linear(16, 10)

    def forward(self, x):
        return self.head(x.reshape(-1, 64) @ self.base.float() / 64)


class Zero(nn.Linear):
    '''All of it begins at zero.'''

    def __init__(self):
        super().__init__(64, 10)
        nn.init.zeros_(self.weight)
        nn.init.zeros_(self.bias)

    def forward(self, x):
        return super().forward(x.reshape(-1, 64))
"""


def trained(folder: Path, make_run: Any, work: Any, digits: dict[str, Any], model: str) -> Any:
    (folder / "mine.py").write_text(MODELS)
    values = {**digits, "model": {"use": f"mine.py:{model}"}, "training": {"epochs": 1}}
    run = make_run(folder / "run", values, code_root=str(folder))
    assert work(run) == 0, run.log.read_text()
    return run.metrics()


@pytest.mark.requirement("DIAG-4", "DIAG-7")
def test_gradients_that_are_zero_by_algebra_and_starts_at_zero_are_not_held_against_a_model(
    tmp_path: Path, make_run: Any, work: Any, digits: dict[str, Any]
) -> None:
    store = trained(tmp_path, make_run, work, digits, "Net")
    keys = [key for key in store.keys() if key.startswith("layers/gradient_norm/")]  # noqa: SIM118 - no mapping
    gradients = {key: store.tail(key, 1)[0].value for key in keys}
    algebra = gradients["layers/gradient_norm/key.bias"] / max(gradients.values())
    assert algebra < 1e-6, "zero, but for rounding"
    assert store.tail("watch/gradient_spread", 1)[0].value > 100 * algebra
    [ratio] = [point.value for point in store.head("layers/update_ratio/head.weight", 2) if point.step == 2]
    assert ratio > 0.3, "many times its size, for it began at zero"
    assert max(point.value for point in store.series("watch/update_ratio_median")) < 0.05


@pytest.mark.requirement("DIAG-7")
def test_steps_of_a_model_that_begins_at_zero_are_not_put_beside_its_weights(
    tmp_path: Path, make_run: Any, work: Any, digits: dict[str, Any]
) -> None:
    store = trained(tmp_path, make_run, work, digits, "Zero")
    assert store.series("layers/update_ratio/weight")
    assert not store.series("watch/update_ratio_median")


@pytest.mark.requirement("DIAG-4")
def test_weights_of_whole_numbers_are_no_matter(
    tmp_path: Path, make_run: Any, work: Any, digits: dict[str, Any]
) -> None:
    store = trained(tmp_path, make_run, work, digits, "Quantised")
    assert {"layers/update_ratio/head.weight", "watch/update_ratio_median"} <= set(store.keys())
