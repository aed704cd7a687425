"""The interpreter that a configuration's `environment` names, and whether the owner lets a project use it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Protocol

import yaml

from trainwright.tools.environments.interpreters import Interpreter, interpreter, or_none
from trainwright.tools.environments.overlays import FRAMEWORK
from trainwright.tools.launchers.environment import ACTIVE
from trainwright.tools.workspace.settings import Settings
from trainwright.trainer.base.errors import ConfigurationError, TrainwrightError
from trainwright.trainer.base.releases import BESIDE, has_torch
from trainwright.trainer.config.environment import EnvironmentSection

PYTHON = "bin/python"
CONDA_ROOTS = ("miniforge3", "mambaforge", "miniconda3", "anaconda3", "micromamba", ".conda", ".local/share/mamba")
"""Folders of the home in which conda's programs are installed by default."""


class Owned(Protocol):
    """A workspace, or the folder in which one may be, with its owner's settings."""

    @property
    def path(self) -> Path:
        """The folder."""

    @property
    def settings(self) -> Settings:
        """Its owner's."""


def chosen(workspace: Owned, section: EnvironmentSection, code_root: Path) -> Interpreter:
    """Return the interpreter that the section names.

    Raises:
        ConfigurationError: there is none, it does not start or is too old, or it lies where the owner allows none.
    """
    python = _python_of(section, code_root)
    allowed = [*workspace.settings.allowed_roots(workspace.path), *_allowed(workspace)]
    place = python.parent.resolve() / python.name  # the interpreter itself is a link to the system's, most often
    if not any(place.is_relative_to(folder) for folder in allowed):
        raise ConfigurationError(
            f"`environment` {section}: {place.parent.parent} lies outside of the code roots, and the owner's "
            "settings.yaml does not allow it.",
            remedy=f"The workspace's owner adds `environments: [{place.parent.parent}]` to settings.yaml; or start the "
            "server with that environment activated.",
        )
    return interpreter(python, str(section), workspace.path)


def _allowed(workspace: Owned) -> Iterator[Path]:
    """Yield the environments that may be used although they lie elsewhere: the owner's, the server's, the active one.

    Conda keeps a list of its environments, which are the user's own.
    """
    for name in workspace.settings.environments:
        yield (workspace.path / Path(name).expanduser()).resolve()
    yield Path(sys.prefix).resolve()
    yield from (Path(os.environ[name]).resolve() for name in ACTIVE if os.environ.get(name))
    yield from (prefix.resolve() for prefix in conda_environments())


def _python_of(section: EnvironmentSection, code_root: Path) -> Path:
    """Return the path of the interpreter, links kept. Raises ConfigurationError."""
    if section.conda is not None:
        return _of_conda(section.conda) / PYTHON
    if section.uv is not None:
        return _of_uv(code_root / section.uv, section)
    given = Path(os.path.abspath(code_root / Path(str(section.python)).expanduser()))  # noqa: PTH100 - keeps links
    python = given / PYTHON if given.is_dir() else given
    if not python.exists():
        near = [name for name in (".venv", "venv", "env") if (code_root / name / PYTHON).exists()]
        make = "Make it, for example by `python3 -m venv .venv` and the project's requirements"
        raise ConfigurationError(
            f"`environment.python` {section.python}: no interpreter is at {python}.",
            remedy=f"Set environment.python {near[0]}/{PYTHON}." if near else f"{make}{or_none()}.",
        )
    return python


def _of_conda(name: str) -> Path:
    """Return a conda environment's folder. Raises ConfigurationError."""
    known = conda_environments()
    for prefix in known:
        if prefix.name == name or str(prefix) == str(Path(name).expanduser()):
            return prefix
    names = ", ".join(sorted(prefix.name for prefix in known)[:8]) or "none"
    raise ConfigurationError(
        f"`environment.conda` {name}: conda has no environment of that name; known are: {names}.",
        remedy="Name one of these, or the interpreter itself: environment.python /path/to/env/bin/python.",
    )


def conda_environments() -> list[Path]:
    """Return the folders of the user's conda environments: those that conda lists, and those where it keeps them."""
    home = Path.home()
    listed = home / ".conda" / "environments.txt"
    found = [Path(line) for line in listed.read_text().splitlines() if line.strip()] if listed.is_file() else []
    active = os.environ.get("CONDA_PREFIX")
    root = os.environ.get("MAMBA_ROOT_PREFIX")
    for folder in [*([Path(root)] if root else []), *(home / name for name in CONDA_ROOTS)]:
        found += sorted(place.parent for place in folder.glob("envs/*/conda-meta"))
    found += [Path(active)] if active else []
    return [prefix for prefix in dict.fromkeys(found) if (prefix / PYTHON).exists()]


def _of_uv(folder: Path, section: EnvironmentSection) -> Path:
    """Return the interpreter of a uv project's environment. Raises ConfigurationError."""
    place = folder / os.environ.get("UV_PROJECT_ENVIRONMENT", ".venv")
    python = Path(os.path.abspath(place / PYTHON))  # noqa: PTH100 - keeps links
    if not (folder / "pyproject.toml").is_file():
        raise ConfigurationError(
            f"`environment.uv` {section.uv}: {folder} has no pyproject.toml, so it is no uv project.",
            remedy="Name the project's folder, or its interpreter: environment.python .venv/bin/python.",
        )
    if not python.exists():
        raise ConfigurationError(
            f"`environment.uv` {section.uv}: its environment {place} has not been made.",
            remedy=f"Run `uv sync` in {folder}, then call again: the server installs nothing into it.",
        )
    return python


# Environments that lie beside a project's code, or are active: found to be proposed, never used by themselves.

FOLDERS = (".venv", "venv", "env")


class Found(NamedTuple):
    """An environment that a project's runs could work in."""

    section: EnvironmentSection
    told: str
    """`.venv (Python 3.12, torch 2.8.0)`"""

    @property
    def why(self) -> str:
        """Why runs would work in it, and how they would not."""
        own = "; leave it out, and runs work in the server's own" if has_torch() else ""
        return f"the project's own packages: {self.told}; nothing is installed into it{own}"


def found_environment(workspace: Owned, code_root: Path) -> Found | None:
    """Return the first environment of a project's folder, or an active one, that has torch and is not the server's."""
    for section in _candidates(code_root):
        with suppress(TrainwrightError):
            target = chosen(workspace, section, code_root)
            if Path(target.prefix).resolve() == Path(sys.prefix).resolve():
                continue
            if (version := target.packages.get(FRAMEWORK)) is not None:
                python = ".".join(map(str, target.version[:2]))
                return Found(section, f"{section} (Python {python}, torch {version})")
    return None


def no_environment(workspace: Owned, code_root: Path) -> ConfigurationError:
    """Return the refusal of a run where the server has no torch and the configuration names no environment."""
    found = found_environment(workspace, code_root)
    remedy = (
        f"Runs can work in {found.told}: changes={{'environment': {found.section.named}}} in configure, or in "
        "`config` of create_project."
        if found
        else f"Name the environment that has torch, environment.python path/to/bin/python; or {BESIDE}."
    )
    return ConfigurationError(
        f"The server's own Python ({sys.prefix}) has no torch, and the configuration names no `environment`.",
        remedy=remedy,
        document="configs/environment.md",
    )


def _candidates(code_root: Path) -> Iterator[EnvironmentSection]:
    if (code_root / "uv.lock").is_file() and (code_root / "pyproject.toml").is_file():
        yield EnvironmentSection(uv=".")
    for folder in FOLDERS:
        if (code_root / folder / PYTHON).exists():
            yield EnvironmentSection(python=f"{folder}/{PYTHON}")
    for name in ("environment.yml", "environment.yaml"):
        with suppress(OSError, yaml.YAMLError):
            read = yaml.safe_load((code_root / name).read_text(encoding="utf-8"))
            if isinstance(read, dict) and isinstance(read.get("name"), str) and read["name"]:
                yield EnvironmentSection(conda=read["name"])
    for variable in ACTIVE:
        if os.environ.get(variable):
            yield EnvironmentSection(python=str(Path(os.environ[variable]) / PYTHON))
