"""Process of the clean room: an isolated interpreter that gets an order and answers, and shares nothing else."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

import trainwright.trainer
from trainwright.tools.launchers.environment import behind
from trainwright.tools.launchers.worker_wall import order_apart
from trainwright.trainer.base.canonical import digest_file, digest_json

CODE = Path(trainwright.trainer.__file__).resolve().parent / "clean_room"
TIMEOUT_SECONDS = 600.0
LIBRARIES = ("numpy", "onnxruntime")
OF_FORM = {"torch_export": ("torch",)}
"""Further libraries that a form of program needs."""
MAX_CHARACTERS = 300


def run_clean_room(order: dict[str, Any], *, timeout_seconds: float = TIMEOUT_SECONDS) -> dict[str, Any]:
    """Return the clean room's answer to an order; whatever goes wrong is a `problem` with its `remedy`.

    The process is isolated (`-I`), reads no site packages by itself (`-S`) and writes no bytecode (`-B`). It gets an
    almost empty environment, a folder of its own that is deleted afterwards, and no file that this process has open.
    Where the kernel has Landlock, it reads nothing but what its order names and its libraries, and has no network.
    """
    with tempfile.TemporaryDirectory(prefix="clean-room-") as folder:
        try:
            command = [order.get("python", sys.executable), "-I", "-S", "-B", str(CODE / "__main__.py")]
            walled = behind(order_apart(order | {"code": str(CODE)}, folder), command)
            ended = isolated(walled, order, folder, cwd=folder, seconds=timeout_seconds)
        except subprocess.TimeoutExpired:
            remedy = "Use a smaller model, or fewer validation rows; the owner's settings.yaml bounds the rows."
            return _problem(f"evaluating the program took more than {timeout_seconds:g} s", remedy)
        except OSError as error:
            return _problem(
                f"the clean room could not be started: {error}", "`trainwright doctor` looks for the cause."
            )
    return _read(ended)


def place_of(form: str, python: str | None, path: list[str]) -> dict[str, Any]:
    """Return what an order says of the process: folders to import from, and where it is not the server's its `python`.

    Args:
        form: of the program. What the server lacks for it, torch, is the project's environment's.
        python: the run's interpreter, where it is not the server's.
        path: on which that one finds its packages.
    """
    needs = OF_FORM.get(form, ())
    if python is None or all(importlib.util.find_spec(name) is not None for name in needs):
        return {"libraries": libraries_of(form)}
    return {"python": python, "libraries": libraries_of(form, path)}


def libraries_of(form: str, path: list[str] | None = None) -> list[str]:
    """Return the folders from which the clean room imports what this form of program needs; by default the server's."""
    specs = [PathFinder.find_spec(name, path) for name in (*LIBRARIES, *OF_FORM.get(form, ()))]
    folders = [str(Path(spec.origin).resolve().parent.parent) for spec in specs if spec is not None and spec.origin]
    return list(dict.fromkeys(folders))


@lru_cache(1)
def code_digest() -> str:
    """Return the digest of the clean room's code."""
    files = sorted(CODE.rglob("*.py"))
    return digest_json({str(path.relative_to(CODE)): digest_file(path) for path in files})


def isolated(
    command: Sequence[str], order: Mapping[str, Any], home: str, *, cwd: str, seconds: float
) -> subprocess.CompletedProcess[bytes]:
    """Run a command on an order, with few variables: a home of its own, and no card. Raises as subprocess.run does."""
    threads = str(order.get("threads", 1))
    env = {"LANG": "C.UTF-8", "HOME": home, "TMPDIR": home, "CUDA_VISIBLE_DEVICES": ""}
    return subprocess.run(
        command, input=json.dumps(order).encode(), capture_output=True, cwd=cwd,
        env=env | dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), threads),
        timeout=seconds, check=False, start_new_session=True,
    )  # fmt: skip


def _read(ended: subprocess.CompletedProcess[bytes]) -> dict[str, Any]:
    try:
        answer = json.loads(ended.stdout)
    except (ValueError, RecursionError):
        answer = None
    if isinstance(answer, dict) and (isinstance(answer.get("splits"), dict) or answer.get("problem")):
        return answer
    last = ended.stderr.decode(errors="replace").strip().splitlines()[-1:] or ["it printed nothing"]
    what = f"the clean room ended with code {ended.returncode} and no answer: {last[0][:MAX_CHARACTERS]}"
    return _problem(what, "The program does not run outside of training; run_status shows how it was exported.")


def _problem(what: str, remedy: str) -> dict[str, Any]:
    return {"problem": what, "remedy": remedy}
