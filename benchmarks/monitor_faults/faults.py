"""Faults that the suite injects, each one change of a sound run, with the names that count as its cause."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bases import configuration
from rows import write_rows
from runs import Job

from trainwright.trainer.run import RunDirectory


def _at_once(run: RunDirectory) -> int:  # noqa: ARG001 - the form of a beginning
    return 0


def _at_the_first_wild_loss(run: RunDirectory) -> int:
    losses = run.metrics().series("train/loss")
    start = losses[0].value if losses else 1.0
    return next((p.step for p in losses if not math.isfinite(p.value) or p.value > 10 * start), 0)


def _when_the_rate_is_spent(run: RunDirectory) -> int:
    rates = run.metrics().series("train/learning_rate")
    peak = max((point.value for point in rates), default=0.0)
    high = [point.step for point in rates if point.value >= 0.01 * peak]
    return high[-1] if high else 0


@dataclass(frozen=True)
class Fault:
    """One kind of fault: a base with changes."""

    kind: str
    base: str
    changes: dict[str, Any]
    names: tuple[str, ...]
    """Diagnostics that name this cause; the first is the one meant."""
    symptoms: tuple[str, ...] = ()
    """Diagnostics of what follows from it, which are right beside the cause, and not in its place."""
    curable: bool = False
    """Whether a change of the configuration can cure it; else only code or data can."""
    rows: dict[str, Any] | None = None
    """Arguments of `write_rows`, of a base that reads a file."""
    is_cost: bool = False
    """Whether its cure may leave the losses as they are, or worse: it costs time, or flatters."""
    begins: Callable[[RunDirectory], int] = _at_once
    """Last step before it acts."""

    def job(self, seed: int, folder: Path) -> Job:
        """Return the faulty run of a seed; files that it reads are written into the folder."""
        name, values = f"{self.kind}-{seed}", configuration(self.base, seed, self.changes)
        if self.rows is None:
            return Job(name, values)
        return Job(name, values, validates=True, code_root=write_rows(folder / "rows" / name, seed, **self.rows))


def _sgd(rate: float) -> dict[str, Any]:
    return {"name": "sgd", "momentum": 0.9, "learning_rate": rate}


HIGH, LOW = ("learning_rate_too_high",), ("learning_rate_too_low",)
OUT_OF_HAND = ("nan_loss", "loss_spike", "exploding_gradients", "underfitting", "convergence_stall", "dead_units")
STUCK = ("underfitting", "convergence_stall", "vanishing_gradients")

FAULTS = (
    Fault("rate diverges", "vision", {"optimizer": _sgd(30.0)}, HIGH, OUT_OF_HAND, curable=True),
    Fault("rate diverges, numbers", "numbers", {"optimizer": _sgd(1.0)}, HIGH, OUT_OF_HAND, curable=True),
    Fault("rate oscillates", "layers", {"optimizer.learning_rate": 0.3}, HIGH, OUT_OF_HAND, curable=True),
    Fault("rate too high, text", "text", {"optimizer.learning_rate": 3.0}, HIGH, OUT_OF_HAND, curable=True),
    Fault("rate too low", "layers", {"optimizer.learning_rate": 1e-6}, LOW, STUCK, curable=True),
    Fault("rate too low, gpt", "gpt", {"optimizer.learning_rate": 1e-6}, LOW, STUCK, curable=True),
    Fault(
        "no warmup", "gpt",
        {"optimizer.learning_rate": 3e-2, "schedule.warmup_fraction": 0.0, "model.args.depth": 8},
        HIGH, OUT_OF_HAND, curable=True,
    ),
    Fault(
        "gradients explode", "sequence",
        {"model.args.gain": 2.2, "model.args.activation": "relu", "optimizer": _sgd(0.01)},
        ("exploding_gradients",), OUT_OF_HAND, curable=True,
    ),
    Fault(
        "gradients vanish", "layers", {"model.args.depth": 14, "model.args.activation": "sigmoid"},
        ("vanishing_gradients",), (*STUCK, "saturated_units"), curable=True,
    ),
    Fault("dead units", "layers", {"model.args.bias": -6.0}, ("dead_units",), STUCK, curable=True),
    Fault(
        "saturated units", "layers", {"model.args.activation": "tanh", "model.args.gain": 60.0},
        ("saturated_units",), STUCK,
    ),
    Fault(
        "overfits", "layers", {"data.args.rows": 240, "data.args.noise": 0.25, "model.args.width": 256,
         "training.epochs": 60},
        ("overfitting",), ("convergence_stall",), curable=True,
    ),
    Fault(
        "underfits", "layers", {"model.args.width": 2, "model.args.depth": 1}, ("underfitting",), STUCK, curable=True,
    ),
    Fault("labels wrong", "rows", {}, ("label_noise",), ("overfitting", *STUCK), rows={"noise": 0.3}),
    Fault(
        "labels shuffled", "layers", {"data.args.shuffled": True, "training.epochs": 40, "model.args.width": 256},
        ("labels_unrelated",), ("overfitting", *STUCK),
    ),
    Fault("data leak", "rows", {}, ("data_leak",), curable=True, rows={"leak": True}, is_cost=True),
    Fault(
        "inputs unscaled", "table",
        {"data.args.scale": 3000.0, "data.args.offset": 3.0, "data.args.standardize": False},
        ("unscaled_inputs",), OUT_OF_HAND, curable=True,
    ),
    Fault(
        "targets unscaled", "numbers", {"data.args.scale": 90.0, "data.args.offset": 250.0},
        ("unscaled_targets",), OUT_OF_HAND, curable=True,
    ),
    Fault(
        "input not finite", "table",
        {"data": {"use": "samples.py:amounts", "args": {"nothing": 2}}, "model.use": "networks.py:Logarithmic",
         "model.args.inputs": 8},
        ("bad_samples", "non_finite_inputs"), ("nan_loss",), begins=_at_the_first_wild_loss,
    ),
    Fault(
        "rows wild", "layers", {"data.args.bad_rows": 2, "data.args.bad_value": 2000.0, "optimizer": _sgd(0.05)},
        ("bad_samples", "loss_spike"), OUT_OF_HAND, curable=True, begins=_at_the_first_wild_loss,
    ),
    Fault(
        "rate decays early", "layers",
        {"schedule": {"name": "exponential", "final_fraction": 1e-12}, "optimizer.learning_rate": 5e-4,
         "training.epochs": 12},
        ("rate_decays_early",), STUCK, curable=True, begins=_when_the_rate_is_spent,
    ),
    Fault(
        "decay too strong", "layers", {"optimizer.weight_decay": 100.0}, ("regularisation_too_strong",),
        (*STUCK, "dead_units"), curable=True,
    ),
    Fault(
        "dropout too strong", "layers", {"model.args.dropout": 0.97}, ("regularisation_too_strong",), STUCK,
        curable=True,
    ),
    Fault(
        "clipped too tight", "layers", {"training.clip_norm": 1e-5, "optimizer": _sgd(0.05)},
        ("clipping_too_tight",), (*STUCK, *LOW), curable=True,
    ),
    Fault(
        "batch too small", "table",
        {"loader.batch_size": 1, "optimizer": _sgd(0.05), "training.epochs": 4},
        ("batch_too_small", *HIGH), OUT_OF_HAND, curable=True,
    ),
    Fault(
        "loader slow", "vision", {"data": {"use": "samples.py:Slow", "args": {"rows": 1500}}, "training.epochs": 5,
         "model.args.channels": [32, 64]},
        ("slow_data_loading",), curable=True, is_cost=True,
    ),
    Fault(
        "memory grows", "table",
        {"model": None, "data": None, "task": {"use": "tasks.py:keeping"}, "metrics": [], "selection": None,
         "training.epochs": 60},
        ("memory_growth",), is_cost=True,
    ),
    Fault(
        "discriminator wins", "gan",
        {"task.args": {"generator_rate": 1e-5, "discriminator_rate": 5e-3, "radius": 4.0}}, ("discriminator_wins",),
    ),
    Fault("views collapse", "contrastive", {"optimizer": _sgd(30.0)}, HIGH, OUT_OF_HAND, curable=True),
    Fault(
        "classes unbalanced", "layers",
        {"data.args.rare": 0.12, "model.args.outputs": 2, "metrics": ["accuracy", "balanced_accuracy"],
         "training.epochs": 16, "optimizer.learning_rate": 3e-4},
        ("class_imbalance",), STUCK, curable=True, is_cost=True,
    ),
)  # fmt: skip
