"""Jobs of the flowers for each platform, with options that it takes."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from tests.worlds.flowers import NAME

from trainwright.tools.clouds import read_cloud_request, render_cloud
from trainwright.tools.workspace import Workspace

OPTIONS: dict[str, dict[str, Any]] = {
    "modal": {"gpu": "H100:2", "secrets": ("warehouse",), "region": "us-east"},
    "lambda": {"gpu": "A10:1", "region": "us-east-1"},
    "runpod": {"gpu": "RTX4090:2", "spot": True, "region": "CA"},
    "skypilot": {"gpu": "L4", "bucket": "our-bucket", "spot": True},
    "slurm": {"gpu": "a100_80gb:4", "partition": "gpu", "search": True},
    "kubernetes": {"gpu": "NVIDIA-L4:1", "image": "registry/ours:1", "secrets": ("warehouse",), "spot": True},
    "kubeflow": {"gpu": "NVIDIA-H100-80GB-HBM3:8", "image": "registry/ours:1"},
}
FILES = {"modal": "modal_job.py", "lambda": "skypilot.yaml", "runpod": "skypilot.yaml", "skypilot": "skypilot.yaml",
         "slurm": "slurm.sh", "kubernetes": "kubernetes.yaml", "kubeflow": "trainjob.yaml"}  # fmt: skip
CLUSTERS = {name: {"claim.yaml", "copy.yaml"} for name in ("kubernetes", "kubeflow")}


def rendered(workspace: Workspace, platform: str, folder: Path, **more: Any) -> dict[str, str]:
    options = {**OPTIONS[platform], **more}
    done = render_cloud(workspace, read_cloud_request(project=NAME, platform=platform, **options), folder)
    return {path.name: path.read_text(encoding="utf-8") for path in done.files}


def compile_shell(text: str) -> None:
    done = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
