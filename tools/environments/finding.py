"""Environments that lie beside a project's code, or are active: found to be proposed, never used by themselves."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import yaml

from trainwright.tools.environments.choice import PYTHON, Owned, chosen
from trainwright.tools.environments.overlays import FRAMEWORK
from trainwright.tools.launchers.environment import ACTIVE
from trainwright.trainer.base.errors import ConfigurationError, TrainwrightError
from trainwright.trainer.base.releases import BESIDE, has_torch
from trainwright.trainer.config.environment import EnvironmentSection

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
