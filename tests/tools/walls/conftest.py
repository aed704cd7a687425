"""An owner's machine with a workspace, a key and a server's process, and an agent inside the wall beside them."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import textwrap
from contextlib import closing
from pathlib import Path

import pytest

from trainwright.server import entry
from trainwright.tools.walls import view
from trainwright.tools.walls.kernel import landlock_abi

SECRET = "the-label-is-setosa"
ENCLOSE = [sys.executable, "-P", "-m", entry.__name__, "enclose", "--quiet"]
PRELUDE = """
import ctypes, json, os, socket, subprocess, sys
outcomes = {}
def attempt(name, act):
    try:
        outcomes[name] = ["done", str(act())]
    except (OSError, subprocess.CalledProcessError) as error:
        outcomes[name] = ["refused", str(error)]
def call(name, *arguments):
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*arguments) == -1:
        raise OSError(ctypes.get_errno(), name)
"""


def pytest_collection_modifyitems(items):
    """Skip what needs a wall where the kernel has none."""
    if landlock_abi() == 0:
        for item in items:
            if "/tools/walls/" in item.path.as_posix():
                item.add_marker(pytest.mark.skip(reason="this kernel has no Landlock"))


def no_namespaces() -> str:
    """Return why there are no user namespaces here, in a process of its own: it forks."""
    code = f"from {view.__name__} import offered; print(offered())"
    return subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True).stdout.strip()


class Machine:
    """A project folder, what lies beside it or in it, and a process that holds a secret."""

    def __init__(self, folder: Path, *, only_landlock: bool) -> None:
        self.project = folder / "project"
        self.workspace = (folder if only_landlock else self.project) / ".trainwright"
        self.only_landlock = only_landlock
        (self.workspace / "projects" / "iris").mkdir(parents=True)
        self.project.mkdir(exist_ok=True)
        with closing(sqlite3.connect(self.workspace / "workspace.sqlite")) as database:
            database.execute("CREATE TABLE ledger (entry TEXT)")
            database.execute("INSERT INTO ledger VALUES (?)", [SECRET])
            database.commit()
        for name in ("settings.yaml", "projects/iris/test_rows.json", "projects/iris/ledger.jsonl"):
            (self.workspace / name).write_text(SECRET, encoding="utf-8")
        self.home = folder / "home"
        self.key = self.home / ".config" / "trainwright" / "signing.pem"
        self.key.parent.mkdir(parents=True)
        self.key.write_text(SECRET, encoding="utf-8")
        (self.project / "train.py").write_text("print('trained')\n", encoding="utf-8")
        self.server = subprocess.Popen(
            [sys.executable, "-c", f"import time; held = '{SECRET}'; print('up', flush=True); time.sleep(300)"],
            env={**os.environ, "TRAINWRIGHT_SIGNING_KEY": SECRET},
            stdout=subprocess.PIPE,
        )
        assert self.server.stdout is not None
        self.server.stdout.readline()

    def contents(self) -> dict[str, bytes]:
        """Return every file of the workspace and the key, as they are now."""
        files = [*self.workspace.rglob("*"), self.key]
        return {str(path): path.read_bytes() for path in files if path.is_file()}

    def enclosed(self, *command: object, options: tuple[object, ...] = (), **environment: str) -> list[str]:
        """Return the command line that runs a command inside."""
        mode = ["--only-landlock"] if self.only_landlock else []
        return [*ENCLOSE, *mode, "-w", str(self.workspace), *map(str, options), "--", *map(str, command)]

    def run(
        self, *command: object, options: tuple[object, ...] = (), through: tuple[str, ...] = (), **settings: object
    ):
        """Run a command inside, in the project folder, and return what it said; a program may start the wall."""
        env = {**os.environ, "HOME": str(self.home), "TRAINWRIGHT_SIGNING_KEY": str(self.key), "OTHER_TOKEN": SECRET}
        env.pop("PYTEST_DEBUG_TEMPROOT", None)  # a folder outside, which is for the tests that are played here
        line = [*through, *self.enclosed(*command, options=options)]
        how = {"cwd": self.project, "env": env, "capture_output": True, "text": True, **settings}
        return subprocess.run(line, check=False, **how)

    def play(self, script: str, *arguments: object, options: tuple[object, ...] = (), **settings: object):
        """Play an agent's script inside and return the outcome of each of its attempts: done or refused."""
        whole = f"{PRELUDE}{textwrap.dedent(script)}\nprint(json.dumps(outcomes))"
        done = self.run(sys.executable, "-c", whole, *arguments, options=options, **settings)
        assert done.returncode == 0, done.stderr
        assert SECRET not in done.stdout + done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    def close(self) -> None:
        """End the process that stands for the server."""
        self.server.kill()
        self.server.communicate()


@pytest.fixture(params=["namespaces", "landlock"])
def machine(request, tmp_path):
    if request.param == "namespaces" and (reason := no_namespaces()):
        pytest.skip(f"this machine offers no user namespaces ({reason})")
    made = Machine(tmp_path, only_landlock=request.param == "landlock")
    yield made
    made.close()
