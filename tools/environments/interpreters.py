"""Interpreters of environments that are not the server's own: what one is, asked of itself."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from trainwright.tools.launchers.environment import behind, inherited_environment
from trainwright.tools.launchers.worker_wall import order_apart
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.base.file_stamps import while_unchanged
from trainwright.trainer.base.releases import has_torch
from trainwright.trainer.run.environment import installed_packages

MIN_PYTHON = (3, 10)
PROBE = """
import json, sys, sysconfig
print(json.dumps({
    "version": list(sys.version_info[:3]), "prefix": sys.prefix, "path": [one for one in sys.path if one],
    "platform": sysconfig.get_platform(), "abi": sysconfig.get_config_var("SOABI") or "",
}))
"""
PROBE_SECONDS = 60.0
SCRIPT = b"#!"
"""Beginning of a file that another program interprets."""


def or_none() -> str:
    """Return the way out that is there where the server's own interpreter can train; else nothing."""
    return "; or leave `environment` out, and runs work in the server's own Python" if has_torch() else ""


@dataclass(frozen=True)
class Interpreter:
    """A Python and the environment around it."""

    python: str
    """As it is started."""
    version: tuple[int, int, int]
    prefix: str
    path: tuple[str, ...]
    """`sys.path`, as it starts."""
    platform: str
    abi: str
    """Tag of the extension modules that it takes."""
    image: str = ""
    """In which it is; empty: on this machine, and so are its folders."""
    libc: str = ""
    """Release of the image's C library."""
    listed: tuple[tuple[str, str], ...] = ()
    """What is installed in the image, with versions."""

    @property
    def packages(self) -> dict[str, str]:
        """Versions of all that is installed there, by normalised name."""
        return dict(self.listed) if self.image else installed_packages(list(self.path))

    @property
    def wheels(self) -> str:
        """Platform of the wheels that it takes."""
        return f"{self.platform} glibc {self.libc}" if self.image else self.platform


def interpreter(python: Path, named: str, workspace: Path) -> Interpreter:
    """Return what an interpreter is.

    Args:
        python: its path, links kept.
        named: how the user names its environment, for errors.
        workspace: which it does not read.

    Raises:
        ConfigurationError: it is not there, does not start, or is too old.
    """
    read = while_unchanged(("interpreter", str(python)), _files_of(python), partial(_ask, python, named, workspace))
    found = require_new(read, named)
    with python.open("rb") as file:
        if file.read(2) == SCRIPT:
            raise ConfigurationError(
                f"`environment` {named}: {python} is a script that starts a Python, and a run's key is handed "
                "to a Python alone.",
                remedy=f"Name the interpreter itself: it says that its environment is {found.prefix}.",
            )
    return found


def require_new(found: Interpreter, named: str) -> Interpreter:
    """Return an interpreter that is new enough. Raises ConfigurationError."""
    if found.version < MIN_PYTHON:
        has = ".".join(map(str, found.version))
        raise ConfigurationError(
            f"`environment` {named} has Python {has}, and runs need Python 3.10 or newer.",
            remedy=f"Name an environment of a newer Python{or_none()}.",
        )
    return found


def _files_of(python: Path) -> list[str]:
    """Return the files and folders whose change may change the answer."""
    prefix = python.parent.parent
    folders = sorted(prefix.glob("lib/python3*/site-packages"))
    return [str(path) for path in (python, prefix / "pyvenv.cfg", *folders)]


def _ask(python: Path, named: str, workspace: Path) -> Interpreter:
    """Ask an interpreter, which reads all but secrets and the workspace, and writes nothing: what starts with it may be
    a file that user code has put there."""
    try:
        with TemporaryDirectory(prefix="trainwright-") as home:
            wall = order_apart({}, home)
            if wall is not None:
                wall |= {"reads": ["/"], "hidden": [*wall["hidden"], str(workspace)]}
            done = subprocess.run(
                behind(wall, [str(python), "-c", PROBE]),
                capture_output=True, text=True, check=True, timeout=PROBE_SECONDS, stdin=subprocess.DEVNULL, cwd="/",
                env=inherited_environment(),
            )  # fmt: skip
        found = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        why = str(error).rpartition("]' ")[2]  # not the command, which begins with the wall's order
        said = (getattr(error, "stderr", None) or why).strip().rpartition("\n")[2][:300]
        raise ConfigurationError(
            f"`environment` {named}: {python} does not start as a Python: {said}",
            remedy=f"Make the environment again, or name another{or_none()}.",
        ) from error
    found |= {"version": tuple(found["version"]), "path": tuple(found["path"])}
    return Interpreter(python=str(python), **found)
