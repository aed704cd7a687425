"""A probe run on real data: what it measures, what it suggests, and that it leaves nothing behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from trainwright.tools.training_orchestrator.recorded import probe_result, suggested_call
from trainwright.trainer.config import parse_config
from trainwright.trainer.jobs.probe import rates, sizes
from trainwright.trainer.jobs.probe.rates import bottleneck
from trainwright.trainer.jobs.probe.run import put_back, suggestion
from trainwright.trainer.run import RunKind
from trainwright.trainer.run.results import Probe
from trainwright.trainer.supervision.sampling import allowed_cores

pytestmark = pytest.mark.slow

DIGITS: dict[str, Any] = {
    "model": {"use": "mlp", "args": {"hidden": [32], "norm": "batch", "dropout": 0.1}},
    "data": {"use": "digits"},
    "optimizer": {"learning_rate": 1e-5},
    "training": {"epochs": 3},
    "logging": {"tensorboard": False},
}


@pytest.mark.requirement("TRAIN-8", "TUNE-6")
def test_a_probe_measures_suggests_and_keeps_no_checkpoint(tmp_path: Path, make_run: Any, work: Any) -> None:
    run = make_run(tmp_path / "run", DIGITS, kind=RunKind.PROBE, max_steps=10)
    assert work(run) == 0, run.log.read_text()
    found = run.evidence("probe")
    profile = found["profile"]
    assert profile["steps"] == 10
    assert sum(profile["phases_percent"].values()) == pytest.approx(100, abs=1)
    assert all(profile["phases_ms"][name] > 0 for name in ("data", "forward", "backward", "optimizer", "logging"))
    assert profile["run_seconds"] > 3 * profile["epoch_seconds"] - 0.02, "and validation; rounded to hundredths"
    assert profile["peak_memory_bytes"] > 2**20
    rate = found["learning_rate"]["suggested"]
    assert 1e-3 < rate < 0.5, "trains well at 0.003 to 0.1; it was configured far below"
    assert found["changes"]["optimizer.learning_rate"] == rate
    assert (run.artifacts / found["learning_rate"]["plot"]).read_bytes()[:4] == b"\x89PNG"
    assert (run.artifacts / found["schedule_plot"]).stat().st_size > 1000
    tried = found["batch_size"]["tried"]
    assert [one["batch_size"] for one in tried][:2] == [32, 64]
    assert tried[0]["samples_per_second"] > 0
    of_threads = found["threads"]
    cores = int(allowed_cores())
    assert {*of_threads["tried"]} >= ({"1", str(cores)} if cores > 1 else set())
    assert all(each > 0 for each in of_threads["tried"].values())
    assert found["changes"].get("reproducibility.threads") == of_threads["suggested"]
    assert not any(run.checkpoints.glob("step-*"))
    assert run.evidence("summary") is None
    told = probe_result(run.part(Probe), run.artifacts)
    assert suggested_call("mine", "run", told).arguments["changes"] == found["changes"]


@pytest.mark.requirement("TRAIN-8", "REPRO-5")
@pytest.mark.parametrize(
    ("milliseconds", "present", "suggested"),
    [
        ({1: 100.0, 2: 55.0, 4: 30.0, 8: 29.0}, 1, 4),
        ({1: 10.0, 2: 9.5, 4: 12.0}, 1, None),
        ({1: 10.0, 2: 8.6}, 1, None),
        ({1: 10.0, 8: 40.0}, 8, 1),
        ({1: 31.0, 4: 30.0, 8: 29.0}, 8, None),
        ({1: 10.0}, 1, None),
    ],
)
def test_as_many_threads_as_help_and_no_more_are_suggested(
    milliseconds: dict[int, float], present: int, suggested: int | None
) -> None:
    assert suggestion(milliseconds, present)["suggested"] == suggested


@pytest.mark.requirement("TUNE-6")
def test_the_suggested_rate_trains_better_than_one_far_below_and_far_above(open_session: Any, take: Any) -> None:
    """Loss after an epoch with the suggestion, and with a thirtieth and thirty times of it."""
    session = open_session({**DIGITS, "schedule": {"name": "constant"}})
    with put_back(session):
        suggested = rates.sweep(session, 100).suggested
    losses = {}
    for factor in (1.0, 1 / 30, 30.0):
        with put_back(session):
            session.base_rates = {"optimizer": [suggested * factor for _ in session.base_rates["optimizer"]]}
            losses[factor] = take(session)
    assert losses[1.0] < losses[1 / 30]
    assert losses[1.0] < losses[30.0]


@pytest.fixture
def take() -> Any:
    from trainwright.trainer.engine.evaluation import evaluate_split
    from trainwright.trainer.engine.loop import take_step
    from trainwright.trainer.jobs.probe.rates import endless

    def one_epoch(session: Any) -> float:
        session.model.train()
        for group in endless(session, 40):
            take_step(session, group)
        return evaluate_split(session, session.validation_loader)["loss"]

    return one_epoch


@pytest.mark.requirement("TRAIN-8", "TUNE-6")
def test_everything_is_as_it_was_after_a_sweep_that_diverged(open_session: Any) -> None:
    session = open_session({**DIGITS, "training": {"precision": "fp16", "epochs": 3}})
    before = {name: value.clone() for name, value in session.model.state_dict().items()}
    generator, scaler = torch.get_rng_state(), session.scaler.state_dict()
    with put_back(session):
        assert rates.sweep(session, 60).steps > 10
        assert any(not torch.equal(before[name], value) for name, value in session.model.state_dict().items())
    assert all(torch.equal(before[name], value) for name, value in session.model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), generator)
    assert (session.progress.step, session.scaler.state_dict()) == (0, scaler)
    assert not any(optimizer.state for optimizer in session.optimizers.values())


@pytest.mark.requirement("TUNE-6")
def test_a_loss_that_never_falls_gives_no_suggestion() -> None:
    flat = [(10.0**-n, 2.3, 2.3) for n in range(20, 0, -1)]
    assert rates.suggestion(flat)["suggested"] is None
    assert "did not fall" in rates.suggestion(flat)["why"]


@pytest.mark.long
@pytest.mark.requirement("TUNE-6", "TRAIN-8")
def test_memory_that_runs_out_at_one_size_ends_the_search_and_not_the_run(tmp_path: Path, open_session: Any) -> None:
    (tmp_path / "wide.py").write_text(WIDE)
    session = open_session({**DIGITS, "model": {"use": "wide:Wide"}, "data": {"use": "wide:data"}})
    found = sizes.in_a_fork(lambda: sizes._tried(session, 256), memory_bytes=200 * 2**20)
    assert found == {"failure": "memory ran out"}
    fitting = sizes.in_a_fork(lambda: sizes._tried(session, 2), memory_bytes=200 * 2**20)
    assert fitting["samples_per_second"] > 0
    killed = sizes.in_a_fork(lambda: __import__("os").kill(__import__("os").getpid(), 9), memory_bytes=2**30)  # type: ignore[arg-type,return-value]
    assert killed == {"failure": "memory ran out"}


@pytest.mark.requirement("TUNE-6")
def test_a_larger_size_is_tried_in_the_same_process_from_the_start_of_an_epoch(open_session: Any) -> None:
    session = open_session(DIGITS)
    tried = [sizes._tried(session, size)["samples_per_second"] for size in (32, 256)]
    assert all(each > 0 for each in tried), "a GPU's tries share a process, and 256 has fewer batches than 32 took"


WIDE = """
import torch
from torch import nn
class Wide(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(8, 500_000), nn.Linear(500_000, 2)
    def forward(self, x):
        return self.last(torch.tanh(self.first(x)))
def data():
    x = torch.randn(400, 8, generator=torch.Generator().manual_seed(0))
    return torch.utils.data.TensorDataset(x, (x[:, 0] > 0).long())
"""

SLOW = """
import time, torch
class Slow(torch.utils.data.Dataset):
    def __len__(self):
        return 64
    def __getitem__(self, index):
        time.sleep(0.003)
        return torch.full((4,), float(index)), index % 2
"""


@pytest.mark.long
@pytest.mark.requirement("TRAIN-8")
def test_slow_data_is_named_as_the_bottleneck_with_what_helps(tmp_path: Path, make_run: Any, work: Any) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    values = {**DIGITS, "model": {"use": "mlp"}, "data": {"use": "slow:Slow"}, "loader": {"batch_size": 8}}
    run = make_run(tmp_path / "run", values, kind=RunKind.PROBE, max_steps=4, code_root=str(tmp_path))
    assert work(run) == 0, run.log.read_text()
    slowest = run.evidence("probe")["profile"]["bottleneck"]
    assert slowest["phase"] == "data"
    assert slowest["changes"]["loader.num_workers"] >= 1
    parse_config({**values, "loader": {"num_workers": 1, "persistent_workers": True}})


@pytest.mark.requirement("TRAIN-8")
def test_a_dear_update_changes_no_batch_size(open_session: Any) -> None:
    session = open_session({**DIGITS, "model": {"use": "mlp"}})
    found = bottleneck(session, {"data": 5.0, "logging": 1.0, "optimizer": 40.0, "forward": 30.0, "backward": 24.0})
    assert found.phase == "optimizer"
    assert "larger batch" in found.why
    assert found.changes == {}
