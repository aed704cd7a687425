"""What holds for every test: its place in the order, programs of others that it needs, no process left behind."""

from __future__ import annotations

import gc
import importlib
import os
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from tests.companions import skip_without_companions
from tests.scheduling import Blocks, place_by_forks, polars_has_worked

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from tests.worlds.flowers import World

pytest_plugins = ("tests.processor_time", "tests.shown")

LONGEST_FIRST = (
    "cheats/test_cheats.py",
    "server/test_demo.py",
    "house/test_walks.py",
    "hyperparameter_tuner/test_conducting.py",
    "server/test_slips.py",
    "projects/test_looks.py",
    "projects/test_phases.py",
    "projects/test_ends.py",
    "server/test_two_forms.py",
    "server/test_alerts.py",
    "server/test_runs.py",
    "house/test_call_sequences.py",
    "house/test_documents.py",
    "server/test_cli.py",
    "projects/test_requirements_file.py",
    "projects/test_debugging.py",
    "projects/test_optimization.py",
    "training_orchestrator/test_life_of_a_run.py",
    "acceleration/test_shortage.py",
    "acceleration/test_memory_and_speed.py",
)
"""Files that train for long. A file runs in one process, so one that begins last leaves the other process idle."""
TRAINS = frozenset({
    "flowers", "work", "begin", "group_work", "started", "digits_run", "ended", "trained", "serve_command",
})  # fmt: skip
"""Fixtures that train runs or start servers: who asks for one is slow, like whole files marked `slow`."""
GRACE_SECONDS = 5.0
"""How long a process that a test has told to stop may take to be gone."""


os.environ.setdefault("OMP_NUM_THREADS", "1")
"""Before anything counts threads: a fork of a process whose libraries have worked in several hangs in OpenMP."""
os.environ["CUDA_VISIBLE_DEVICES"] = ""
"""Tests mean the same everywhere, and CUDA fails in forks of a process that counted devices: cards have a lane."""
os.environ.setdefault("TRAINWRIGHT_WARM_WORKERS", "0")
"""The server of each test would start one for a run or two; the tests of warm workers ask for them."""
MEMORY = Path("/dev/shm")
MIN_FREE_BYTES = 8 * 2**30
"""Of a file system in memory that the tests' folders are put on; a whole run leaves about 2 GB there until it ends."""


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Put the tests' folders in memory where there is room: on a disk, every commit of a workspace waits for it."""
    if "PYTEST_DEBUG_TEMPROOT" in os.environ or not os.access(MEMORY, os.W_OK):
        return
    room = os.statvfs(MEMORY)
    free = min(room.f_bavail * room.f_frsize, psutil.virtual_memory().available)
    if free >= MIN_FREE_BYTES and not room.f_flag & os.ST_NOEXEC:
        os.environ["PYTEST_DEBUG_TEMPROOT"] = str(MEMORY)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Let no garbage collection go through what is imported here: a full one takes 0.4 s, once torch is there."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what trains and what cannot run without other programs, and order the tests."""
    for item in items:
        if TRAINS.intersection(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.slow)
        skip_without_companions(item)
    items.sort(key=lambda item: (_place(item), place_by_forks(item)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Blocks | None:
    """Share the tests out by blocks where they would be shared out by files."""
    return Blocks(config, log) if config.getoption("dist") == "loadfile" else None


def _place(item: pytest.Item) -> int:
    path = item.path.as_posix()
    return next((place for place, name in enumerate(LONGEST_FIRST) if path.endswith(name)), len(LONGEST_FIRST))


@pytest.fixture(autouse=True)
def _own_modules(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Forget the user modules that a test imported: the next test may have others of the same names."""
    base = str(tmp_path_factory.getbasetemp().resolve())
    paths, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = [path for path in sys.path if path in paths or not path.startswith(base)]
    for name in set(sys.modules) - modules:
        if str(getattr(sys.modules[name], "__file__", None)).startswith(base):
            del sys.modules[name]
    importlib.invalidate_caches()


@pytest.fixture(autouse=True)
def _no_polars_before_forks(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail the test that makes later ones of its process unable to fork, in place of these."""
    had = polars_has_worked()
    yield
    assert had or place_by_forks(request.node) or not polars_has_worked(), (
        "this test has used polars in this process, whose forks then hang: its file is to say so (tests/scheduling.py)"
    )


@pytest.fixture(scope="session")
def flowers(tmp_path_factory: pytest.TempPathFactory) -> World:
    """The usual world, which can be set back to any stage. Built here as a whole, before any test patches anything."""
    from tests.worlds.flowers import STAGES, World

    world = World(tmp_path_factory.mktemp("flowers"))
    world.set_back(STAGES[-1])
    return world


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail the suite when a process that a test started is still there."""
    if hasattr(session.config, "workerinput"):
        return  # the controller looks, once, after the last worker: only its exit status counts
    folder: Path = session.config._tmp_path_factory.getbasetemp()  # pytest shows it to tests only, not to hooks
    deadline = time.monotonic() + GRACE_SECONDS
    while (left := _processes_of(folder)) and time.monotonic() < deadline:
        psutil.wait_procs(left, timeout=0.5)
    if not left:
        return
    print("\nprocesses that tests started and left behind (killed now):")
    for process in left:
        print(f"  pid {process.pid}: {' '.join(_command_line(process))}")
        process.kill()
    session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _processes_of(folder: Path) -> list[psutil.Process]:
    """Return living processes whose command line, working folder or workspace lies under `folder`.

    Without this one and those that started it: `timeout 60 pytest --basetemp FOLDER` names the folder too.
    """
    ours = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
    return [process for process in psutil.process_iter() if process.pid not in ours and _belongs(process, str(folder))]


def _belongs(process: psutil.Process, folder: str) -> bool:
    try:
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        places = process.cmdline()
        with suppress(psutil.AccessDenied):  # a worker with a key lets nobody read the rest
            places += [process.cwd(), process.environ().get("TRAINWRIGHT_HOME", "")]
    except (psutil.Error, OSError):
        return False
    return any(folder in place for place in places)


def _command_line(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return ["gone"]
