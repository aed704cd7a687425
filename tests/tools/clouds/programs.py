"""Programs and schemas of the platforms themselves, on the files that are written for them.

Each runs apart, in an environment of its own (`make clouds`), without network or account.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from trainwright.trainer.run import write_generated

COMPANIONS = Path(sys.prefix) / "companions"
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


SKY = ("skypilot", SKYPILOT, "SkyPilot's schemas and Task.from_yaml")
PROGRAMS: dict[str, list[tuple[str, str, str]]] = {
    "modal": [("modal", MODAL, "Modal's SDK: the file imports, every argument is known")],
    "lambda": [SKY],
    "runpod": [SKY],
    "skypilot": [SKY],
    "slurm": [],
    "kubernetes": [("kubernetes-validate", KUBERNETES, "the OpenAPI schemas of Kubernetes, strict")],
    "kubeflow": [("kubeflow-trainer-api", KUBEFLOW, "the models of Kubeflow Trainer's API")],
}
"""By platform: the environment's name, the check that runs in it, and what it is called."""


def companion(program: str) -> Path | None:
    """Return the interpreter of a program's own environment; None where it is not installed."""
    python = COMPANIONS / program / "bin" / "python"
    return python if python.is_file() else None


def verdict(program: str, script: str, file: str, texts: Mapping[str, str], folder: Path) -> str:
    """Return what a platform's program says against the file, run on copies of all; empty where it takes it."""
    python = companion(program)
    assert python is not None
    write_generated(folder, texts)
    usual = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    env = {**usual, "HOME": str(folder), "SKYPILOT_DISABLE_USAGE_COLLECTION": "1", "PYTHONSAFEPATH": "1"}
    done = subprocess.run(
        [str(python), "-c", script, str(folder / file)], cwd=folder, env=env, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    return "" if done.returncode == 0 else (lines or [f"exit code {done.returncode}"])[-1]
