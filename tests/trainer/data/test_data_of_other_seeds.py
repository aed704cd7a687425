"""Runs that differ only in their seed have the same data: augmentation, generated data and the user's own draws."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest
from tests.variants import variants

CODE = """
import torch
from torch import nn

class Noisy(torch.utils.data.Dataset):
    def __init__(self, size, seed=None):
        generator = None if seed is None else torch.Generator().manual_seed(seed)
        self.x, self.y = torch.randn(size, 4, generator=generator), torch.arange(size) % 2
    def __len__(self):
        return len(self.y)
    def __getitem__(self, index):
        return self.x[index] + 0.1 * torch.randn(4), self.y[index]

def data():
    return Noisy(60)

def build(config, context):
    draws = context.seed if config.get("wrong") else context.data_seed
    return {"model": nn.Linear(4, 2), "train": Noisy(40, draws), "validation": Noisy(20, draws + 1)}
"""
WAYS: dict[str, dict[str, Any]] = {
    "data": {"model": {"use": "mlp"}, "data": {"use": "mine:data"}},
    "task": {"task": {"use": "mine:build"}},
}


@pytest.fixture
def fingerprint(tmp_path: Path, make_run: Any, work: Any) -> Any:
    """`fingerprint(way, seed)` trains and returns (run, the data's fingerprint)."""
    (tmp_path / "mine.py").write_text(textwrap.dedent(CODE))

    def measure(values: dict[str, Any], seed: int, **fields: Any) -> tuple[Any, str | None]:
        base = {"seed": seed, "training": {"epochs": 1}, "logging": {"tensorboard": False}}
        run = make_run(tmp_path / f"run-{seed}", {**values, **base}, code_root=str(tmp_path), **fields)
        work(run)
        return run, (run.evidence("data") or {}).get("fingerprint")

    return measure


@pytest.mark.requirement("REPRO-4")
@pytest.mark.parametrize("way", variants(WAYS, quick=list(WAYS)[:1]))
def test_augmented_and_generated_data_are_the_same_for_every_seed(way: str, fingerprint: Any) -> None:
    first, one = fingerprint(WAYS[way], 42)
    second, other = fingerprint(WAYS[way], 43, expected={"data": one})
    assert one == other is not None, first.log.read_text()
    assert second.status().state == "completed"
    assert first.evidence("summary")["weights_digest"] != second.evidence("summary")["weights_digest"]


@pytest.mark.requirement("GATE-3")
def test_data_drawn_from_the_runs_seed_is_refused_and_told_which_seed_to_use(fingerprint: Any) -> None:
    values = {"task": {"use": "mine:build", "args": {"wrong": True}}}
    _, one = fingerprint(values, 42)
    run, _ = fingerprint(values, 43, expected={"data": one})
    failure = run.status().failure
    assert failure.category == "reproducibility"
    assert "context.data_seed" in failure.remedy
