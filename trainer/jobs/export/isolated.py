"""A process of its own for what a final model ships: nothing of ours is on its path, and none of our variables."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from trainwright.trainer.base.errors import IntegrityError

PACKAGES = (
    "numpy", "onnxruntime", "PIL", "tokenizers", "jinja2", "torch", "safetensors", "transformers", "peft", "timm",
)  # fmt: skip
"""Whose folders are on its path."""
TIMEOUT_SECONDS = 600.0
PYTHON = (sys.executable, "-I", "-B", "-c")
OURS = __name__.partition(".")[0]
STARTER = f"import sys; sys.path += sys.argv.pop(1).split(chr(10)); sys.modules[{OURS!r}] = None\n"
"""Of our packages none can be imported, though the environment they are installed in is on the path."""


REPORT = "Report this with one of the inputs; deployment.formats says which programs are exported."
MAX_CHARACTERS = 600


def run_alone(script: str, arguments: Sequence[str], place: Path, *, failed: str, remedy: str = REPORT) -> str:
    """Run Python source with arguments below a folder; return what it printed.

    Args:
        failed: what is said of it where it fails, before its error.
        remedy: of such a failure.

    Raises:
        IntegrityError: it fails, or does not end in `TIMEOUT_SECONDS`, which is what `failed` says.
    """
    specs = [importlib.util.find_spec(name) for name in PACKAGES]
    origins = [str(Path(spec.origin).parents[1]) for spec in specs if spec is not None and spec.origin]
    environment = {
        "PATH": os.environ.get("PATH", ""), "HOME": str(place), "LANG": "C.UTF-8", "CUDA_VISIBLE_DEVICES": "",
        "OMP_NUM_THREADS": str(torch.get_num_threads()), "HF_HUB_OFFLINE": "1",
    }  # fmt: skip
    try:
        done = subprocess.run(
            [*PYTHON, _started(script), "\n".join(dict.fromkeys(origins)), *arguments],
            capture_output=True, text=True, check=False, cwd=place, env=environment, timeout=TIMEOUT_SECONDS,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise IntegrityError(
            f"{failed}: it had not ended after {error.timeout:g} s, on the CPU, which is as long as it may take.",
            remedy="Call export_model again when other work on this machine has ended. If it takes as long again, "
            "report this with one of the inputs.",
        ) from error
    if done.returncode:
        raise IntegrityError(f"{failed}: {_error_in(done.stderr) or f'it ended with {done.returncode}'}", remedy=remedy)
    return done.stdout


def _error_in(stderr: str) -> str:
    """Return the error that ended a process, without the frames that led to it, or else its last lines."""
    lines = stderr.strip().splitlines()
    starts = [place for place, line in enumerate(lines) if line.startswith("Traceback (most recent call last)")]
    if not starts:
        return " ".join(lines)[-MAX_CHARACTERS:]
    after = lines[starts[-1] + 1 :]
    first = next((place for place, line in enumerate(after) if line and not line.startswith(" ")), 0)
    return "\n".join(after[first:])[:MAX_CHARACTERS]


def _started(script: str) -> str:
    future = "from __future__ import annotations\n"
    return f"{future}{STARTER}{script.removeprefix(future)}"
