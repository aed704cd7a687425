"""Real servers that tests of remote data start: PostgreSQL and a store that speaks S3. Each is stopped again."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.companions import MOTO

PASSWORD = "hush-hush-9317"
SECONDS = 60.0


def free_port() -> int:
    """Return a port that nobody listens on now."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


class Postgres:
    """A PostgreSQL server of its own, in a folder of its own, which asks for a password."""

    def __init__(self, programs: Path, folder: Path, port: int) -> None:
        self.programs, self.folder, self.port = programs, folder, port
        self.url = f"postgresql+psycopg://reader:{PASSWORD}@127.0.0.1:{port}/postgres"

    def run(self, *command: str) -> None:
        """Run one of its programs, as another user where this one is root, which it refuses."""
        as_user: dict[str, Any] = {"user": _user().pw_uid, "group": _user().pw_gid} if os.getuid() == 0 else {}
        subprocess.run(
            [str(self.programs / command[0]), *command[1:]], cwd=self.folder, check=True, timeout=SECONDS,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, extra_groups=[] if as_user else None, **as_user,
        )  # fmt: skip

    def start(self) -> None:
        """Start it, and wait until it answers."""
        options = f"-p {self.port} -k {self.folder} -c listen_addresses=127.0.0.1 -c fsync=off"
        self.run("pg_ctl", "-D", "data", "-o", options, "-l", "log", "-w", "start")

    def stop(self, how: str = "immediate") -> None:
        """End it, in mid-sentence."""
        if (self.folder / "data" / "postmaster.pid").exists():
            self.run("pg_ctl", "-D", "data", "-m", how, "-w", "stop")

    def execute(self, *statements: str) -> None:
        """Run statements as its owner."""
        import psycopg

        with psycopg.connect(
            host="127.0.0.1", port=self.port, user="postgres", password=PASSWORD, dbname="postgres", autocommit=True
        ) as connection:
            for statement in statements:
                connection.execute(statement.encode())


@contextmanager
def postgres() -> Iterator[Postgres]:
    """Run PostgreSQL; skip where it is not installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    on_path = shutil.which("initdb")
    if not found and on_path is None:
        pytest.skip("needs PostgreSQL's server programs (initdb); none is installed on this machine")
    programs = found[-1].parent if found else Path(str(on_path)).parent
    folder = Path(tempfile.mkdtemp(prefix="postgres-", dir="/tmp"))
    if os.getuid() == 0:
        os.chown(folder, _user().pw_uid, _user().pw_gid)
    server = Postgres(programs, folder, free_port())
    (folder / "password").write_text(PASSWORD)
    (folder / "password").chmod(0o644)
    try:
        server.run("initdb", "-D", "data", "-A", "scram-sha-256", "-U", "postgres", "--pwfile=password", "--no-sync")
        server.start()
        server.execute(f"CREATE ROLE reader LOGIN PASSWORD '{PASSWORD}'", "GRANT pg_read_all_data TO reader")
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _user() -> pwd.struct_passwd:
    known = {one.pw_name: one for one in pwd.getpwall()}
    return known.get("postgres") or known["nobody"]


@contextmanager
def store() -> Iterator[str]:
    """Run moto's server, which speaks S3, and yield its address."""
    port = free_port()
    server = subprocess.Popen(
        [str(MOTO), "-H", "127.0.0.1", "-p", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    address = f"http://127.0.0.1:{port}"
    try:
        _wait_for(address, server)
        yield address
    finally:
        server.kill()
        server.wait()


def _wait_for(address: str, server: subprocess.Popen[bytes]) -> None:
    ends = time.monotonic() + SECONDS
    while time.monotonic() < ends:
        try:
            with urllib.request.urlopen(f"{address}/moto-api/", timeout=1):  # noqa: S310 - an address of ours
                return
        except (urllib.error.URLError, OSError):
            if server.poll() is not None:
                break
            time.sleep(0.05)
    raise AssertionError(f"moto's server did not start on {address}: {sys.platform}")
