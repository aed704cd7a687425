"""What goes wrong in one process of a group: told once, by its cause, and nothing is left behind."""

from __future__ import annotations

import os
import signal
import textwrap
from pathlib import Path
from typing import Any

import psutil
import pytest

from trainwright.trainer.run import RunDirectory, RunState

TASK = """
import os
import torch
from torch import nn

class Points(torch.utils.data.Dataset):
    def __init__(self, size, bad=None):
        self.x = torch.randn(size, 4, generator=torch.Generator().manual_seed(0))
        self.bad = bad
    def __len__(self):
        return len(self.x)
    def __getitem__(self, index):
        if index == self.bad:
            raise ValueError(f"sample {index} is broken")
        return self.x[index], (self.x[index, 0] > 0).long()

class Stream(torch.utils.data.IterableDataset):
    def __init__(self, points):
        self.points = points
    def __len__(self):
        return len(self.points)
    def __iter__(self):
        return (self.points[index] for index in range(len(self.points)))

def build(config, context):
    points = Points(41, config.get("bad"))
    given = {"model": nn.Linear(4, 2), "train": Stream(points) if config.get("stream") else points,
             "validation": Points(10), "returns": "output", "shuffle": False}
    if config.get("train_step"):
        optimizer = torch.optim.SGD(given["model"].parameters(), 0.1)
        given |= {"train_step": lambda model, batch, context: 0.0, "optimizers": [optimizer],
                  "validation_step": lambda model, batch, context: {"loss": torch.zeros(())}}
    if config.get("whole_batches"):
        given["batch_size"] = None
    return given
"""


@pytest.fixture
def group_run(tmp_path: Path, make_run: Any, group_work: Any) -> Any:
    """`group_run(args, before=None, **sections)` trains the task by two processes and returns the run and its code."""
    (tmp_path / "task.py").write_text(textwrap.dedent(TASK))

    def started(args: dict[str, Any], before: Any = None, name: str = "run", **sections: Any) -> Any:
        values = {
            "task": {"use": "task.py:build", "args": args},
            "loader": {"batch_size": 8},
            "training": {"epochs": 2},
            "logging": {"tensorboard": False},
            "distributed": {"processes": 2, "restarts": 0},
            **sections,
        }
        run = make_run(tmp_path / name, values, code_root=str(tmp_path))
        return run, group_work(run, before=before)

    return started


def failure_of(run: RunDirectory) -> Any:
    status = run.status()
    assert status.state is RunState.FAILED, run.log.read_text()
    assert [event.kind for event in run.events()][-2:] == ["failed", "ended"]
    assert len(run.events("failed")) == 1
    assert not run.is_locked()
    return status.failure


@pytest.mark.requirement("TRAIN-6")
def test_an_error_of_user_code_in_the_second_process_fails_the_run_with_its_traceback(group_run: Any) -> None:
    run, code = group_run({"bad": 14}, distributed={"processes": 2, "restarts": 3})  # rows 12 to 15 are rank 1's
    assert code == 1
    failure = failure_of(run)
    assert (failure.category, "sample 14 is broken" in failure.message) == ("user_code", True)
    assert "task.py" in failure.traceback
    assert run.events("restarted") == []


@pytest.mark.requirement("TRAIN-6")
def test_no_process_outlives_its_leader(group_run: Any, at_step: Any, tmp_path: Path) -> None:
    def kill_leader() -> None:
        (tmp_path / "pids").write_text(" ".join(str(child.pid) for child in psutil.Process(os.getppid()).children()))
        os.kill(os.getppid(), signal.SIGKILL)
        signal.pause()

    run, code = group_run({}, before=at_step(3, kill_leader, 0, tmp_path / "done"))
    assert code == -signal.SIGKILL
    ranks = [psutil.Process(pid) for pid in map(int, (tmp_path / "pids").read_text().split()) if psutil.pid_exists(pid)]
    assert psutil.wait_procs(ranks, timeout=30)[1] == []
    assert run.status().state is RunState.INTERRUPTED


@pytest.mark.requirement("TRAIN-6")
@pytest.mark.parametrize(
    ("args", "said"), [({"train_step": True}, "`train_step`"), ({"whole_batches": True}, "a batch")]
)
def test_work_that_cannot_be_shared_is_refused_before_training(args: Any, said: str, group_run: Any) -> None:
    run, code = group_run(args)
    assert code == 1
    failure = failure_of(run)
    assert (failure.category, said in failure.message, run.status().step) == ("configuration", True, 0)
    assert "distributed.processes 1" in failure.remedy


@pytest.mark.requirement("TRAIN-6")
def test_a_stream_is_shared_row_by_row(group_run: Any) -> None:
    """41 samples in batches of 8: the last batch has one row, which is rank 0's."""
    two, code = group_run({"stream": True})
    assert code == 0, two.log.read_text()
    one, code = group_run({}, name="one", distributed={})
    assert code == 0, one.log.read_text()
    ours, theirs = two.evidence("summary"), one.evidence("summary")
    assert ours["steps"] == theirs["steps"] == 12
    assert ours["final"]["train/loss"] == pytest.approx(theirs["final"]["train/loss"], rel=1e-6)
    assert ours["final"]["loss"] == pytest.approx(theirs["final"]["loss"], rel=1e-6)


@pytest.mark.long
@pytest.mark.requirement("TRAIN-6")
def test_more_processes_than_cores_are_told(group_run: Any, monkeypatch: Any) -> None:
    from trainwright.trainer.strategies import parallel

    monkeypatch.setattr(parallel, "allowed_cores", lambda: 1.5)  # as a control group would say
    run, code = group_run({}, training={"epochs": 1})
    assert code == 0, run.log.read_text()
    texts = [event.data["text"] for event in run.events("note")]
    assert texts == ["2 processes with 2 threads in all share 1.5 cores of this machine."]
