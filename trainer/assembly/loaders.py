"""Loaders of a run: the order of its samples, its steps and its rates."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import torch
from torch.utils.data import IterableDataset

from trainwright.trainer.base import seeding
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.config import TrainingConfig
from trainwright.trainer.data import curriculum
from trainwright.trainer.data.curriculum import Curriculum, ranked, scored
from trainwright.trainer.data.loader import BatchLoader
from trainwright.trainer.data.sections import DIFFICULTIES
from trainwright.trainer.frameworks.framework import framework_in
from trainwright.trainer.frameworks.positioned import FrameworkLoader
from trainwright.trainer.objectives.objective import Work
from trainwright.trainer.optimization.schedules.schedule import Schedule, SwaRate
from trainwright.trainer.optimization.weight_averaging import SwaSection
from trainwright.trainer.strategies.group import share_of
from trainwright.trainer.user_code.context import TASK_DATA_SEED
from trainwright.trainer.user_code.entries import call_entry, is_entry, resolve_entry
from trainwright.trainer.user_code.guard import user_code


def build_curriculum(config: TrainingConfig, work: Work, code_root: Path) -> Curriculum | None:
    """Return the curriculum of the train split, its difficulties measured; None where the configuration has none.

    Raises:
        ConfigurationError: the samples have no order to choose.
        DataError, UserCodeError: the difficulty cannot be determined.
    """
    section, samples = config.curriculum, work.splits.samples["train"]
    if section is None:
        return None
    if isinstance(samples, IterableDataset) or not work.shuffle:
        why = "comes as a stream" if isinstance(samples, IterableDataset) else "is not shuffled (the task's `shuffle`)"
        raise ConfigurationError(
            f"A curriculum chooses the order of the train samples, and the train split {why}.",
            remedy="Take curriculum out (null), or hand over a data set with __getitem__ that may be shuffled.",
        )
    seed = config.data.split.seed if config.data is not None else 0
    if is_entry(section.use):
        function = resolve_entry(section.use, code_root, key="curriculum.use")
        what = f"curriculum `{section.use}`"
        if isinstance(function, type):
            function = call_entry(function, section.args, what, code_root)
        elif section.args:
            function = partial(function, **section.args)
        with user_code(what, code_root):
            scores = scored(samples, seed, function)
    else:
        with user_code("Reading the train samples for the curriculum", code_root):
            scores = getattr(curriculum, DIFFICULTIES[section.use])(samples, seed)
    return Curriculum(section, config.training.epochs, config.seed, ranked(scores, hardest_first=section.hardest_first))


def held_out_seed(config: TrainingConfig) -> int:
    """Return what the random draws of validation and test samples are keyed to: not the run's seed.

    Runs that differ in their seed are evaluated on the same rows: those that planning fixed.
    """
    return config.data.split.seed if config.data is not None else TASK_DATA_SEED


def make_loader(config: TrainingConfig, work: Work, split: str) -> BatchLoader:
    """Return the loader of a split; only training shuffles and drops."""
    training = split == "train"
    if training and (framework := framework_in(work)) is not None:
        return FrameworkLoader(
            work.splits.samples[split], work.batch_size, config.seed, shuffle=True, collate=work.collate,
            positioned=framework.loader,
        )  # fmt: skip
    by_length = training and work.shuffle and config.loader.shuffle == "length"
    if by_length and (not hasattr(work.splits.samples[split], "lengths") or work.batch_size is None):
        raise _without_lengths(config)
    return BatchLoader(
        work.splits.samples[split],
        work.batch_size,
        config.seed if training else held_out_seed(config),
        shuffle=training and work.shuffle,
        drop_last=training and config.loader.drop_last,
        num_workers=config.loader.num_workers,
        prefetch_factor=config.loader.prefetch_factor,
        persistent_workers=config.loader.persistent_workers,
        pin_memory=config.loader.pin_memory and torch.cuda.is_available(),
        collate=work.collate,
        share=share_of(work.batch_size),
        split=seeding.SPLITS.index(split),
        by_blocks=None if config.loader.shuffle == "auto" else config.loader.shuffle == "blocks",
        by_length=by_length,
    )


def _without_lengths(config: TrainingConfig) -> ConfigurationError:
    source = config.data.use if config.data is not None else "the task"
    return ConfigurationError(
        f"`loader.shuffle` = 'length' puts texts of about one length together, and the samples of {source} are all of "
        "one length, or do not say theirs.",
        remedy="Set loader.shuffle auto; or give texts of their own lengths (a table with text and target, "
        "token_classification, seq2seq, question_answering, multiple_choice), or a data set with `lengths` (a tensor).",
        document="configs/performance.md",
        details={"changes": {"loader.shuffle": "auto"}},
    )


def total_steps(config: TrainingConfig, loader: BatchLoader) -> int:
    """Return the optimizer steps of the full schedule (a smoke run's bound does not change it)."""
    steps = steps_per_epoch(config, loader) * config.training.epochs
    return min(steps, config.training.max_steps or steps)


def steps_per_epoch(config: TrainingConfig, loader: BatchLoader) -> int:
    """Return the optimizer steps of one epoch."""
    return -(-len(loader) // config.training.accumulation_steps)


def make_schedule(config: TrainingConfig, loader: BatchLoader) -> Schedule:
    """Return the schedule of the learning rate over the full run; SWA replaces its end.

    Raises:
        ConfigurationError: the run is over before the warmup is.
    """
    total = total_steps(config, loader)
    _require_end(config, total)
    schedule, section = config.schedule.build(total), config.weight_averaging
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
