"""What a run has used of its time: the attempts, not the pauses between them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from trainwright.trainer.run import Limits, RunDirectory, RunState, RunStatus


@pytest.mark.requirement("GATE-4")
def test_pauses_between_attempts_do_not_count_and_a_living_attempt_counts_to_its_heartbeat(tmp_path: Path) -> None:
    events = [(100.0, "started"), (130.0, "ended"), (9_000.0, "started"), (9_010.0, "epoch")]
    lines = [json.dumps({"time": time, "kind": kind, "data": {}}) for time, kind in events]
    (tmp_path / "events.jsonl").write_text("\n".join(lines) + "\n")
    run = RunDirectory(tmp_path)
    run.write_status(RunStatus(state=RunState.RUNNING, heartbeat_at=9_025.0))
    assert run.seconds_worked() == 30.0 + 25.0


@pytest.mark.requirement("GATE-4")
def test_a_run_that_no_worker_took_up_has_used_nothing(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    run.write_status(RunStatus(state=RunState.CREATED))
    assert run.seconds_worked() == 0.0


SLOW = """
import time, torch
class Slow(torch.nn.Linear):
    def __init__(self):
        super().__init__(64, 10)
    def forward(self, x):
        time.sleep(0.005)
        return super().forward(x.flatten(1))
"""


@pytest.mark.requirement("GATE-4")
def test_stopping_and_resuming_gains_no_time_the_limit_counts_all_attempts(
    tmp_path: Path, make_run: Any, work: Any, digits: dict[str, Any]
) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    values = {**digits, "model": {"use": "slow:Slow"}, "training": {"epochs": 30}, "logging": {"tensorboard": False}}
    run = make_run(tmp_path / "run", values, limits=Limits(wall_clock_seconds=600.0))
    events = [(1_000.0, "started"), (1_600.0, "ended")]
    lines = [json.dumps({"time": time, "kind": kind, "data": {}}) for time, kind in events]
    (run.path / "events.jsonl").write_text("\n".join(lines) + "\n")
    run.write_status(RunStatus(state=RunState.STOPPED, attempt=1, heartbeat_at=1_600.0))
    assert work(run) == 0, run.log.read_text()
    status = run.status()
    assert (status.state, status.attempt, status.stop_reason) == (RunState.STOPPED, 2, "wall_clock_limit")
    assert run.seconds_worked() > 600.0


@pytest.mark.requirement("GATE-4")
def test_a_resumed_run_has_the_limits_of_its_attempt_and_without_a_device_uses_no_gpu_hours(
    tmp_path: Path, make_run: Any, work: Any, digits: dict[str, Any]
) -> None:
    values = {**digits, "training": {"epochs": 1, "device": "cpu"}, "logging": {"tensorboard": False}}
    run = make_run(tmp_path / "run", values, limits=Limits(wall_clock_seconds=600.0))
    events = [(1_000.0, "started"), (1_600.0, "ended")]
    lines = [json.dumps({"time": time, "kind": kind, "data": {}}) for time, kind in events]
    (run.path / "events.jsonl").write_text("\n".join(lines) + "\n")
    run.write_status(RunStatus(state=RunState.STOPPED, attempt=1, heartbeat_at=1_600.0))
    run.write_limits(Limits(wall_clock_seconds=1200.0, gpu_hours=0.0, money=0.0, price_per_gpu_hour=1.0))
    assert work(run) == 0, run.log.read_text()
    assert run.status().state is RunState.COMPLETED
    basis = (run.evidence("environment") or {})["fingerprint_basis"]
    assert (basis["device"], basis["world_size"]) == ("cpu", 1)
