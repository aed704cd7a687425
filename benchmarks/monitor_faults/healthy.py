"""Sound runs of which some look odd: units, tiny data, a good start, plateaus, long warmups, noise that is normal."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from bases import BASES, configuration
from rows import write_rows
from runs import Job
from sound_kinds import KINDS

SGD = {"name": "sgd", "momentum": 0.9}
TINY: dict[str, Any] = {"data.args.rows": 60}
UNSCALED: dict[str, Any] = {"data.args.scale": 90.0, "data.args.offset": 250.0}
TUNED: dict[str, Any] = {
    "model": {"use": "networks.py:Tuned"}, "data": {"use": "samples.py:blobs"}, "metrics": ["accuracy"],
}  # fmt: skip
MIXED = {"mixing": {"name": "mixup", "alpha": 0.2}}

VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    **{base: (base, {}) for base in BASES},
    "targets unscaled": ("numbers", {**UNSCALED, "target_scaling": "standardize", "metrics": ["r2", "mae"]}),
    "targets unscaled, adamw": ("numbers", {**UNSCALED, "optimizer.learning_rate": 0.05, "training.epochs": 40}),
    "huber": ("numbers", {"loss": "huber"}),
    "noise that no model explains": ("numbers", {
        "data.args.noise": 2.0, "training.epochs": 12, "model.args.width": 8, "optimizer.learning_rate": 0.02,
    }),
    "tiny table": ("table", {"data.args.rows": 120, "model.args.width": 8, "training.epochs": 6}),
    "tiny pictures": ("vision", {"data.args.rows": 240, "loader.batch_size": 16, "training.epochs": 6}),
    "a good start": ("table", {**TUNED, "optimizer.learning_rate": 3e-4, "training.epochs": 6}),
    "a good start, frozen": ("table", {
        **TUNED, "freezing": {"patterns": ["layers.0"]}, "optimizer.learning_rate": 1e-4, "training.epochs": 4,
    }),
    "adapter": ("table", {**TUNED, "adapter": {"rank": 2, "targets": ["layers.2"]}, "training.epochs": 4}),
    "plateau at the end": ("text", {
        "training.epochs": 20, "optimizer.weight_decay": 3.0, "model.args.dropout": 0.5,
    }),
    "plateau, then lower": ("layers", {
        "schedule": {"name": "plateau", "patience_epochs": 2}, "training.epochs": 16, "model.args.dropout": 0.2,
    }),
    "long warmup": ("layers", {"schedule.warmup_fraction": 0.5}),
    "long warmup, gpt": ("gpt", {"schedule.warmup_fraction": 0.4}),
    "restarts": ("layers", {"schedule": {"name": "cosine_restarts", "cycles": 3}, "training.epochs": 15}),
    "one cycle": ("vision", {"schedule": {"name": "one_cycle"}, "optimizer.learning_rate": 1e-2}),
    "label smoothing": ("layers", {"loss": {"use": "cross_entropy", "args": {"label_smoothing": 0.1}}}),
    "mixup": ("layers", MIXED),
    "sgd": ("layers", {"optimizer": SGD | {"learning_rate": 0.05}}),
    "sgd, high and clipped": ("vision", {"optimizer": SGD | {"learning_rate": 0.1}, "training.clip_norm": 1.0}),
    "small batches": ("layers", {"loader.batch_size": 8, "training.epochs": 3, "optimizer.learning_rate": 5e-4}),
    "dropout": ("layers", {"model.args.dropout": 0.4, "training.epochs": 12}),
    "curriculum": ("layers", {"curriculum": {"use": "easy.py:scores"}, "training.epochs": 12}),
    "rewards": ("table", {
        "model": None, "data": None, "task": {"use": "tasks.py:bandit"}, "metrics": [], "selection": None,
    }),
    "one class in ten": ("layers", {
        "data.args.rare": 0.25, "model.args.outputs": 2, "metrics": ["accuracy", "balanced_accuracy"],
        "training.epochs": 25, "optimizer.learning_rate": 5e-3,
    }),
    "adversarial": ("layers", {"objective": {"name": "adversarial", "attack": "fgsm", "epsilon": 0.05}}),
    "clipped gpt": ("gpt", {"training.clip_norm": 1.0, "model.args.before": True}),
    "accumulated": ("text", {"training.accumulation_steps": 2, "training.epochs": 10}),
    "lion": ("layers", {"optimizer": {"name": "lion", "learning_rate": 1e-3}}),
    "muon": ("layers", {"optimizer": {"name": "muon", "learning_rate": 5e-3}}),
    "schedule-free": ("layers", {
        "optimizer": {"name": "schedule_free_adamw", "learning_rate": 5e-3}, "schedule": {"name": "constant"},
    }),
    "tanh": ("layers", {"model.args.activation": "tanh", "model.args.norm": True}),
    "deep and normalised": ("layers", {"model.args.depth": 6, "model.args.norm": True}),
    "steps of the gan": ("gan", {"task.args": {"generator_rate": 5e-4, "discriminator_rate": 5e-4}}),
    **KINDS,
}  # fmt: skip


def jobs(folder: Path, seeds: tuple[int, ...], names: tuple[str, ...] | None = None) -> list[Job]:
    """Return the sound runs of these seeds; files that they read are written into the folder."""
    chosen = [name for name in VARIANTS if names is None or name in names]
    return [_job(name, seed, folder) for name in chosen for seed in seeds]


def _job(name: str, seed: int, folder: Path) -> Job:
    base, changes = VARIANTS[name]
    values = configuration(base, seed, changes)
    if (data := values.get("data")) and ".py:" in data["use"]:
        data["args"] = {"seed": seed, **data.get("args", {})}
    job = Job(f"sound {name} {seed}", values)
    if base != "rows":
        return job
    return replace(job, validates=True, code_root=write_rows(folder / "rows" / job.name, seed))
