"""What a process behind a wall tries, and what came of it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from trainwright.trainer.starting import wall

SECRET = "the owner's own"
ATTEMPTS = """
import ctypes, json, os, signal, socket, subprocess, sys, tempfile
from pathlib import Path
WANTED = json.loads(Path(__file__).with_name("wanted.json").read_text())
libc = ctypes.CDLL(None, use_errno=True)


def read(path):
    return os.open(path, os.O_RDONLY)


def write(path):  # past the guard of Python's own calls
    if libc.open(path.encode(), os.O_WRONLY | os.O_CREAT, 0o600) == -1:
        raise PermissionError(ctypes.get_errno(), path)


def child(path):
    subprocess.run(["cat", path], check=True, capture_output=True)


def end(process):
    os.kill(process, signal.SIGTERM)


def connect(port):
    socket.create_connection(("127.0.0.1", port)).close()


outcomes = {}
for name, (act, target) in WANTED.items():
    try:
        globals()[act](target)
        outcomes[name] = "done"
    except (OSError, subprocess.CalledProcessError) as error:
        outcomes[name] = "refused"
with tempfile.NamedTemporaryFile() as own:
    outcomes["own temporary file"] = "done" if os.path.dirname(own.name) == os.environ["TMPDIR"] else own.name
print("OUTCOMES", json.dumps(outcomes), flush=True)
"""


def walled_attempts(order: dict[str, Any], wanted: dict[str, tuple[str, Any]], folder: Path) -> dict[str, str]:
    """Have a process behind the wall of an order try such things; what came of each."""
    (folder / "wanted.json").write_text(json.dumps(wanted))
    (folder / "attempts.py").write_text(ATTEMPTS)
    command = [sys.executable, "-I", "-S", "-B", wall.__file__, json.dumps(order)]
    done = subprocess.run(
        [*command, sys.executable, str(folder / "attempts.py")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout.removeprefix("OUTCOMES")))
