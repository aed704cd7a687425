"""Inputs and outputs of the model: values that are no numbers, rows that make no difference, splits on other scales."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor

from trainwright.trainer.watch.inspector import Finding
from trainwright.trainer.watch.silent.calls import Calls
from trainwright.trainer.watch.silent.record import StepRecord
from trainwright.trainer.watch.silent.tensors import Facts

FAR = 3.0
"""Standard deviations between two means, or factor between two standard deviations."""
MAX_FEATURES_SHARE = 0.5
"""Of the features that have to be far apart: one that grows with time is no other preprocessing."""
MIN_ROWS = 16


def bad_inputs(history: Sequence[StepRecord]) -> Iterator[Finding]:
    """Rows of the first batches that hold NaN or infinity."""
    record = history[-1]
    for call in record.calls.outermost:
        for name, facts in call.inputs.items():
            if facts.bad_rows:
                numbers = facts.bad_rows
                known = len(record.batches) == 1 and len(record.indices) == facts.rows
                rows = tuple(record.indices[number] for number in numbers) if known else tuple(numbers)
                where = "" if known else " (numbers in the batch)"
                detail = f"input {name} holds NaN or infinity in {len(numbers)} of {facts.rows} rows{where}"
                yield Finding("non_finite_inputs", len(numbers) / facts.rows, rows=rows[:20], detail=detail)
                return


def wild_inputs(history: Sequence[StepRecord]) -> Iterator[Finding]:
    """Rows of the first batches most of whose features lie far outside those of the other rows."""
    record = history[-1]
    for call in record.calls.outermost:
        for name, facts in call.inputs.items():
            if call.with_gradients and facts.wild_rows:
                known = len(record.batches) == 1 and len(record.indices) == facts.rows
                rows = tuple(record.indices[number] for number in facts.wild_rows) if known else tuple(facts.wild_rows)
                where = "" if known else " (numbers in the batch)"
                detail = f"most features of {len(rows)} of the {facts.rows} rows of input {name} lie far outside{where}"
                yield Finding("bad_samples", facts.wildest, rows=rows[:20], detail=detail)
                return


def constant_output(history: Sequence[StepRecord]) -> Iterator[Finding]:
    """Outputs, or inputs of the first layers, that are the same for every row.

    Of outputs not before an update has moved a head that began at zero.
    """
    calls = [call for call in history[-1].calls.outermost if call.with_gradients]
    if calls and all(call.inner and all(call.inner) for call in calls):
        detail = "the model's first layers are given the same for every row of the batch, and the model is not"
        yield Finding("constant_output", 1.0, detail=detail)
    elif calls and all(call.alike for call in calls) and _has_moved(history) and _was_alike(history[-2]):
        name = calls[0].module or "the model"
        detail = f"the output of {name} is the same for every row of the batch, and the inputs are not"
        yield Finding("constant_output", 1.0, tuple(call.module for call in calls if call.module), detail=detail)


def _has_moved(history: Sequence[StepRecord]) -> bool:
    return any(u.rate > 0 and u.parameters - u.missing for record in history[:-1] for u in record.updates)


def _was_alike(record: StepRecord) -> bool:
    return all(call.alike for call in record.calls.outermost if call.with_gradients)


def first_inputs(calls: Calls) -> dict[str, Facts]:
    """Return the facts of what each module was first given by user code, by module and argument."""
    found: dict[str, Facts] = {}
    for call in calls.outermost:
        for name, facts in call.inputs.items():
            found.setdefault(f"{call.module}({name})" if call.module else name, facts)
    return found


def other_preprocessing(trained: Mapping[str, Facts], seen: Mapping[str, Facts], where: str) -> Finding | None:
    """Compare what the model was given in training with what it is given elsewhere, by features.

    Args:
        where: in words, such as "in validation".
    """
    for name in trained.keys() & seen.keys():
        one, other = trained[name], seen[name]
        if one.dtype != other.dtype and "bool" not in {one.dtype, other.dtype}:
            detail = f"input {name} is {one.dtype} in training and {other.dtype} {where}"
            return Finding("preprocessing_mismatch", FAR, detail=detail)
        if (apart := _apart(one, other)) is not None:
            distance, detail = apart
            return Finding("preprocessing_mismatch", distance, detail=f"input {name} has {detail} {where}")
    return None


def _apart(one: Facts, other: Facts) -> tuple[float, str] | None:
    """Return how far apart two sets of features are, and in words; None where the rows are too few or alike."""
    if one.mean is None or one.std is None or other.mean is None or other.std is None:
        return None
    images = len(one.shape) == 3
    if min(one.rows, other.rows) < (2 if images else MIN_ROWS) or one.mean.shape != other.mean.shape:
        return None
    live = (one.std > 0) & (other.std > 0)
    if not live.any():
        return None
    first, second = one.std[live], other.std[live]
    means = (one.mean - other.mean)[live].abs() / torch.maximum(first, second)
    spreads = torch.maximum(first / second, second / first)
    far = torch.maximum(means, spreads) > FAR
    if len(far) < 2 and not images and not (means.max() > 2 * FAR or spreads.max() > 2 * FAR):
        return None
    if far.double().mean() <= MAX_FEATURES_SHARE:
        return None
    return _distance(means, spreads), _words(one.mean[live], first, other.mean[live], second)


def _distance(means: Tensor, spreads: Tensor) -> float:
    value = float(torch.maximum(means, spreads).median())
    return value if math.isfinite(value) else 1e6


def _words(mean: Tensor, std: Tensor, other_mean: Tensor, other_std: Tensor) -> str:
    at = int(torch.maximum((mean - other_mean).abs() / std, other_std / std).argmax())
    return f"mean {mean[at]:.3g} and deviation {std[at]:.3g} in training, {other_mean[at]:.3g} and {other_std[at]:.3g}"
