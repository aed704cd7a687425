"""Makes environments as their owners do, and tells whether anything in one has been changed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from blake3 import blake3
from rows import Row
from uv import find_uv_bin

HERE = Path(__file__).parent
CONDA = "conda"
"""Folder in which conda's environments are, as MAMBA_ROOT_PREFIX names it."""


def make(row: Row, folder: Path) -> dict[str, Any]:
    """Make the environment of a row and its project's files; return the section `environment` that names it.

    Raises:
        RuntimeError: there is no such interpreter, or uv cannot make it.
    """
    project = folder / "project"
    shutil.copytree(HERE / "projects" / row.project, project)
    if row.project == "table":
        (project / "rows.csv").write_text(table(), encoding="utf-8")
    if row.made == "uv":
        _uv("init", "--bare", "--python", interpreter(row.python), "--name", "theirs", cwd=project)
        _uv("add", "--quiet", "--python", interpreter(row.python), *row.packages, cwd=project)  # locks, and syncs
        return {"uv": "."}
    if row.made == "conda":
        _conda(row, folder / CONDA / "envs" / row.name)
        return {"conda": row.name}
    _uv("venv", "--quiet", "--python", interpreter(row.python), ".venv", cwd=project)
    _uv("pip", "install", "--quiet", "--python", ".venv/bin/python", *row.packages, cwd=project)
    return {"python": ".venv/bin/python"}


def prefix_of(row: Row, folder: Path) -> Path:
    """Return the folder of a row's environment."""
    return folder / CONDA / "envs" / row.name if row.made == "conda" else folder / "project" / ".venv"


def installed(row: Row, folder: Path, most: int = 4) -> str:
    """Return the releases of the packages that the row names first."""
    names = [re.split(r"[=<>]", one)[0] for one in row.packages[:most]]
    site = next(prefix_of(row, folder).glob("lib/python3.*/site-packages"))
    found = {one.name.lower(): one.version for one in distributions(path=[str(site)])}
    return ", ".join(f"{name} {found.get(name, '')}".rstrip() for name in names)


def interpreter(version: str) -> str:
    """Return an interpreter of a version. Raises RuntimeError where there is none."""
    kept = sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python"))
    found = str(kept[-1]) if kept else shutil.which(f"python{version}")
    if found is None:
        raise RuntimeError(f"there is no Python {version}: install it, or leave its rows out with ONLY=")
    return found


def state(prefix: Path) -> dict[str, str]:
    """Return the digest of each file below a folder, but for compiled modules, which Python writes by itself."""
    found = {}
    for place, folders, names in os.walk(prefix):
        folders[:] = [name for name in folders if name != "__pycache__"]
        for name in names:
            path = Path(place, name)
            digest = os.readlink(path) if path.is_symlink() else blake3().update_mmap(path).hexdigest()  # noqa: PTH115
            found[str(path.relative_to(prefix))] = digest
    return found


def touched(before: dict[str, str], after: dict[str, str]) -> list[str]:
    """Return the files that were added, changed or removed."""
    return sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))


def table() -> str:
    """Return rows of customers, by one rule with noise; their days are written as ISO 8601 allows."""
    lines = ["joined,plan,minutes,calls,left"]
    for number in range(480):
        day = f"2025-{1 + number % 12:02}-{1 + number % 28:02}T{number % 24:02}:30:00Z"
        minutes, calls = (number * 37) % 101, (number * 53) % 17
        left = int(minutes + 4 * calls + (number * 29) % 13 > 90)
        lines.append(f"{day},{'abc'[number % 3]},{minutes}.5,{calls},{'yes' if left else 'no'}")
    return "\n".join(lines) + "\n"


def _conda(row: Row, prefix: Path) -> None:
    """Lay a whole interpreter into a folder, as conda does, with the record that marks it, and without pip."""
    source = Path(interpreter(row.python)).resolve().parents[1]
    shutil.copytree(source, prefix, symlinks=True, ignore=shutil.ignore_patterns("__pycache__", "test"))
    packages = next(prefix.glob("lib/python3.*/site-packages"))
    for name in packages.iterdir():
        shutil.rmtree(name) if name.is_dir() else name.unlink()
    (prefix / "conda-meta").mkdir()
    (prefix / "conda-meta" / "history").write_text("")
    _uv("pip", "install", "--quiet", "--break-system-packages", "--python", str(prefix / "bin/python"), *row.packages)


def _uv(*arguments: str, cwd: Path | None = None) -> None:
    """Run uv. Raises RuntimeError with what it says."""
    kept = {name: value for name, value in os.environ.items() if name not in {"VIRTUAL_ENV", "CONDA_PREFIX"}}
    done = subprocess.run([find_uv_bin(), *arguments], cwd=cwd, capture_output=True, text=True, check=False, env=kept)
    if done.returncode:
        raise RuntimeError(f"uv {' '.join(arguments)}: {done.stderr[-1500:]}")
