"""Two other tools beside the monitor: their log-only rules on the logs of the same runs."""

from __future__ import annotations

import json
import subprocess
from collections import defaultdict
from pathlib import Path
from typing import Any

from trainwright.trainer.run import RunDirectory

COLUMNS = {
    "train/loss": "loss",
    "validation/loss": "eval_loss",
    "train/gradient_norm": "grad_norm",
    "train/learning_rate": "lr",
}
"""Our series by the name that both tools read."""
DIVERGED = frozenset({
    "non_finite", "divergence", "grad_explosion", "spikes", "TP-NAN", "TP-NAN-GRAD", "TP-DIVERGE", "TP-GRAD-SPIKE",
})  # fmt: skip
NOT_LEARNING = frozenset({
    "no_learning", "lr_plateau", "TP-FLAT", "TP-DEAD-RUN", "TP-ZERO-GRAD", "TP-ZERO-LR", "TP-ZERO-LR-PARTIAL",
})  # fmt: skip
GENERALISING = frozenset({"overfitting", "val_below_train", "TP-OVERFIT"})
COUNTS_AS = {
    "learning_rate_too_high": DIVERGED,
    "learning_rate_too_low": NOT_LEARNING,
    "exploding_gradients": DIVERGED,
    "vanishing_gradients": NOT_LEARNING,
    "dead_units": NOT_LEARNING,
    "saturated_units": NOT_LEARNING,
    "overfitting": GENERALISING,
    "underfitting": NOT_LEARNING,
    "label_noise": GENERALISING,
    "labels_unrelated": GENERALISING | NOT_LEARNING,
    "data_leak": GENERALISING,
    "unscaled_inputs": DIVERGED,
    "unscaled_targets": DIVERGED,
    "bad_samples": DIVERGED,
    "rate_decays_early": NOT_LEARNING,
    "regularisation_too_strong": NOT_LEARNING,
    "clipping_too_tight": NOT_LEARNING,
    "batch_too_small": DIVERGED | NOT_LEARNING,
    "slow_data_loading": frozenset({"step_time", "TP-LOADER-BOUND"}),
    "memory_growth": frozenset({"memory_growth"}),
    "discriminator_wins": DIVERGED,
    "class_imbalance": NOT_LEARNING,
}
"""Of their names, whatever could be meant by a cause: they name symptoms."""


def write_log(run: RunDirectory, folder: Path, name: str) -> None:
    """Write a run's series as JSON Lines, one object a step."""
    rows: dict[int, dict[str, Any]] = defaultdict(dict)
    for key, column in COLUMNS.items():
        for point in run.metrics().series(key):
            rows[point.step][column] = point.value
    folder.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({"step": step, **rows[step]}) for step in sorted(rows)]
    (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n")


def judged_by(tool: str, folder: Path, environments: Path) -> dict[str, list[str]] | None:
    """Return what a tool says of each log; None where it is not installed."""
    python = environments / tool / "bin" / "python"
    if not python.exists():
        return None
    asked = [str(python), str(Path(__file__).with_name("logs_judged.py")), tool, str(folder)]
    found: dict[str, list[str]] = json.loads(subprocess.run(asked, capture_output=True, text=True, check=True).stdout)
    return found
