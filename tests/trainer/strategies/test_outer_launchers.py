"""The same worker under the standard launchers, whose variables say which process it is."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from trainwright.trainer import worker
from trainwright.trainer.run import RunDirectory, RunState
from trainwright.trainer.run.rank import Placement

pytestmark = pytest.mark.slow

LAUNCHERS = {
    "torchrun": ["torch.distributed.run", "--standalone", "--nproc-per-node", "2"],
    "accelerate": ["accelerate.commands.launch", "--multi_gpu", "--num_processes", "2", "--num_machines", "1",
                   "--mixed_precision", "no", "--dynamo_backend", "no"],
}  # fmt: skip


def launched(launcher: str, run: RunDirectory) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", *LAUNCHERS[launcher], "-m", worker.__name__, str(run.path)]
    kept = {name: value for name, value in os.environ.items() if name not in {"RANK", "WORLD_SIZE"}}
    return subprocess.run(command, env=kept, cwd=run.path, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture(scope="module")
def own(tmp_path_factory: Any, iris: Any, make_run: Any, group_work: Any) -> RunDirectory:
    """The run as our own leader makes it."""
    run: RunDirectory = make_run(tmp_path_factory.mktemp("own") / "own", iris)
    assert group_work(run) == 0, run.log.read_text()
    return run


def assert_the_same(run: RunDirectory, own: RunDirectory) -> None:
    assert run.status().state is RunState.COMPLETED
    assert run.evidence("summary")["weights_digest"] == own.evidence("summary")["weights_digest"]
    assert [event.kind for event in run.events()] == [event.kind for event in own.events()]


@pytest.mark.long
@pytest.mark.requirement("TRAIN-6")
def test_two_processes_that_find_each_other_by_a_launchers_variables_make_the_same_run(
    tmp_path: Path, own: RunDirectory, iris: Any, make_run: Any, begin: Any
) -> None:
    run = make_run(tmp_path / "run", iris)
    with socket.socket() as free:
        free.bind(("localhost", 0))
        address = {"MASTER_ADDR": "localhost", "MASTER_PORT": str(free.getsockname()[1])}
    placements = [Placement(rank, 2, rank, 2).as_environment() for rank in (0, 1)]
    workers = [begin(run, partial(os.environ.update, address | placement)) for placement in placements]
    assert [os.waitpid(worker, 0)[1] for worker in workers] == [0, 0], run.log.read_text()
    assert_the_same(run, own)


@pytest.mark.long
@pytest.mark.requirement("TRAIN-6")
@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_two_processes_under_a_standard_launcher_make_the_same_run(
    launcher: str, tmp_path: Path, own: RunDirectory, iris: Any, make_run: Any
) -> None:
    run = make_run(tmp_path / "run", iris)
    done = launched(launcher, run)
    assert done.returncode == 0, done.stdout + done.stderr
    assert_the_same(run, own)
