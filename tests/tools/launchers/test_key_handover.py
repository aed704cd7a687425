"""A run's key reaches its worker, and no other process of the same user: a real thief of that user tries to take it."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.tools.launchers import starts, thief
from tests.trainer.start_a_run import make_run
from tests.variants import variants

from trainwright.trainer.starting import handover

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing hides a process's memory")
LONG = {
    "model": {"use": "mlp"},
    "data": {"use": "iris", "expectations": {"without": ["label_errors", "leaks"]}},
    "training": {"epochs": 100_000, "validate_every_n_epochs": 1000},
    "early_stopping": {"enabled": False},
    "checkpoints": {"checkpoint_every_n_epochs": 1000},
    "logging": {"tensorboard": False},
}
NOBODY = 65534


@dataclass
class User:
    """An ordinary user: how a Python process of theirs is started."""

    python: str
    arguments: dict[str, Any]

    def popen(self, file: str | None, *words: object, **more: Any) -> subprocess.Popen[str]:
        return subprocess.Popen([self.python, "-P", str(file), *map(str, words)], text=True, **self.arguments, **more)


@pytest.fixture
def user() -> User:
    """The one who runs the tests; where that is root, who may read everything, nobody."""
    if os.getuid():
        return User(sys.executable, {})
    path = os.pathsep.join(place for place in sys.path if place)
    other = {"user": NOBODY, "group": NOBODY, "extra_groups": [], "env": {**os.environ, "PYTHONPATH": path}}
    for python in (sys.executable, shutil.which(f"python3.{sys.version_info.minor}", path="/usr/bin:/usr/local/bin")):
        with suppress(OSError, subprocess.CalledProcessError):
            subprocess.run([str(python), "-c", "import torch, trainwright"], capture_output=True, check=True, **other)
            return User(str(python), other)
    pytest.skip("root runs the tests, and no interpreter of another user finds the libraries")


@pytest.fixture
def folder(user: User) -> Iterator[Path]:
    """A run's folder that belongs to the user, outside of pytest's, which are closed to others."""
    with tempfile.TemporaryDirectory() as place:
        made = make_run(Path(place) / "run", LONG).path
        if user.arguments:
            for path in (Path(place), made, *made.rglob("*")):
                os.chown(path, NOBODY, NOBODY)
        yield made


@contextmanager
def stealing(folder: Path, seed: str, user: User) -> Iterator[Path]:
    found = folder.parent / "found"
    child = user.popen(thief.__file__, folder, seed, found)
    try:
        yield found
        assert child.poll() is None, "the thief was at work all the time"
    finally:
        child.kill()
        child.wait()


def start(folder: Path, seed: str, how: str, times: int, user: User) -> None:
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    started = user.popen(starts.__file__, how, times, **pipes)
    told, _ = started.communicate(f"{folder}\n{seed}")
    assert started.returncode == 0, told


@pytest.mark.slow
@pytest.mark.requirement("GATE-3", "GATE-5")
@pytest.mark.parametrize("how", variants(["launcher", "warm"], quick=["launcher"]))
@pytest.mark.parametrize("times", [1, pytest.param(4, marks=pytest.mark.long)])
def test_no_process_of_the_same_user_takes_the_key_from_a_worker_that_starts(
    times: int, how: str, folder: Path, user: User
) -> None:
    seed = secrets.token_hex(32)
    with stealing(folder, seed, user) as found:
        start(folder, seed, "pipe", 1, user)
        assert "fd/0" in found.read_text().split(), "this thief takes a key that a pipe holds"
        found.unlink()
    with stealing(folder, seed, user) as found:
        start(folder, seed, how, times, user)
        assert not found.exists(), found.read_text()


@pytest.mark.requirement("GATE-3", "TRAIN-10")
def test_a_worker_whose_server_has_ended_says_so_and_records_nothing(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", LONG)
    ours, theirs = handover.channel()
    ours.close()
    command = [sys.executable, "-P", "-m", handover.__name__, str(run.path)]
    done = subprocess.run(command, stdin=theirs.fileno(), capture_output=True, text=True, check=False)
    theirs.close()
    assert done.returncode == 2
    assert "The server ended before it handed this worker the run's key" in done.stderr
    assert run.last_status().attempt == 0


@pytest.mark.requirement("GATE-3")
def test_a_stranger_who_holds_the_workers_socket_gets_no_answer_and_the_worker_still_does() -> None:
    ours, theirs = handover.channel()
    given: list[bytes] = []

    def request() -> None:
        mine, other = socket.socketpair()
        socket.send_fds(theirs, [b"?"], [other.fileno()])
        other.close()
        given.append(mine.recv(64))
        mine.close()

    answering = threading.Thread(target=handover.answer, args=(ours, 1, b"seed"))
    answering.start()
    request()
    assert given == [b""], "process 1 is neither this one nor its parent's child"
    theirs.close()
    answering.join(20)
    assert not answering.is_alive(), "a worker that never asks ends the wait with its end"
