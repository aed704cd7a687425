"""The wall round a process that evaluates: it reads what its order names, and reaches no network."""

from __future__ import annotations

import json
import socket
import sys
import tempfile
from pathlib import Path

import pytest

from trainwright.tools.evaluation.process import isolated
from trainwright.tools.launchers.environment import behind
from trainwright.tools.launchers.worker_wall import order_apart
from trainwright.trainer.starting.wall import landlock_abi

TRIES = """
import json, socket, sys
order, outcomes = json.load(sys.stdin), {}


def attempt(name, act, *arguments):
    try:
        act(*arguments)
        outcomes[name] = "done"
    except OSError:
        outcomes[name] = "refused"


attempt("what its order names", open, order["rows"]["folder"] + "/rows.bin")
attempt("its own folder", open, "own", "w")
attempt("another file", open, order["other"][1:])
attempt("beside its folder", open, order["other"][1:] + ".new", "w")
attempt("the network", socket.create_connection, ("127.0.0.1", order["port"]))
attempt("a datagram", socket.socket, socket.AF_INET, socket.SOCK_DGRAM)
print(json.dumps(outcomes))
"""


@pytest.mark.requirement("GATE-5", "GATE-6")
@pytest.mark.skipif(landlock_abi() < 4, reason="this kernel's Landlock knows no ports")
def test_what_evaluates_reads_what_its_order_names_and_nothing_else() -> None:
    with (
        tempfile.TemporaryDirectory(dir="/var/tmp") as name,
        tempfile.TemporaryDirectory() as home,
        socket.create_server(("127.0.0.1", 0)) as server,
    ):
        rows, other = Path(name, "rows"), Path(name, "other.bin")
        rows.mkdir()
        for file in (rows / "rows.bin", other):
            file.write_bytes(b"1")
        order = {"rows": {"folder": str(rows)}, "other": f"-{other}", "port": server.getsockname()[1]}
        command = behind(order_apart(order, home), [sys.executable, "-I", "-S", "-c", TRIES])
        told = isolated(command, order, home, cwd=home, seconds=60)
        bare = isolated(command[6:], order, home, cwd=home, seconds=60)
    assert {one for one, came in json.loads(told.stdout).items() if came == "done"} == {
        "what its order names", "its own folder",
    }, told  # fmt: skip
    assert set(json.loads(bare.stdout).values()) == {"done"}
