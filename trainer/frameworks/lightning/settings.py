"""Settings of a lightning.Trainer that a run takes over, and those that no run can give exactly."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import torch
from torch.utils.data import DataLoader

from trainwright.trainer.frameworks.framework import refusal
from trainwright.trainer.frameworks.positioned import PositionedLoader


class TakenOver(Protocol):
    """The framework whose lightning.Trainer is taken over."""

    trainer: Any
    package: str
    changed: list[str]
    logged: dict[str, float]
    save_every_n_steps: int | None


DOCUMENT = "configs/own_lightning.md"
refused = partial(refusal, "The LightningModule cannot run as it is", DOCUMENT)
"""Makes the error for what no run can do, of the reason and the remedy."""
LEFT_OUT = {
    "ModelCheckpoint": "ModelCheckpoint is left out: the run's own checkpoints, which are verified and complete, take "
    "its place (checkpoints.* of the configuration), and the best one is exported.",
    "OnExceptionCheckpoint": "OnExceptionCheckpoint is left out: a run resumes from its own checkpoints.",
    "LightningModelCheckpoint": "ModelCheckpoint is left out: the run saves itself.",
}
"""Callbacks whose work the run does, and what is said of it."""
SILENT = {"TQDMProgressBar", "RichProgressBar", "ModelSummary", "RichModelSummary", "ProgressBar"}
"""Callbacks that only print."""
REFUSED = {
    "StochasticWeightAveraging": ("it replaces schedule and weights near the end and forgets them when it is resumed",
                                  "leave it out, and average as a `task` with weight_averaging: {name: swa}"),
    "WeightAveraging": ("it exchanges the weights around validation and checkpoints",
                        "leave it out, and average as a `task` with weight_averaging: {name: ema}"),
    "EMAWeightAveraging": ("it exchanges the weights around validation and checkpoints",
                           "leave it out, and average as a `task` with weight_averaging: {name: ema}"),
    "BatchSizeFinder": ("it changes the batch size before training", "set the batch size that it found"),
    "LearningRateFinder": ("it changes the rate before training", "set the rate that it found"),
    "Timer": ("it ends training by the clock, so no run could be replayed", "set limits.* of the configuration"),
    "GradientAccumulationScheduler": ("it changes what an update is from epoch to epoch",
                                      "set accumulate_grad_batches of the Trainer"),
}  # fmt: skip
"""Callbacks that no run can follow, why, and what to do."""


def require_possible(trainer: Any, module: Any) -> None:
    """Check that a run can drive this trainer. Raises ConfigurationError."""
    if trainer.global_step or trainer.state.fn is not None:
        raise refused("it was trained already", "return it before its fit() is called")
    devices = trainer.num_devices * trainer.num_nodes
    if devices > 1 or type(trainer.strategy).__name__ != "SingleDeviceStrategy":
        raise refused(
            f"it would train on {devices} device(s) with {type(trainer.strategy).__name__}",
            "make it with devices=1 and strategy='auto'",
        )
    impossible = {
        "overfit_batches": (trainer.overfit_batches, "replaces the loaders"),
        "reload_dataloaders_every_n_epochs": (trainer.reload_dataloaders_every_n_epochs, "makes new loaders"),
        "val_check_interval as a time": (getattr(trainer, "_val_check_time_interval", None), "goes by the clock"),
        "fast_dev_run": (trainer.fast_dev_run, "trains a few batches only; a smoke run does that"),
    }
    for name, (value, why) in impossible.items():
        if value:
            raise refused(f"its {name} {why}", f"leave {name} out")
    if not callable(getattr(module, "validation_step", None)) or _is_base(type(module).validation_step):
        raise refused(f"{type(module).__name__} has no validation_step, so nothing can be measured", "give it one")


def require_steps(trainer: Any, module: Any) -> None:
    """Check that its updates can be told and judged one by one. Raises ConfigurationError."""
    if not trainer.optimizers:
        raise refused("configure_optimizers returned none", "return an optimizer")
    for optimizer in trainer.optimizers:
        if isinstance(optimizer, torch.optim.LBFGS):
            raise refused(
                "its optimizer LBFGS measures the loss many times in one update, and no one of them could be told",
                "use another optimizer, or hand over the parts as a `task` with optimizer: {name: lbfgs}",
            )
    if "dataloader_iter" in inspect.signature(module.training_step).parameters:
        raise refused("training_step reads from the loader itself (dataloader_iter)", "let it take (batch, batch_idx)")


def take_over(framework: TakenOver) -> None:
    """Leave out what the run does itself, and note what is other. May be called again."""
    trainer, kept = framework.trainer, []
    for callback in trainer.callbacks:
        names = [ancestor.__name__ for ancestor in type(callback).__mro__]
        if found := next((name for name in names if name in REFUSED), None):
            why, remedy = REFUSED[found]
            raise refused(f"its callback {type(callback).__name__} cannot be followed: {why}", remedy)
        if found := next((name for name in names if name in LEFT_OUT), None):
            framework.save_every_n_steps = getattr(callback, "_every_n_train_steps", 0) or framework.save_every_n_steps
            _note(framework, LEFT_OUT[found])
        elif not SILENT.intersection(names):
            kept.append(callback)
    trainer.callbacks = kept
    _take_logs(framework)
    if trainer.num_sanity_val_steps:
        _note(framework, "num_sanity_val_steps is 0: a smoke run tries validation before any training.")
    if trainer.limit_val_batches != 1.0:
        _note(framework, "limit_val_batches is 1.0: every measured value is of the whole validation split.")
    trainer.num_sanity_val_steps, trainer.limit_val_batches = 0, 1.0


def _take_logs(framework: TakenOver) -> None:
    loggers = [each for each in framework.trainer.loggers if not getattr(each, "is_of_the_run", False)]
    for each in loggers:
        _note(
            framework,
            f"{type(each).__name__} is left out: the run records what self.log logs; what is written to "
            "self.logger.experiment directly is lost.",
        )
    if loggers or not framework.trainer.loggers:
        framework.trainer.loggers = [_logger_of(framework)]


def _logger_of(framework: TakenOver) -> Any:
    """Return a logger of Lightning's whose values become values of the run."""
    base = importlib.import_module(f"{framework.package}.loggers.logger").DummyLogger

    def log_metrics(_: Any, metrics: dict[str, float], step: int | None = None) -> None:  # noqa: ARG001
        for name, value in metrics.items():
            if name not in MEASURED_BY_US and not name.startswith(PREFIXES):
                framework.logged[name] = value

    return type("RunLogger", (base,), {"log_metrics": log_metrics, "is_of_the_run": True})()


PREFIXES = ("val_", "val/", "valid_", "valid/", "validation_", "validation/", "eval_", "eval/")
"""Of the values that a module logs in validation: a run has them without."""
MEASURED_BY_US = frozenset({"loss", "epoch", "step"})


def _note(framework: TakenOver, text: str) -> None:
    if text not in framework.changed:
        framework.changed.append(text)


def _is_base(function: Any) -> bool:
    return str(getattr(function, "__module__", "")).partition(".")[0] in {"lightning", "pytorch_lightning"}


# Loaders of a LightningModule or its data module: one for each split, made again over other samples.


@dataclass
class LimitedLoader(PositionedLoader):
    """The first batches of each epoch, as limit_train_batches asks for."""

    most: int | None = None

    def __len__(self) -> int:
        """Return the batches of an epoch."""
        return len(self.raw) if self.most is None else min(self.most, len(self.raw))

    def order(self, epoch: int) -> list[list[Any]]:
        """Return the indices of each batch of an epoch."""
        return super().order(epoch)[: self.most]


def limited(raw: Any, seed: int, limit: float) -> LimitedLoader:
    """Return the train loader, positioned.

    Args:
        limit: Lightning's limit_train_batches: a number of batches, or a share of them.
    """
    most = limit if isinstance(limit, int) else int(len(raw) * limit) if limit < 1.0 else None
    return LimitedLoader(raw, seed, most=most)


def one_loader(given: Any, name: str) -> Any:
    """Return the DataLoader of a split. Raises ConfigurationError where there are several, or another object."""
    found = given
    while isinstance(found, Mapping | list | tuple) and len(found) == 1:
        found = next(iter(found.values())) if isinstance(found, Mapping) else found[0]
    if not isinstance(found, DataLoader):
        kind = type(found).__name__
        raise refused(
            f"{name} returned a {kind}, of which a killed run could not find its place again",
            "return one torch DataLoader; join several data sets with ConcatDataset",
        )
    return found


def like(raw: Any, samples: Any) -> Any:
    """Return a loader of all these samples, in their order and to the last, that is otherwise like this one."""
    size = raw.batch_size or max((len(batch) for batch in raw.batch_sampler), default=1)
    return DataLoader(
        samples,
        batch_size=size,
        num_workers=raw.num_workers,
        collate_fn=raw.collate_fn,
        pin_memory=raw.pin_memory,
        worker_init_fn=raw.worker_init_fn,
        multiprocessing_context=raw.multiprocessing_context,
    )


def forget(owners: tuple[Any, ...], samples: Any) -> None:
    """Take a data set away from every object that has it as an attribute."""
    for owner in owners:
        for name, value in list(vars(owner).items()) if owner is not None else ():
            if value is samples:
                setattr(owner, name, None)
