"""Memory that really runs out: the process may take so much, and the model asks for more."""

from __future__ import annotations

import re
import resource
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from tests.variants import variants

from trainwright.trainer.engine.memory import free_bytes
from trainwright.trainer.run import RunKind, RunState

pytestmark = pytest.mark.slow

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
    x = torch.randn(250, 8, generator=torch.Generator().manual_seed(0))
    return torch.utils.data.TensorDataset(x, (x[:, 0] > 0).long())
"""
ROOM = 300 * 2**20


def give_little_memory() -> None:
    """Let this process take 300 MiB more than it has."""
    limit = psutil.Process().memory_info().vms + ROOM
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


@pytest.mark.long
@pytest.mark.requirement("TRAIN-2", "TRAIN-8")
def test_a_run_out_of_memory_says_what_would_fit_and_that_fits(tmp_path: Path, make_run: Any, work: Any) -> None:
    (tmp_path / "hungry.py").write_text(HUNGRY)
    values: dict[str, Any] = {
        "model": {"use": "hungry:Hungry"},
        "data": {"use": "hungry:data"},
        "loader": {"batch_size": 192},
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
    assert size * parts == 192
    assert 8 <= size <= 96
    assert "configure(project, changes=" in failure.remedy
    values |= {"loader": {"batch_size": size}, "training": {"epochs": 1, "accumulation_steps": parts}}
    smaller = make_run(tmp_path / "smaller", values, code_root=str(tmp_path), kind=RunKind.TRIAL, max_steps=1)
    assert work(smaller, before=give_little_memory) == 0, smaller.log.read_text()
    assert smaller.status().state is RunState.COMPLETED


@pytest.mark.long
@pytest.mark.requirement("TRAIN-2", "TRAIN-8")
def test_where_no_batch_fits_recomputing_is_named_with_the_modules(tmp_path: Path, make_run: Any, work: Any) -> None:
    (tmp_path / "hungry.py").write_text(HUNGRY.replace("4000", "50000").replace("range(4)", "range(12)"))
    values = {
        "model": {"use": "hungry:Hungry"},
        "data": {"use": "hungry:data"},
        "training": {"epochs": 1},
        "logging": {"tensorboard": False},
    }
    run = make_run(tmp_path / "run", values, code_root=str(tmp_path))
    assert work(run, before=give_little_memory) == 1
    failure = run.status().failure
    wanted = {"training.gradient_checkpointing.modules": ["blocks.*"]}
    assert failure.details.get("changes") == wanted, failure.message


BIG = """
from torch import nn
def data():
    import torch
    x = torch.randn(400, 8, generator=torch.Generator().manual_seed(0))
    return torch.utils.data.TensorDataset(x, (x[:, 0] > 0).long())
class Big(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(8, 30_000), nn.Linear(30_000, 30_000), nn.Linear(30_000, 2))
def too_much():
    import torch
    return torch.zeros(10**10)
"""
PLAIN = {"training": {"epochs": 1}, "logging": {"tensorboard": False}}
TOO_WIDE = {
    "model.args.hidden": {"model": {"use": "mlp", "args": {"hidden": [20_000, 20_000]}}, "data": {"use": "iris"}},
    "model.args.width": {"model": {"use": "resnet", "args": {"depth": 8, "width": 4096}}, "data": {"use": "digits"}},
}


@pytest.mark.requirement("TRAIN-8", "CONF-1")
@pytest.mark.parametrize("size", variants(TOO_WIDE, quick=["model.args.hidden"]))
def test_a_built_in_model_beyond_memory_is_refused_with_sizes_that_train(
    size: str, tmp_path: Path, make_run: Any, work: Any
) -> None:
    from trainwright.trainer.config import apply_changes

    values = {**TOO_WIDE[size], **PLAIN}
    run = make_run(tmp_path / "large", values)
    assert work(run, before=give_little_memory) == 1
    failure = run.status().failure
    assert failure.category == "out_of_memory"
    assert re.search(r"The weights of this (mlp|resnet) take [\d,]+ MiB, and \d+ MiB are free", failure.message)
    assert failure.details["changes"].keys() == {size}
    assert "batch_size" not in failure.remedy
    assert f"configure(project, changes={{'{size}': " in failure.remedy
    smaller = make_run(tmp_path / "smaller", apply_changes(values, failure.details["changes"]), max_steps=1)
    assert work(smaller, before=give_little_memory) == 0, smaller.log.read_text()


@pytest.mark.requirement("TRAIN-8", "TRAIN-6")
@pytest.mark.parametrize(
    "width",
    [4100, *(pytest.param(width, marks=pytest.mark.long) for width in (4600, 5100))],
    ids=["in the update", "between", "in the backward pass"],
)
def test_a_model_that_can_be_built_and_not_trained_is_told_what_keeps_less(
    width: int, tmp_path: Path, make_run: Any, work: Any
) -> None:
    values = {**TOO_WIDE["model.args.hidden"], **PLAIN, "model": {"use": "mlp", "args": {"hidden": [width, width]}}}
    run = make_run(tmp_path / "run", values, max_steps=2)
    assert work(run, before=give_little_memory) == 1
    failure = run.status().failure
    assert failure.category == "out_of_memory"
    assert "That alone is too much, whatever the batch." in failure.message, failure.message
    for way in ("smaller model", "adafactor", "adapter", "fsdp2"):
        assert way in failure.remedy
    assert "batch_size" not in failure.remedy
    assert failure.document == "diagnostics/model_too_large.md"


OWN = {
    "model": ({"model": {"use": "big:Big"}, "data": {"use": "big:data"}}, "Take a smaller model"),
    "data": ({"model": {"use": "mlp"}, "data": {"use": "big:too_much"}}, "Read less into memory"),
}


@pytest.mark.requirement("TRAIN-8")
@pytest.mark.parametrize("part", OWN)
def test_memory_that_runs_out_before_any_step_is_no_matter_of_the_batch(
    part: str, tmp_path: Path, make_run: Any, work: Any
) -> None:
    from trainwright.tools.training_monitor import diagnose

    values, remedy = OWN[part]
    (tmp_path / "big.py").write_text(BIG)
    run = make_run(tmp_path / "run", {**values, **PLAIN}, code_root=str(tmp_path))
    assert work(run, before=give_little_memory) == 1
    failure = run.status().failure
    assert failure.category == "out_of_memory"
    assert f"while the {part} was built, before any step" in failure.message
    assert failure.remedy.startswith(remedy)
    assert "Halve" not in failure.remedy
    (alert,) = diagnose(run)
    assert (alert.id, failure.document) == ("model_too_large", "diagnostics/model_too_large.md")
    assert all("loader.batch_size" not in fix.changes for fix in alert.fixes)


@pytest.mark.requirement("TRAIN-2")
def test_a_share_of_the_card_bounds_the_memory_that_is_advised(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch's own functions, as far as they come without a card, over an answer of the driver's."""
    if not hasattr(torch.cuda, "get_per_process_memory_fraction"):
        pytest.skip("torch 2.8 has it")
    monkeypatch.setattr(torch.cuda.memory, "_lazy_init", lambda: None)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (60 << 30, 80 << 30))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda _: 1 << 30)
    monkeypatch.setattr(torch._C, "_cuda_getMemoryFraction", lambda _: 0.25, raising=False)
    assert free_bytes(torch.device("cuda")) == 19 << 30, "as sessions name it: without a number"
    monkeypatch.setattr(torch._C, "_cuda_getMemoryFraction", lambda _: 1.0, raising=False)
    assert free_bytes(torch.device("cuda", 0)) == 60 << 30
