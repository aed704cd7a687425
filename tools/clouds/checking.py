"""Checks of a platform's file before it is written: whether it parses, and what `sbatch` says where there is a Slurm.

The platforms' own programs and schemas are held to the templates by the tests (tests/tools/clouds/programs.py): their
packages do not fit beside ours.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import yaml

from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.run import write_generated

CHECK_SECONDS = 120
SLURM = "slurm"


@dataclass(frozen=True)
class Checked:
    """One check of a file."""

    by: str
    passed: bool | None
    """None: not made here."""
    said: str = ""


def check(platform: str, file: str, text: str) -> list[Checked]:
    """Return the checks of a platform's file.

    Raises:
        ConfigurationError: one of them failed; nothing should be written.
    """
    found = [_own(file, text), *([_sbatch(file, text)] if platform == SLURM else [])]
    failed = next((one for one in found if one.passed is False), None)
    if failed is not None:
        raise ConfigurationError(
            f"{file} was not written: {failed.by} refuses it: {failed.said}.",
            remedy="Change the option that it names; if there is none, the template is at fault: report it.",
        )
    return found


def _own(file: str, text: str) -> Checked:
    """Return whether the file can be parsed as what it is, and nothing in it was left open."""
    try:
        if file.endswith(".py"):
            compile(text, file, "exec")
        elif file.endswith(".yaml"):
            documents = list(yaml.safe_load_all(text))
            _require(all(isinstance(one, dict) and one for one in documents), "an empty document")
        elif (bash := shutil.which("bash")) is not None:
            done = subprocess.run([bash, "-n"], input=text, capture_output=True, text=True, check=False)
            _require(done.returncode == 0, done.stderr)
        _require("{{" not in text, "a place that was not filled in")
    except (SyntaxError, ValueError, yaml.YAMLError) as error:
        return Checked("parser", False, " ".join(str(error).split())[:300])
    return Checked("own list of GPUs, bounds and parser", True)


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(what)


def _sbatch(file: str, text: str) -> Checked:
    what = "sbatch --test-only"
    if (sbatch := shutil.which("sbatch")) is None:
        return Checked(what, None, "there is no sbatch on this machine")
    with tempfile.TemporaryDirectory(prefix="cloud-") as name:
        write_generated(Path(name), {file: text})
        try:
            done = subprocess.run(
                [sbatch, "--test-only", file], cwd=name, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                check=False, timeout=CHECK_SECONDS,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return Checked(what, None, f"it took more than {CHECK_SECONDS} s")
    said = next((line for line in reversed(done.stderr.splitlines()) if line.strip()), f"exit code {done.returncode}")
    return Checked(what, done.returncode == 0, "" if done.returncode == 0 else " ".join(said.split())[:300])
