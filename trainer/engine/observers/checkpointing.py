"""Selection of the best epoch, early stopping, and the best, last and periodic checkpoints."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from trainwright.trainer.base.errors import ConfigurationError, DivergenceError, near_matches
from trainwright.trainer.checkpoints.index import checkpoint_name
from trainwright.trainer.checkpoints.store import DirectoryStore
from trainwright.trainer.engine.loop import lower_rate
from trainwright.trainer.engine.observers.observer import EpochResult, Observer, StepResult
from trainwright.trainer.engine.session import Best, Session
from trainwright.trainer.run.evidence import rank


class Selection(Observer):
    """Compares each validated epoch with the best so far: by the selection metric, of equal values by the loss."""

    def epoch(self, session: Session, result: EpochResult) -> None:
        """Update the best and the count of epochs without improvement; end training when patience is over."""
        metrics = result.validation
        if metrics is None:
            return
        progress, config = session.progress, session.config
        value = _selected(config.selection.metric, metrics, is_own=config.trainer is not None)
        direction, best = config.selection.direction, progress.best
        sign = 1.0 if direction == "minimize" else -1.0
        enough = math.isfinite(value) and (
            best is None or sign * value < sign * best.value - config.early_stopping.min_delta
        )
        own = rank(value, metrics.get("loss"), direction)
        if math.isfinite(value) and (best is None or own < rank(best.value, best.metrics.get("loss"), direction)):
            result.improved = True
            progress.best = Best(result.epoch, result.step, value, dict(metrics))
        waited = result.epoch - (progress.history[-1]["epoch"] if progress.history else 0)
        session.schedule.observe(value, result.epoch, minimize=sign > 0)
        progress.epochs_without_improvement = 0 if enough else progress.epochs_without_improvement + waited
        progress.history.append(
            {"epoch": result.epoch, "step": result.step, "train": result.train, "validation": result.validation}
        )
        patience = config.early_stopping.patience_epochs
        over = config.early_stopping.enabled and progress.epochs_without_improvement >= patience
        if over and progress.stop_reason is None:
            progress.stop_reason = "early_stopping"


def _selected(name: str, values: dict[str, float], *, is_own: bool) -> float:
    if name not in values:
        add = "let the trainer's own metrics (compute_metrics) give it too" if is_own else "add it to `metrics`"
        raise ConfigurationError(
            f"`selection.metric` = {name!r} is not measured.{near_matches(name, values)}",
            remedy=f"Choose one of {', '.join(values)}, or {add}.",
        )
    return values[name]


class Checkpointing(Observer):
    """Writes the state of the run where the configuration asks for it, and keeps the tags."""

    def __init__(self) -> None:
        self.saved: tuple[int, int] | None = None
        """(epoch, batch) position of the newest checkpoint."""
        self.last: str | None = None
        self.tried = False
        """Whether the user's state was checked after a step of this attempt."""

    def start(self, session: Session) -> None:
        """Make the tags fit the resumed position, and clear a killed writer's leftovers."""
        progress = session.progress
        if progress.step:
            self.saved, self.last = (progress.epoch, progress.batch), checkpoint_name(progress.step)
            self._tag(session)

    def step(self, session: Session, result: StepResult) -> None:
        """Renew the last checkpoint within an epoch where so configured; at its end `epoch` does.

        Raises:
            UserCodeError: after the first step rather than after an epoch, the state that user code keeps has no form
                that a resumed run could load.
        """
        if not self.tried:
            session.require_resumable()
            self.tried = True
        if session.saves_at(result.step):  # the recorder has read and written everything up to here
            self.save(session)

    def epoch(self, session: Session, result: EpochResult) -> None:
        """Save when the epoch is the best, a periodic one, or simply the last so far."""
        section, progress = session.config.checkpoints, session.progress
        name = checkpoint_name(progress.step)
        best = result.improved and section.save_best
        periodic = result.epoch % section.checkpoint_every_n_epochs == 0 and progress.batch == 0
        if best and progress.best is not None:
            progress.best.checkpoint = name
        if periodic and name not in progress.periodic:
            progress.periodic.append(name)
        if best or periodic or section.save_last:
            self.save(session)

    def stop(self, session: Session, reason: str) -> None:  # noqa: ARG002 - the moment's form
        """Save a position that has no checkpoint: of a run that was stopped within an epoch."""
        progress = session.progress
        if progress.step and self.saved != (progress.epoch, progress.batch):
            self.save(session)

    def save(self, session: Session) -> None:
        """Write a checkpoint of the present state and update the tags; older ones without a tag are removed."""
        model, state, tensors = session.state()
        require_finite(session, model, session.infinite_buffers)
        progress, specification = session.progress, session.specification
        manifest: dict[str, Any] = {
            "step": progress.step,
            "epoch": progress.epoch,
            "run_id": specification.run_id,
            "config_digest": specification.config_digest,
        }
        if base := state.get("frozen_base"):
            manifest["frozen_base"] = {
                "digest": base["digest"], "tensors": len(base["tensors"]), "bytes": base["bytes"]
            }  # fmt: skip
        manifest = DirectoryStore(session.run).save(model=model, tensors=tensors, state=state, manifest=manifest)
        name = self.last = checkpoint_name(progress.step)
        self.saved = progress.epoch, progress.batch
        tagged = self._tag(session)
        session.run.append_event(
            "checkpoint",
            name=name,
            tags=[tag for tag, names in tagged.items() if name in names],
            step=progress.step,
            epoch=progress.epoch,
            digest=manifest["digest"],
            bytes=sum(file["bytes"] for file in manifest["files"].values()),
        )

    def _tag(self, session: Session) -> dict[str, list[str | None]]:
        progress = session.progress
        best = progress.best.checkpoint if progress.best is not None else None
        DirectoryStore(session.run).tag(best=best, last=self.last, periodic=progress.periodic)
        return {"best": [best], "last": [self.last], "periodic": [*progress.periodic]}


def require_finite(session: Session, model: dict[str, Tensor], infinite_buffers: frozenset[str] = frozenset()) -> None:
    """Raise DivergenceError rather than save weights that are not finite.

    Floating-point buffers count too; those that had infinities when training began may keep them.
    """
    for name, value in model.items():
        bad = torch.isnan(value) if name in infinite_buffers else ~torch.isfinite(value)
        if (value.is_floating_point() or value.is_complex()) and bool(bad.any()):
            infinite = bad.sum().item()
            raise DivergenceError(
                f"{name} has {infinite} values that are not finite after step {session.progress.step}; not saved.",
                remedy="Lower optimizer.learning_rate tenfold and set training.clip_norm 1.0.",
                document="diagnostics/nan_loss.md",
                details={
                    "step": session.progress.step,
                    "epoch": session.progress.epoch,
                    "batch_indices": [],
                    "loss": repr(math.nan),
                    "parameter": name,
                    **lower_rate(session),
                },
            )
