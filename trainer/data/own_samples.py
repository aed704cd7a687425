"""Probes of a user's data set, before anything is made of it: each looks for one fault, and names it by its cause."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset

from trainwright.trainer.base import seeding
from trainwright.trainer.base.errors import DataError, TrainwrightError, UserCodeError
from trainwright.trainer.data.fingerprint import sample_digest
from trainwright.trainer.data.tensors import InMemory
from trainwright.trainer.user_code.clock import clock

MAX_HELD = 1 << 12
"""Values of a data set, its lists and dicts that are watched for changes in place."""
MAX_BYTES = 1 << 26
"""Of its tensors and arrays."""
MAX_PARTS = 6
"""Splits or arrays that a function may have meant to return side by side."""


def require_sound(samples: Any, name: str) -> None:
    """Look for the faults of a data set that no later error would name by its cause. `name` is its split's.

    Raises:
        UserCodeError, DataError: with the line to change.
    """
    if isinstance(samples, InMemory):
        return
    with seeding.preserved(), clock.each_call_alone():
        for probe in PROBES:
            probe(samples, name)


def not_a_data_set(data: Any, name: str) -> DataError | None:
    """Return the error for what was meant as several data sets or arrays, or is another library's table; else None."""
    kind, several = type(data).__name__, isinstance(data, tuple | list) and 1 < len(data) <= MAX_PARTS
    if several and all(isinstance(part, Dataset | DataLoader) for part in data):
        return DataError(
            f"`{name}` is a {kind} of {len(data)} data sets, which would be taken for {len(data)} samples.",
            remedy='Name the splits: return {"train": ..., "validation": ..., "test": ...}, each a data set.',
        )
    if several and all(hasattr(part, "shape") and len(part.shape) for part in data):
        rows = [len(part) for part in data]
        is_samples = isinstance(data, list) and len({tuple(part.shape) for part in data}) == 1  # a few, without targets
        if rows[0] != rows[1] or (len(data) > 2 and not is_samples):
            return DataError(
                f"`{name}` is a {kind} of {len(data)} arrays with {', '.join(map(str, rows))} rows; a pair (x, y) has "
                "equally many.",
                remedy='Return {"train": (x_train, y_train), "validation": (x_val, y_val)}, or '
                "torch.utils.data.TensorDataset of arrays that belong together row by row.",
            )
    if isinstance(data, tuple) and several and all(isinstance(part, list) for part in data):
        return DataError(
            f"`{name}` is a tuple of {len(data)} lists, which would be taken for {len(data)} samples.",
            remedy="Return a pair of arrays: torch.tensor(x), torch.tensor(y); or a list of samples: list(zip(x, y)).",
        )
    library = type(data).__module__.partition(".")[0]
    if library in {"pandas", "polars"}:
        return DataError(
            f"`{name}` is a {kind} of {library}, which is read by columns, not by rows.",
            remedy="Return a pair of arrays, (frame[features].to_numpy(), frame[target].to_numpy()); or read its file "
            "by a source: data: {use: csv, args: {path: ..., target: ...}}.",
        )
    return None


def holds_none(sample: Any) -> bool:
    """Return whether a sample is None, or one of its values is."""
    values = (
        sample.values() if isinstance(sample, Mapping) else sample if isinstance(sample, tuple | list) else (sample,)
    )
    return any(value is None for value in values)


def no_sample(index: int, name: str, samples: Any, sample: Any = None) -> UserCodeError:
    """Return the error for a sample that is or holds None, where nothing of the user's makes a batch without it."""
    what = "is None" if sample is None else "has None as one of its values"
    return UserCodeError(
        f"Sample {index} of {name} {what}: {_reader(samples)} returned nothing for it.",
        remedy="Return the sample on every path through the code. Leave out what cannot be read where the list of "
        "samples is made (__init__), or in a `collate` of a task.",
        details={"samples": [index]},
    )


def notes_on_draws(parts: Mapping[str, Any]) -> list[str]:
    """Return a sentence on each split whose samples draw from generators that the engine does not know."""
    found = []
    with seeding.preserved(), clock.each_call_alone():
        for name, samples in parts.items():
            if not isinstance(samples, InMemory) and len({sample_digest(_read(samples, 0)) for _ in range(2)}) > 1:
                found.append(
                    f"Sample 0 of {name}, read twice under one seed, has two values: {_reader(samples)} draws from a "
                    "generator of its own, a clock or a counter, so a resumed run ends otherwise. Draw from torch, "
                    "numpy.random or random, which are keyed to each sample."
                )
    return found


def _whole_length(samples: Any, name: str) -> None:
    """Refuse a `__len__` that is no whole number."""
    if not hasattr(samples, "__len__"):
        return
    try:
        len(samples)
    except (TypeError, ValueError) as error:
        method = type(samples).__len__
        value = f" returned {method(samples)!r}" if callable(method) else " is no method"
        raise UserCodeError(
            f"`__len__` of {type(samples).__name__}{value}; the number of samples of {name} is a whole number.",
            remedy="Define it as a method: def __len__(self): return len(self.rows). A quotient needs //, not /.",
        ) from error


def _defines_reading(samples: Any, name: str) -> None:
    """Refuse a map-style data set that only inherits how a sample is read."""
    if not isinstance(samples, IterableDataset) and getattr(type(samples), "__getitem__", None) is Dataset.__getitem__:
        raise UserCodeError(
            f"{type(samples).__name__} ({name}) defines no `__getitem__`, so no sample can be read.",
            remedy="Write def __getitem__(self, index): return inputs, target. A stream is a "
            "torch.utils.data.IterableDataset with __iter__ and __len__.",
        )


def _holds_its_last(samples: Any, name: str) -> None:
    """Refuse a data set that promises more samples than it has, before anything is made for each of them."""
    promised = 0 if isinstance(samples, IterableDataset) else len(samples)
    error = _missing(samples, promised - 1) if promised else None
    if error is None:
        return
    there, beyond = -1, promised - 1
    while beyond - there > 1:
        middle = (there + beyond) // 2
        there, beyond = (middle, beyond) if _missing(samples, middle) is None else (there, middle)
    raise DataError(
        f"The {name} split promises {promised:,} samples, and sample {promised - 1:,} is not there ({error}); the last "
        f"that is there is {there:,}."
        if there >= 0
        else f"None of the {promised:,} samples is there ({error}).",
        remedy=f"Let `__len__` of {type(samples).__name__} return the number of samples that it has.",
        details={"split": name, "promised": promised, "present": there + 1},
    )


def _missing(samples: Any, index: int) -> str | None:
    """Return the error of a sample that is not there; None where it is."""
    try:
        _read(samples, index)
    except (IndexError, KeyError) as error:
        if isinstance(error, IndexError) or error.args == (index,):  # another key is one that its own code lacks
            return f"{type(error).__name__}: {str(error)[:100]}"
        raise
    return None


def _begins_anew(samples: Any, name: str) -> None:
    """Refuse a stream that can be read once only: it returns one iterator, which goes on where it was."""
    if not isinstance(samples, IterableDataset) or iter(samples) is not iter(samples):
        return
    with suppress(StopIteration):
        if sample_digest(_read(samples, 0)) == sample_digest(_read(samples, 0)):
            return
    raise UserCodeError(
        f"`__iter__` of {type(samples).__name__} ({name}) returns the same iterator each time: the first epoch uses it "
        "up.",
        remedy="Begin anew in __iter__: write it as a generator (`yield`), or return iter(self.rows).",
    )


def _keeps_its_samples(samples: Any, name: str) -> None:
    """Refuse a data set that reading a sample changes, or that has no last one."""
    if not isinstance(samples, IterableDataset) and not len(samples):
        return
    try:
        first = _read(samples, 0)
        digest = sample_digest(first)
        before: list[tuple[str, Any, Any]] | None = _kept(samples)  # with what the first reading put into a cache
    except (TrainwrightError, IndexError, KeyError, StopIteration):
        before = None  # reading all of them names this one
    _holds_its_last(samples, name)
    if before is None:
        return
    again, is_shared = "", sample_digest(first) != digest
    try:
        _read(samples, 0, draw=1)  # what one draw sets in place stays beside what the next sets
        again = "has other values" if sample_digest(_read(samples, 0)) != digest else ""
    except Exception as error:  # noqa: BLE001 - the first reading raised nothing
        again = f"raises {type(error).__name__}: {str(error)[:100]}"
    is_shared, changed = is_shared or sample_digest(first) != digest, _put_back(before)
    if again == "has other values" and not is_shared:
        once, _ = sample_digest(_read(samples, 0)), _put_back(before)
        if not changed or sample_digest(_read(samples, 0)) != once:
            return  # the data put back, it differs all the same: by a generator of its own, told by `notes_on_draws`
    if not again and not is_shared:
        return
    raise UserCodeError(
        f"Sample 0 of the {name} split, read a second time under the same seed, {again or 'is the one read before'}: "
        f"{_reader(samples)} changes the data set in place{f' ({changed[0]})' if changed else ''}, so that it is "
        "another one after each reading.",
        remedy="Change a copy: x = self.x[index].clone() (of arrays .copy(), of dicts dict(row)), or write "
        "x = x + noise in place of x += noise.",
        details={"split": name, "changed": changed},
    )


PROBES: tuple[Callable[[Any, str], None], ...] = (_whole_length, _defines_reading, _begins_anew, _keeps_its_samples)


def _reader(samples: Any) -> str:
    while isinstance(inner := getattr(samples, "dataset", None), Dataset):  # the samples are a part of the user's
        samples = inner
    return f"{type(samples).__name__}.{'__iter__' if isinstance(samples, IterableDataset) else '__getitem__'}"


def _read(samples: Any, index: int, draw: int = 0) -> Any:
    clock.next_call()
    seeding.seed_sample(draw, 0, index)
    return next(iter(samples)) if isinstance(samples, IterableDataset) else samples[index]


def _kept(samples: Any) -> list[tuple[str, Any, Any]]:
    """Return the first tensors and arrays of a data set with copies, of one that is too large of its first rows."""
    held, room = [], MAX_BYTES
    for place, value in _within(samples):
        part = value[: max(1, room * len(value) // max(value.nbytes, 1))] if value.ndim else value
        if part.nbytes <= room:
            room -= part.nbytes
            held.append((place, part, part.detach().clone() if isinstance(part, Tensor) else part.copy()))
    return held


def _put_back(before: list[tuple[str, Any, Any]]) -> list[str]:
    """Write back what was changed in place; return the attributes that hold it."""
    changed = [each for each in before if sample_digest(each[1]) != sample_digest(each[2])]
    for _, value, copy in changed:
        (value.detach() if isinstance(value, Tensor) else value)[...] = copy
    return sorted({f"self.{place}" for place, _, _ in changed})


def _within(samples: Any) -> Iterator[tuple[str, Any]]:
    """Yield the tensors and arrays among the first MAX_HELD values of a data set, each with its attribute.

    Of containers only Python's own are looked into: the values of another mapping may be read from a file.
    """
    waiting = deque([("", samples)])
    for _ in range(MAX_HELD):
        if not waiting:
            return
        place, value = waiting.popleft()
        room = max(MAX_HELD - len(waiting), 0)  # attributes of a data set within are never too many
        if isinstance(value, Tensor | np.ndarray):
            if value.layout == torch.strided if isinstance(value, Tensor) else not value.dtype.hasobject:
                yield place, value
        elif isinstance(value, dict | list | tuple):
            waiting.extend((place, item) for item in islice(value.values() if isinstance(value, dict) else value, room))
        elif value is samples or isinstance(value, Dataset):
            waiting.extend((place or name, item) for name, item in getattr(value, "__dict__", {}).items())
