"""Outputs of the evaluated model over held-out rows, in bounded number and time, as arrays."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import IterableDataset, Subset

from trainwright.trainer.assembly.loaders import make_loader
from trainwright.trainer.base.arrays import Array
from trainwright.trainer.base.errors import DataError
from trainwright.trainer.data.loader import BatchLoader
from trainwright.trainer.data.tensors import TensorSamples, batch_size, to_device
from trainwright.trainer.engine.session import Session
from trainwright.trainer.frameworks.framework import framework_in
from trainwright.trainer.jobs.evaluation.forms import NUMBERS, PLACES, Kept, form_of, kept_of
from trainwright.trainer.losses.loss import Compute

Call = Callable[[Any], tuple[Tensor, Tensor]]

MAX_ROWS = 20_000
MAX_SECONDS = 20.0
MAX_PROBABILITIES = 1_000_000
"""Rows times classes, up to which they are kept."""
SHIFTED = ("ForCausalLM", "LMHeadModel")
"""Ends of the names of models that predict a place's next token and shift the targets themselves."""


@dataclass
class Outputs:
    """Rows evaluated, by name as in run/evaluation.py."""

    form: str
    size: int | None
    """Rows of the split; None: a stream's."""
    arrays: dict[str, Array] = field(default_factory=dict)
    confusion: Array | None = None

    @property
    def rows(self) -> int:
        """Rows evaluated."""
        return len(self.arrays["row"])


def output_of(session: Session) -> Call:
    """Return what gives output and target, (batch, ...), of a batch as the loader gives it.

    What it returns raises DataError where the model's batches have none.
    """
    framework, objective = framework_in(session.work), session.validation_objective
    shifts = type(session.model).__name__.endswith(SHIFTED) and session.work.task is None

    def call(batch: Any) -> tuple[Tensor, Tensor]:
        moved = to_device(batch, session.device)
        if framework is not None:
            found = framework.measure(moved)
            output, target = found.get("output"), found.get("target")
        else:
            with session.autocast():
                outcome = objective(session.model, moved)
            output, target = outcome.output, outcome.target
        if not isinstance(output, Tensor) or not isinstance(target, Tensor) or len(output) != len(target):
            raise DataError(
                "The validation step gives no output and target of each row.",
                remedy='Return them beside the loss: {"loss": …, "output": …, "target": …}.',
            )
        return (output[:, :-1], target[:, 1:]) if shifts and output.dim() == 3 else (output, target)

    return call


def validation_loader(session: Session, places: Array | None = None, split: str = "validation") -> BatchLoader:
    """Return a loader of a split's rows in their order, in this process.

    Args:
        places: of the rows in the split, (rows,); None: all, or so many that are evenly spread.
    """
    loader = make_loader(session.config, session.work, split)
    return replace(
        loader, samples=_some(loader.samples, places), shuffle=False, num_workers=0, drop_last=False, share=None,
        pin_memory=False, persistent_workers=False, prefetch_factor=None,
    )  # fmt: skip


def places_of(samples: Any) -> Array:
    """Return the places in the split of the rows that `validation_loader` reads, (rows,)."""
    size = len(samples)
    if size <= MAX_ROWS or isinstance(samples, IterableDataset):
        return np.arange(size)
    return np.unique(np.linspace(0, size - 1, MAX_ROWS).round().astype(np.int64))


def _some(samples: Any, places: Array | None) -> Any:
    if places is None:
        places = places_of(samples)
        if len(places) == len(samples):
            return samples
    return samples.subset(places.tolist()) if isinstance(samples, TensorSamples) else Subset(samples, places.tolist())


def outputs(session: Session, call: Call, split: str = "validation") -> Outputs:
    """Return the outputs of the model, which is in evaluation mode, without gradients.

    Raises:
        DataError: there are no outputs, or none that can be read. And the user code's errors.
    """
    loader, work = validation_loader(session, split=split), session.work
    samples = work.splits.samples[split]
    form, rows, batches, own = None, 0, [], own_loss(session)
    for batch in _in_time(loader):
        output, target = call(batch)
        form = form or form_of(output, target, work.task)
        if form is None:
            raise DataError(
                f"Outputs {tuple(output.shape)} for targets {tuple(target.shape)} are neither classes nor numbers.",
                remedy="The metrics of validation stand in run_status; these rows are not shown one by one.",
            )
        if form == PLACES and (work.step or work.train_step or work.validation_step):
            raise DataError(
                "Which places of a row count is known to your step alone: a row's loss without it would count padding.",
                remedy="Give the loss in the configuration (`loss: file.py:function`), and rows are shown by it.",
            )
        kept = kept_of(form, output, target, own)
        batches.append((rows, kept))
        rows += len(kept.counted)
    if form is None or not any(len(kept.loss) for _, kept in batches):
        raise DataError(f"No row of {split} has a target.", remedy=f"Set data.split.{split} above 0.")
    return _joined(form, batches, places_of(samples), None if loader.is_stream else len(samples))


def own_loss(session: Session) -> Compute | None:
    """Return the loss that the user's code computes of outputs and targets; None of another."""
    loss = session.work.loss
    return loss.compute if loss is not None and loss.user_defined else None


def _in_time(loader: BatchLoader) -> Iterator[Any]:
    """Yield batches until enough rows or seconds are spent; the first always."""
    until, seen = time.monotonic() + MAX_SECONDS, 0
    for batch in islice(loader.batches(0), MAX_ROWS):
        yield batch
        seen += batch_size(batch)
        if seen >= MAX_ROWS or time.monotonic() > until:
            return


def _joined(form: str, batches: list[tuple[int, Kept]], places: Array, size: int | None) -> Outputs:
    kept = [one for _, one in batches]
    numbers = torch.cat([start + torch.nonzero(one.counted)[:, 0] for start, one in batches]).numpy()
    found = Outputs(form, size, {"row": places[numbers] if form != PLACES or len(places) > numbers.max() else numbers})
    for name in ("target", "prediction", "probability", "loss"):
        values = [getattr(one, name) for one in kept]
        if all(value is not None for value in values):
            found.arrays[name] = torch.cat(values).numpy()
    if form == NUMBERS and found.arrays.get("target", np.empty(0)).ndim > 1:
        found.arrays["loss"] = in_deviations(found.arrays["prediction"], found.arrays["target"])
    if found.arrays.get("probability", np.empty(0)).size > MAX_PROBABILITIES:
        found.arrays["confidence"] = found.arrays.pop("probability").max(axis=1)
    confusions = [one.confusion for one in kept]
    if all(one is not None for one in confusions):
        found.confusion = torch.stack([one for one in confusions if one is not None]).sum(0).numpy()
    return found


def in_deviations(predicted: Array, wanted: Array) -> Array:
    """Return each row's mean squared error, (rows,), of several targets (rows, targets), each in its own deviation."""
    scale = wanted.std(axis=0, dtype=np.float64)
    found: Array = (((predicted - wanted) / np.where(scale > 0, scale, 1.0)) ** 2).mean(axis=1)
    return found
