"""The best epoch by the selection metric, and early stopping by the same."""

from __future__ import annotations

import math

from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.base.near import near_matches
from trainwright.trainer.engine.observers.observer import EpochResult, Observer
from trainwright.trainer.engine.progress import Best
from trainwright.trainer.engine.session import Session


class Selection(Observer):
    """Judges each validated epoch."""

    def epoch(self, session: Session, result: EpochResult) -> None:
        """Update the best and the count of epochs without improvement; end training when patience is over."""
        judged = result.validation
        if judged is None:
            return
        progress, config = session.progress, session.config
        value = _selected(config.selection.metric, judged)
        sign = 1.0 if config.selection.direction == "minimize" else -1.0
        best = progress.best
        better = math.isfinite(value) and (best is None or sign * value < sign * best.value)
        enough = math.isfinite(value) and (
            best is None or sign * value < sign * best.value - config.early_stopping.min_delta
        )
        if better:
            result.improved = True
            progress.best = Best(result.epoch, result.step, value, dict(judged))
        waited = result.epoch - (progress.history[-1]["epoch"] if progress.history else 0)
        session.schedule.judge(value, result.epoch, minimize=sign > 0)
        progress.epochs_without_improvement = 0 if enough else progress.epochs_without_improvement + waited
        progress.history.append(
            {"epoch": result.epoch, "step": result.step, "train": result.train, "validation": result.validation}
        )
        patience = config.early_stopping.patience_epochs
        over = config.early_stopping.enabled and progress.epochs_without_improvement >= patience
        if over and progress.stop_reason is None:
            progress.stop_reason = "early_stopping"


def _selected(name: str, values: dict[str, float]) -> float:
    if name not in values:
        raise ConfigurationError(
            f"`selection.metric` = {name!r} is not measured.{near_matches(name, values)}",
            remedy=f"Choose one of {', '.join(values)}, or add it to `metrics`.",
        )
    return values[name]
