"""Checks of a platform's file before it is written: by our own rules always, and by the platform's program or schema
where that is installed.

The programs run apart, in an environment of their own (their packages do not fit beside ours), without network or
account: a check that would need either is not made, and its line says so.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.run import write_generated

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

CHECK_SECONDS = 120
COMPANIONS = "TRAINWRIGHT_COMPANIONS"
"""Variable that names the folder with the programs' environments; default: `companions` in ours."""

MODAL = """
import runpy, sys
found = runpy.run_path(sys.argv[1], run_name="job")
assert type(found["app"]).__name__ == "App" and "train" in found["app"].registered_functions
"""
SKYPILOT = """
import sys
import jsonschema, sky, yaml
from sky.utils import schemas
given = yaml.safe_load(open(sys.argv[1]))
jsonschema.validate(given, schemas.get_task_schema())
jsonschema.validate(given["resources"], schemas.get_resources_schema())
task = sky.Task.from_yaml(sys.argv[1])
assert list(task.resources)[0].accelerators
"""
KUBERNETES = """
import sys
import kubernetes_validate as kubernetes, yaml
for document in yaml.safe_load_all(open(sys.argv[1])):
    kubernetes.validate(document, kubernetes.latest_version(), strict=True)
"""
KUBEFLOW = """
import sys
import yaml
from kubeflow_trainer_api.models import TrainerV1alpha1TrainJob as TrainJob
given = yaml.safe_load(open(sys.argv[1]))
read = TrainJob.from_dict(given).to_dict()
def lost(one, other, path=""):
    if isinstance(one, dict):
        return [p for key, value in one.items()
                for p in (lost(value, other[key], f"{path}.{key}") if key in other else [f"{path}.{key}"])]
    if isinstance(one, list):
        return [p for n, value in enumerate(one) for p in lost(value, other[n], f"{path}.{n}")]
    return []
gone = lost(given, read)
assert not gone, f"unknown keys: {gone}"
"""


@dataclass(frozen=True)
class Checked:
    """One check of a file."""

    by: str
    passed: bool | None
    """None: not made here."""
    said: str = ""


def check(platform: str, file: str, texts: Mapping[str, str]) -> list[Checked]:
    """Return the checks of a platform's file, our own first.

    Args:
        texts: all files of the job by name, which the platform's may read.

    Raises:
        ConfigurationError: one of them failed; nothing should be written.
    """
    found = [_own(file, texts[file])]
    found += [_outer(*program, file=file, texts=texts) for program in PROGRAMS[platform]]
    found += [further(file=file, texts=texts) for further in FURTHER.get(platform, [])]
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


def _outer(program: str, script: str, what: str, *, file: str, texts: Mapping[str, str]) -> Checked:
    """Return the verdict of a platform's program, run apart on copies of the files."""
    if (python := companion(program)) is None:
        return Checked(what, None, f"{program} is not installed apart (make clouds)")
    with tempfile.TemporaryDirectory(prefix="cloud-") as name:
        folder = Path(name)
        write_generated(folder, texts)
        return _said(what, [str(python), "-c", script, str(folder / file)], folder)


def _said(what: str, command: list[str], folder: Path) -> Checked:
    usual = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    env = {**usual, "HOME": str(folder), "SKYPILOT_DISABLE_USAGE_COLLECTION": "1", "PYTHONSAFEPATH": "1"}
    try:
        done = subprocess.run(
            command, cwd=folder, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
            timeout=CHECK_SECONDS,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return Checked(what, None, f"it took more than {CHECK_SECONDS} s")
    last = next((line for line in reversed(done.stderr.splitlines()) if line.strip()), f"exit code {done.returncode}")
    return Checked(what, done.returncode == 0, "" if done.returncode == 0 else " ".join(last.split())[:300])


def companion(program: str) -> Path | None:
    """Return the interpreter of a program's own environment; None where it is not installed."""
    named = os.environ.get(COMPANIONS)
    folder = Path(named) if named else Path(sys.prefix) / "companions"
    python = folder / program / "bin" / "python"
    return python if python.is_file() else None


def _sbatch(*, file: str, texts: Mapping[str, str]) -> Checked:
    """Return what `sbatch --test-only` says, where there is a Slurm."""
    what = "sbatch --test-only"
    if (sbatch := shutil.which("sbatch")) is None:
        return Checked(what, None, "there is no sbatch on this machine")
    with tempfile.TemporaryDirectory(prefix="cloud-") as name:
        write_generated(Path(name), {file: texts[file]})
        return _said(what, [sbatch, "--test-only", file], Path(name))


SKY = ("skypilot", SKYPILOT, "SkyPilot's schemas and Task.from_yaml")
PROGRAMS: dict[str, list[Any]] = {
    "modal": [("modal", MODAL, "Modal's SDK: the file imports, every argument is known")],
    "lambda": [SKY],
    "runpod": [SKY],
    "skypilot": [SKY],
    "slurm": [],
    "kubernetes": [("kubernetes-validate", KUBERNETES, "the OpenAPI schemas of Kubernetes, strict")],
    "kubeflow": [("kubeflow-trainer-api", KUBEFLOW, "the models of Kubeflow Trainer's API")],
}
"""By platform: the environment's name, the check that runs in it, and what it is called."""
FURTHER: dict[str, list[Callable[..., Checked]]] = {"slurm": [_sbatch]}
"""Checks by programs of the machine itself."""
