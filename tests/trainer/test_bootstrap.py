"""The start of a worker in a container ends the worker once the container's client is gone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from trainwright.trainer.run.runtime import BOOTSTRAP

pytestmark = pytest.mark.requirement("ENV-1")
WORK = """\
import os, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
print(os.getpid(), flush=True)
time.sleep(60)
"""


@pytest.fixture
def client() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


def worker(folder: Path, client: int) -> subprocess.Popen[str]:
    (folder / "work_of_mine.py").write_text(WORK)
    command = [sys.executable, str(BOOTSTRAP), str(folder), "/nowhere", "work_of_mine"]
    environment = os.environ | {"TRAINWRIGHT_CLIENT": str(client)}
    return subprocess.Popen(command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_a_client_that_has_ended_ends_the_worker_though_nobody_has_waited_for_it(
    tmp_path: Path, client: subprocess.Popen[bytes]
) -> None:
    with worker(tmp_path, client.pid) as process:
        assert process.stdout is not None
        inner = int(process.stdout.readline())
        client.kill()  # it stays a zombie: its number is taken, and signals reach it
        assert process.wait(timeout=30) == 128 + signal.SIGKILL
        assert Path(f"/proc/{client.pid}").exists()
        assert not Path(f"/proc/{inner}").exists()


def test_a_request_to_stop_reaches_the_worker_and_its_code_is_passed_on(
    tmp_path: Path, client: subprocess.Popen[bytes]
) -> None:
    with worker(tmp_path, client.pid) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.terminate()
        assert process.wait(timeout=30) == 7


def test_a_client_that_is_not_seen_is_told_before_anything_works(tmp_path: Path) -> None:
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    with worker(tmp_path, gone.pid) as process:
        said, problem = process.communicate(timeout=30)
        assert (process.returncode, said) == (1, "")
    assert problem.strip() == (
        f"Process {gone.pid} of this machine, which started the container, is not seen in it or has ended."
    )
