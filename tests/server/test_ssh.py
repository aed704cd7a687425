"""The server over ssh as it is: a real sshd on loopback, a client that dies, a line that drops, runs found again."""

from __future__ import annotations

import getpass
import os
import shlex
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from mcp import StdioServerParameters
from mcp.client import Client
from tests.server.conftest import IRIS, Agent

SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
CONFIG = """\
ListenAddress 127.0.0.1
Port {port}
HostKey {folder}/host
AuthorizedKeysFile {folder}/user.pub
StrictModes no
UsePAM no
PasswordAuthentication no
PidFile none
"""
CLIENT = ["-F", "none", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null"]

pytestmark = [
    pytest.mark.long,
    pytest.mark.requirement("MCP-1", "MCP-3"),
    pytest.mark.skipif(SSHD is None or shutil.which("ssh") is None, reason="there is no sshd, or no ssh, here"),
]


@pytest.fixture
def box(tmp_path: Path) -> Iterator[list[str]]:
    """Arguments of ssh that lead to this machine through a daemon of the test's own, with keys of its own."""
    folder = tmp_path / "ssh"
    folder.mkdir()
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (folder / "config").write_text(CONFIG.format(port=port, folder=folder))
    if os.geteuid() == 0:  # a daemon of root's divides its privileges there
        Path("/run/sshd").mkdir(exist_ok=True)
    daemon = subprocess.Popen([str(SSHD), "-D", "-e", "-f", str(folder / "config")], stderr=subprocess.DEVNULL)
    try:
        while not answers(port):
            assert daemon.poll() is None, "sshd has ended"
            time.sleep(0.05)
        yield ["-i", str(folder / "user"), "-p", str(port), *CLIENT, f"{getpass.getuser()}@127.0.0.1"]
    finally:
        daemon.terminate()
        daemon.wait()


def answers(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


def lines_to(box: list[str]) -> list[psutil.Process]:
    """The ssh clients that this process has started."""
    found = [child for child in psutil.Process().children(recursive=True) if child.name() == "ssh"]
    return [child for child in found if box[-1] in child.cmdline()]


async def test_runs_outlive_the_client_and_the_line_and_are_found_again(box, serve_command) -> None:
    parameters = StdioServerParameters(command="ssh", args=[*box, shlex.join(serve_command)])
    async with Client(parameters) as client:  # and leaves, as an agent does
        agent = Agent(client)
        forever = {"training": {"epochs": 10**6, "validate_every_n_epochs": 50}, "early_stopping": {"enabled": False}}
        await agent.project(config={**IRIS, **forever})
        started = await agent.get("start_training", project="iris", kind="smoke", max_steps=10**9)
    with pytest.raises(BaseExceptionGroup) as dropped:
        async with Client(parameters) as client:
            assert (await Agent(client).get("run_status"))["run_id"] == started["run_id"]
            (line,) = lines_to(box)
            line.kill()
            await Agent(client).get("run_status", wait_seconds=50)
    assert dropped
    async with Client(parameters) as client:
        agent = Agent(client)
        view = await agent.get("run_status", wait_seconds=50, after_step=0)
        assert (view["run_id"], view["state"]) == (started["run_id"], "running")
        await agent.get("stop_training", project="iris")
        view = await agent.ended(started["run_id"])
    assert view["state"] == "stopped"
