"""Data that are drawn without a seed are told by the smoke run, whose two processes read others."""

from __future__ import annotations

from typing import Any

import pytest
from tests.trainer.users import SHORT

from trainwright.trainer.run import RunKind

CODE = """
import numpy as np
class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2)
    def forward(self, x):
        return self.layer(x)
order, of_its_own = np.random.default_rng(SEED).permutation(40), torch.Generator()
class Rows(torch.utils.data.Dataset):
    def __len__(self): return 40
    def __getitem__(self, i): return torch.full((4,), float(order[i])) + torch.rand(4, generator=of_its_own), i % 2
def data(): return Rows()
def build(config): return {"model": Two(), "train": Rows(), "validation": Rows()}
"""


@pytest.mark.requirement("REPRO-4")
@pytest.mark.parametrize(
    "parts",
    [
        pytest.param({"task": {"use": "mine:build"}}, marks=pytest.mark.long),
        {"model": {"use": "mine:Two"}, "data": {"use": "mine:data"}},
    ],
)
@pytest.mark.parametrize("seed", ["0", ""])
def test_an_order_drawn_without_a_seed_is_told_at_the_smoke_run(ended: Any, parts: dict[str, Any], seed: str) -> None:
    run = ended(CODE.replace("SEED", seed), {**SHORT, **parts}, kind=RunKind.SMOKE, max_steps=2)
    failure = run.status().failure
    assert (failure is None) is bool(seed), failure
    if not seed:
        assert "others in each process" in failure.message
        assert "default_rng(0)" in failure.remedy
