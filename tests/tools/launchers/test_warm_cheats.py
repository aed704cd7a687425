"""Cheats at a warm process: an impostor on its socket, and an environment that a request brings along."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.tools.launchers.warm_starts import SHORT, begin, count_of_starts, ended, kind_of_run, until, warm_up
from tests.trainer.start_a_run import make_run

from trainwright.tools.launchers import warm as warm_processes
from trainwright.tools.launchers.local import Local
from trainwright.trainer.run import RunState
from trainwright.trainer.starting import handover

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="warm processes are Linux's alone"),
]
IMPOSTOR = """
import socket
asked = socket.socket(fileno=0)
asked.send(b"ready")
_, files, _, _ = socket.recv_fds(asked, 9999, 2)
channel = socket.socket(fileno=files[0])
channel.send(b"!")
print(channel.recv(99), flush=True)
mine, other = socket.socketpair()
try:
    socket.send_fds(channel, [b"?"], [other.fileno()])
except OSError:
    pass
other.close()
print(mine.recv(99), flush=True)
"""


@pytest.fixture
def impostor() -> Iterator[Any]:
    """Another process of the same user, a copy of the warm one's sockets in its hands, which answers in its place."""
    answering: list[subprocess.Popen[bytes]] = []

    def begin_answering(asked: socket.socket) -> int:
        answering.append(
            subprocess.Popen([sys.executable, "-c", IMPOSTOR], stdin=asked.fileno(), stdout=subprocess.PIPE)
        )
        return answering[-1].pid

    begin_answering.said = lambda: answering[-1].communicate()[0]  # type: ignore[attr-defined]
    yield begin_answering
    for one in answering:
        one.kill()
        one.wait()


@pytest.mark.long
@pytest.mark.requirement("GATE-3", "GATE-5")
def test_an_impostor_on_the_warm_processs_socket_gets_neither_run_nor_key(
    own: Local, tmp_path: Path, impostor: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(tmp_path / "run", SHORT)
    warm_up(own, run)
    [(key, warm)] = own.warm._kept.items()
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    pid = impostor(theirs)
    theirs.close()
    monkeypatch.setattr(warm_processes, "IMPORT_SECONDS", 2.0)
    assert warm_processes._greeted(warm_processes._Warm(warm.child, ours)) is None, "it is no child of what we started"
    real, warm.asking = warm.asking, ours
    launch = begin(own, run, warm=False)
    assert launch.process is not None
    assert launch.process.pid != pid
    assert impostor.said() == b"b''\nb''\n", "neither the word to go on, nor a seed"
    real.close()
    ended(run)
    assert (run.last_status().state, count_of_starts(run)) == (RunState.COMPLETED, 1)
    assert key not in own.warm._kept or own.warm._kept[key] is not warm


@pytest.mark.requirement("GATE-5", "REPRO-1")
@pytest.mark.long
def test_a_request_cannot_bring_an_environment_along_and_another_environment_is_another_process(
    own: Local, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(tmp_path / "run", SHORT)
    warm_up(own, run)
    [warm] = own.warm._kept.values()
    ours, theirs = handover.channel()
    ours.settimeout(20)
    smuggled = {"run": str(run.path), "cwd": str(tmp_path), "env": {"LD_PRELOAD": "x", "TORCH_SMUGGLED": "1"}}
    with theirs, (tmp_path / "log").open("ab") as log:
        socket.send_fds(warm.asking, [json.dumps(smuggled).encode()], [theirs.fileno(), log.fileno()])
    said, fork, _ = handover.heard(ours)
    assert said == b"!"
    environ = Path(f"/proc/{fork}/environ").read_bytes() if os.getuid() == 0 else b""
    ours.close()
    assert b"SMUGGLED" not in environ
    until(lambda: not psutil.pid_exists(fork), "a fork that nobody lets go ends")
    assert run.last_status().attempt == 0
    monkeypatch.setenv("TORCH_SMUGGLED", "1")
    assert not own.warm.is_ready(kind_of_run(run))
    begin(own, run, warm=False)
    ended(run)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    own.warm.prepare(kind_of_run(run), lambda: True)
    assert own.warm.fork(kind_of_run(run), run=run.path, cwd=tmp_path, log=run.log) is None
