"""Memory that really runs out: the process may take so much, and the model asks for more."""

from __future__ import annotations

import re
import resource
from pathlib import Path
from typing import Any

import psutil
import pytest

from trainwright.trainer.run import RunState

HUNGRY = """
import torch
from torch import nn
class Block(nn.Module):
    def forward(self, x):
        return torch.tanh(x.repeat(1, 40)).reshape(len(x), 40, -1).mean(1)
class Hungry(nn.Module):
    '''Keeps about 2.5 MB of each sample for the backward pass.'''
    def __init__(self):
        super().__init__()
        self.first, self.blocks = nn.Linear(8, 4000), nn.ModuleList(Block() for _ in range(4))
        self.last = nn.Linear(4000, 2)
    def forward(self, x):
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        return self.last(x)
def data():
    x = torch.randn(400, 8, generator=torch.Generator().manual_seed(0))
    return torch.utils.data.TensorDataset(x, (x[:, 0] > 0).long())
"""
ROOM = 600 * 2**20


def give_little_memory() -> None:
    """Let this process take 600 MiB more than it has."""
    limit = psutil.Process().memory_info().vms + ROOM
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


@pytest.mark.requirement("TRAIN-2", "TRAIN-8")
def test_a_run_out_of_memory_says_what_would_fit_and_that_fits(tmp_path: Path, make_run: Any, work: Any) -> None:
    (tmp_path / "hungry.py").write_text(HUNGRY)
    values: dict[str, Any] = {
        "model": {"use": "hungry:Hungry"},
        "data": {"use": "hungry:data"},
        "loader": {"batch_size": 384},
        "training": {"epochs": 1},
        "logging": {"tensorboard": False},
    }
    run = make_run(tmp_path / "whole", values, code_root=str(tmp_path))
    assert work(run, before=give_little_memory) == 1
    failure = run.status().failure
    assert failure.category == "out_of_memory"
    assert re.search(r"a sample takes 3\.\d\d MiB", failure.message), failure.message
    changes = failure.details["changes"]
    size, parts = changes["loader.batch_size"], changes["training.accumulation_steps"]
    assert size * parts == 384
    assert 16 <= size <= 192
    assert "configure(project, changes=" in failure.remedy
    values |= {"loader": {"batch_size": size}, "training": {"epochs": 1, "accumulation_steps": parts}}
    smaller = make_run(tmp_path / "smaller", values, code_root=str(tmp_path))
    assert work(smaller, before=give_little_memory) == 0, smaller.log.read_text()
    assert smaller.status().state is RunState.COMPLETED


@pytest.mark.requirement("TRAIN-2", "TRAIN-8")
def test_where_no_batch_fits_recomputing_is_named_with_the_modules(tmp_path: Path, make_run: Any, work: Any) -> None:
    (tmp_path / "hungry.py").write_text(HUNGRY.replace("4000", "100000").replace("range(4)", "range(12)"))
    values = {
        "model": {"use": "hungry:Hungry"},
        "data": {"use": "hungry:data"},
        "training": {"epochs": 1},
        "logging": {"tensorboard": False},
    }
    run = make_run(tmp_path / "run", values, code_root=str(tmp_path))
    assert work(run, before=give_little_memory) == 1
    assert run.status().failure.details["changes"] == {"training.gradient_checkpointing.modules": ["blocks.*"]}
