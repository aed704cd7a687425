"""How a run's samples are fetched, and how many steps and which rates that makes."""

from __future__ import annotations

import torch

from trainwright.trainer.config import TrainingConfig
from trainwright.trainer.config.averaging import SwaSection
from trainwright.trainer.data.loader import BatchLoader
from trainwright.trainer.distributed.group import share_of
from trainwright.trainer.errors import ConfigurationError
from trainwright.trainer.objectives.work import Work
from trainwright.trainer.optimization.schedules import Schedule, build_schedule
from trainwright.trainer.optimization.swa_rate import SwaRate
from trainwright.trainer.reproducibility import seeding


def make_loader(config: TrainingConfig, work: Work, split: str) -> BatchLoader:
    """Return the loader of a split; only training shuffles and drops."""
    training = split == "train"
    return BatchLoader(
        work.splits.samples[split],
        work.batch_size,
        config.seed,
        shuffle=training and work.shuffle,
        drop_last=training and config.loader.drop_last,
        num_workers=config.loader.num_workers,
        prefetch_factor=config.loader.prefetch_factor,
        persistent_workers=config.loader.persistent_workers,
        pin_memory=config.loader.pin_memory and torch.cuda.is_available(),
        collate=work.collate,
        share=share_of(work.batch_size),
        split=seeding.SPLITS.index(split),
    )


def total_steps(config: TrainingConfig, loader: BatchLoader) -> int:
    """Return the optimizer steps of the whole schedule (a smoke run's bound does not bend it)."""
    steps = steps_per_epoch(config, loader) * config.training.epochs
    return min(steps, config.training.max_steps or steps)


def steps_per_epoch(config: TrainingConfig, loader: BatchLoader) -> int:
    """Return the optimizer steps of one epoch."""
    return -(-len(loader) // config.training.accumulation_steps)


def make_schedule(config: TrainingConfig, loader: BatchLoader) -> Schedule:
    """Return the schedule of the learning rate over the whole run; SWA bends its end.

    Raises:
        ConfigurationError: the run is over before the warmup is.
    """
    total = total_steps(config, loader)
    _require_end(config, total)
    schedule, section = build_schedule(config.schedule, total), config.weight_averaging
    if not isinstance(section, SwaSection):
        return schedule
    steps = steps_per_epoch(config, loader)
    start, anneal = section.start(config.training.epochs) * steps, section.anneal_epochs * steps
    return SwaRate(
        schedule.section, schedule.total_steps, schedule.warmup_steps, schedule, start, anneal,
        section.learning_rate_factor,
    )  # fmt: skip


def _require_end(config: TrainingConfig, total: int) -> None:
    warmup = config.schedule.warmup_steps or 0
    if warmup >= max(total, 1):
        raise ConfigurationError(
            f"`schedule.warmup_steps` = {warmup} never ends: the whole run has {total} steps.",
            remedy=f"Set it below {total} (a twentieth is usual), take it out (null) so that "
            "schedule.warmup_fraction holds, or train longer: training.epochs.",
            document="configs/schedules.md",
        )
