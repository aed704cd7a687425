"""Handing over: the user's function is called, its trainer recognised, and the test rows are taken from it."""

from __future__ import annotations

import copy
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from torch.utils.data import Subset

from trainwright.trainer.base import seeding
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.data.assemble import from_user, withhold_test
from trainwright.trainer.frameworks import DOCUMENT, framework_of
from trainwright.trainer.frameworks.framework import Framework
from trainwright.trainer.objectives.objective import Work
from trainwright.trainer.user_code.context import TASK_DATA_SEED
from trainwright.trainer.user_code.entries import call_entry, resolve_entry
from trainwright.trainer.user_code.guard import user_code

if TYPE_CHECKING:
    from trainwright.trainer.config import TrainingConfig

LEAST_TO_HALVE = 2


def hand_over(config: TrainingConfig, code_root: Path, *, keeps_test: bool) -> Work:
    """Return the work of `config.trainer`: the library's trainer with its model, data and optimizer.

    Args:
        keeps_test: whether the test rows stay; else they are gone when training begins.

    Raises:
        ConfigurationError, UserCodeError, DataError: as the part that is wrong deserves.
    """
    section = config.trainer
    assert section is not None, "called where there is one"  # noqa: S101
    framework, samples = handed_over(config, code_root)
    with user_code(f"Reading samples of trainer `{section.use}`", code_root):
        collates = framework.drops_samples
        splits = from_user(samples, None, source=section.use, seed=TASK_DATA_SEED, collates=collates)
    if not keeps_test:
        withhold_test(splits, is_built_in=False)
    with user_code(f"trainer `{section.use}`", code_root):
        framework.hold_back(samples.get("validation"))
        seeding.seed_everything(config.seed)
        framework.prepare(config.seed)
    return Work(
        model=framework.model,
        splits=splits,
        loss=None,
        metrics=[],
        batch_size=framework.plan.batch_size,
        collate=framework.collate,
        train_step=_made_by_the_library,
        validation_step=lambda _model, batch, _context: framework.measure(batch),
        optimizers=framework.optimizers,
        framework=framework,
    )


def handed_over(config: TrainingConfig, code_root: Path) -> tuple[Framework, dict[str, Any]]:
    """Call the user's function; return the framework around its trainer, and the samples of each split.

    The function returns the trainer, or the trainer and a test data set. Where there is none, half of the validation
    rows become the test, chosen at random and the same each time.

    Raises:
        ConfigurationError: no library is known that the trainer is of, or it has no data.
        UserCodeError: the function raised.
    """
    section = config.trainer
    assert section is not None, "called where there is one"  # noqa: S101
    what = f"trainer `{section.use}`"
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")  # TRL's trainers tell the hub what they train
    function = resolve_entry(section.use, code_root, key="trainer.use")
    given = call_entry(function, copy.deepcopy(section.args), what, code_root)
    with user_code(what, code_root):
        framework, test = framework_of(given, what).take(given)
        samples = framework.samples()
    if test is not None:
        samples["test"] = test
    for name, argument in (("train", "train_dataset"), ("validation", "eval_dataset")):
        if name not in samples:
            raise ConfigurationError(
                f"{what} returned a trainer without {argument}, so no {name} value can ever be measured.",
                remedy=f"Give it {argument}: rows that the other splits do not have.",
                document=DOCUMENT,
            )
    return framework, samples if "test" in samples else _with_test(samples, framework)


def _with_test(samples: dict[str, Any], framework: Framework) -> dict[str, Any]:
    held_out = samples["validation"]
    size = len(held_out) if hasattr(held_out, "__len__") else 0
    if size < LEAST_TO_HALVE:
        return samples
    shuffled = np.random.default_rng([TASK_DATA_SEED, size]).permutation(size)
    validation, test = np.sort(shuffled[: (size + 1) // 2]), np.sort(shuffled[(size + 1) // 2 :])
    framework.changed.append(
        f"No test data were handed over: {len(test)} of the {size} evaluation rows, chosen at random, are held back as "
        "the test; the trainer evaluates on the others."
    )
    return {**samples, "validation": _chosen(held_out, validation), "test": _chosen(held_out, test)}


def _chosen(samples: Any, indices: np.ndarray[Any, Any]) -> Any:
    is_theirs = type(samples).__module__.partition(".")[0] == "datasets"  # a datasets.Dataset stays one
    return samples.select(indices.tolist()) if is_theirs else Subset(samples, indices.tolist())


def _made_by_the_library(*_: Any) -> Any:
    raise AssertionError("the library's trainer makes the steps")
