"""What every launcher promises, whoever starts the worker: real workers are started, signalled and killed."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

import psutil
import pytest
from tests.variants import variants
from tests.worlds import warm

from trainwright.tools.launchers import LAUNCHERS, Launch, Launcher, may_begin, read_launch, recorded_launcher
from trainwright.tools.launchers import write_launch as record
from trainwright.tools.launchers.environment import worker_environment
from trainwright.tools.launchers.local import Local, kind_of
from trainwright.tools.launchers.warm import WarmLimits, WarmProcesses
from trainwright.tools.training_orchestrator.observation import observe
from trainwright.trainer import worker
from trainwright.trainer.config.distributed import DistributedSection
from trainwright.trainer.run import RunDirectory, RunKey, RunState, write_atomically
from trainwright.trainer.run.key import signed_digests

pytestmark = pytest.mark.slow


class Warm(Local):
    """The tests' own: forks off a process that has done its imports."""

    spawn = staticmethod(warm.spawn)


class Forking(Local):
    """The product's, where a run of the same environment left a warm process behind."""

    def __init__(self) -> None:
        self.warm = WarmProcesses()

    def start(self, run: RunDirectory, launch: Launch, key: RunKey) -> Launch:
        if self.warm.limits is None:
            self.warm.limits = WarmLimits(run.path.parent / "warm", 1, 600.0)
        specification = run.specification()
        kind = kind_of(specification, worker_environment(specification.config, specification.connections))
        self.warm.prepare(kind, lambda: True)
        until(lambda: self.warm.is_ready(kind), run)
        started = super().start(run, launch, key)
        assert started.error is not None or (started.parent is not None) is Path(specification.code_root).is_dir()
        return started


class ByNumber:
    """Leaves the worker to init and keeps a number alone, as a scheduler or a container's engine gives one."""

    name = "by number"
    gives_key = False
    is_here = True

    def start(self, run: RunDirectory, launch: Launch, key: RunKey) -> Launch:
        specification = run.specification()
        words = ["setsid", sys.executable, "-P", "-m", worker.__name__, str(run.path)]
        line = f"{shlex.join(words)} >> {shlex.quote(str(run.log))} 2>&1 < /dev/null & echo $!"
        update: dict[str, Any] = {"launcher": self.name}
        try:
            told = subprocess.check_output(
                ["sh", "-c", line], cwd=specification.code_root, env=worker_environment(specification.config), text=True
            )
            update["job"] = told.strip()
        except OSError as error:
            update["error"] = str(error)
        return record(run.path, launch.model_copy(update=update))

    def may_begin(self, launch: Launch) -> bool:
        return launch.job is not None and is_alive(int(launch.job))

    def signal(self, run: RunDirectory, launch: Launch, number: signal.Signals, *, reason: str) -> bool:
        if not self.may_begin(launch):
            return False
        write_atomically(run.stop_reason, reason.encode())
        job = int(launch.job or "")
        while os.getpgid(job) != job:  # setsid has not made its session yet
            time.sleep(0.001)
        os.killpg(job, number)
        return True


IMPLEMENTATIONS: dict[str, Launcher] = {**LAUNCHERS, "warm": Warm(), "forking": Forking(), "by number": ByNumber()}
"""A new launcher of the registry is held to all of this by itself; one of the tests' own is one entry here."""
LONG = {
    "model": {"use": "mlp"},
    "data": {"use": "iris"},
    "training": {"epochs": 100_000, "validate_every_n_epochs": 1000},
    "early_stopping": {"enabled": False},
    "checkpoints": {"checkpoint_every_n_epochs": 1000},
    "logging": {"tensorboard": False},
}


@pytest.fixture(params=variants(IMPLEMENTATIONS, quick=set(IMPLEMENTATIONS) - {"warm"}))  # the tests' own
def launcher(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Launcher:
    """Each launcher, in the registry under the name that it records."""
    found = IMPLEMENTATIONS[request.param]
    monkeypatch.setitem(LAUNCHERS, found.name, found)
    return found


@pytest.fixture
def run(tmp_path: Path, make_run: Any) -> Iterator[RunDirectory]:
    """A run that would train for hours, and whose processes are gone afterwards."""
    made: RunDirectory = make_run(tmp_path / "run", LONG)
    yield made
    if (process := made.last_status().process) is not None:
        process.kill_tree()


@pytest.fixture
def begun(launcher: Launcher, run: RunDirectory, begin: Any) -> Iterator[tuple[Launch, RunKey]]:
    """The run at work: started by the launcher, or by someone else where the launcher waits for that."""
    key = RunKey.new()
    launcher.start(run, Launch(attempt=1), key)
    other = None if launcher.is_here else begin(run)
    until(lambda: run.last_status().step > 0, run)
    launch = read_launch(run.path)
    assert launch is not None
    yield launch, key
    if other is not None:
        os.kill(other, signal.SIGKILL)
        os.waitpid(other, 0)


def until(condition: Callable[[], bool], run: RunDirectory) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline, run.log.read_text() if run.log.exists() else "it never began"
        time.sleep(0.02)


def is_alive(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def test_a_configuration_can_name_exactly_the_launchers_that_there_are() -> None:
    assert set(get_args(DistributedSection.model_fields["launcher"].annotation)) == LAUNCHERS.keys()
    assert [launcher.name for launcher in LAUNCHERS.values()] == list(LAUNCHERS)


@pytest.mark.requirement("TRAIN-10")
def test_sigterm_ends_the_run_in_order_with_the_reason_and_only_once(
    launcher: Launcher, run: RunDirectory, begun: tuple[Launch, RunKey]
) -> None:
    launch, key = begun
    assert recorded_launcher(launch) is launcher, "a later server knows who has the run in hand"
    assert may_begin(launch)
    assert launcher.signal(run, launch, signal.SIGTERM, reason="pruned")
    until(lambda: run.status().state.is_ended and not run.is_locked(), run)
    status = run.status()
    assert (status.state, status.stop_reason) == (RunState.STOPPED, "pruned")
    assert (signed_digests(run, key.public) is not None) is launcher.gives_key
    until(lambda: not (launcher.is_here and may_begin(launch)), run)
    run.stop_reason.unlink()
    assert not launcher.signal(run, launch, signal.SIGTERM, reason="late"), "there is nobody to be reached any more"
    assert not run.stop_reason.exists()
    assert read_launch(run.path) == launch


@pytest.mark.requirement("TRAIN-10")
def test_sigkill_leaves_no_process_that_can_be_reached(
    launcher: Launcher, run: RunDirectory, begun: tuple[Launch, RunKey]
) -> None:
    launch, _ = begun
    status = run.status()
    assert status.process is not None
    pids = [status.process.pid, *(child.pid for child in psutil.Process(status.process.pid).children(recursive=True))]
    assert launcher.signal(run, launch, signal.SIGKILL, reason="wall_clock_limit")
    until(lambda: not any(map(is_alive, pids)) and not run.is_locked(), run)
    seen = observe(run)
    ended = {RunState.INTERRUPTED} if launcher.is_here else {RunState.STOPPED, RunState.INTERRUPTED}
    assert seen.state in ended, "one on another machine hears the reason alone"
    assert seen.status.stop_reason == "wall_clock_limit"


@pytest.mark.requirement("TRAIN-10")
def test_a_run_that_is_asked_to_stop_before_it_begins_never_trains(launcher: Launcher, run: RunDirectory) -> None:
    launch = launcher.start(run, Launch(attempt=1), RunKey.new())
    assert launch == read_launch(run.path)
    assert launcher.signal(run, launch, signal.SIGTERM, reason="requested")
    until(lambda: observe(run).state.is_ended, run)
    seen = observe(run)
    assert seen.state in {RunState.INTERRUPTED, RunState.STOPPED}
    assert (seen.status.step, seen.is_settled) == (0, True)


@pytest.mark.requirement("TRAIN-10")
def test_a_start_that_fails_is_recorded_and_not_raised(launcher: Launcher, tmp_path: Path, make_run: Any) -> None:
    run = make_run(tmp_path / "run", LONG, code_root=str(tmp_path / "gone"))
    launch = launcher.start(run, Launch(attempt=1), RunKey.new())
    assert launch == read_launch(run.path)
    until(lambda: not may_begin(launch) or not launcher.is_here, run)
    assert observe(run).state is (RunState.INTERRUPTED if launcher.is_here else RunState.CREATED)
