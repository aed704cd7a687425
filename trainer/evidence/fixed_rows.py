"""Fixed rows: validation and test rows as they come from the data, written as arrays that need no user code to read."""

from __future__ import annotations

import hashlib
import math
import shutil
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import IterableDataset

from trainwright.trainer.assembly.loaders import held_out_seed
from trainwright.trainer.assembly.raw_splits import RawSplits
from trainwright.trainer.base import seeding
from trainwright.trainer.base.errors import DataError, UserCodeError
from trainwright.trainer.base.section import Entry
from trainwright.trainer.clean_room.intervals import MIN_UNITS
from trainwright.trainer.data import rows
from trainwright.trainer.data.fingerprint import record_split
from trainwright.trainer.data.loader import announce_epoch
from trainwright.trainer.data.plain_values import KINDS, PlainSample, input_name, plain_sample, plain_tensor
from trainwright.trainer.data.splits import Splits
from trainwright.trainer.data.tensors import InMemory, TensorSamples, known_targets
from trainwright.trainer.data.text.blocks import TokenBlocks
from trainwright.trainer.evidence.array_file import ArrayFile, shapes_beside
from trainwright.trainer.losses import built_in_loss
from trainwright.trainer.losses.fit import counts_on_train
from trainwright.trainer.objectives.supervised import measure_targets
from trainwright.trainer.run import RunDirectory, RunSpecification
from trainwright.trainer.run.artifacts import ROWS, Array, FixedRows, FixedSplit
from trainwright.trainer.user_code.clock import clock
from trainwright.trainer.user_code.context import SEEDED, TASK_DATA_SEED
from trainwright.trainer.user_code.entries import is_entry
from trainwright.trainer.user_code.guard import user_code

SPLITS = ("validation", "test")
FIRST = 64
"""Train samples by which data are known again."""
TAKEN = ("target", "chosen", "groups")
"""Arrays beside the inputs, whose file names no input may have."""
Chosen = np.ndarray[Any, np.dtype[np.int64]] | None
"""Indices of the rows to keep, sorted, (rows,); None: all."""


class _TooManyError(Exception):
    """The rows of a split take more bytes than they may; `rows` of them took `bytes`."""

    def __init__(self, rows: int, taken: int) -> None:
        super().__init__(rows, taken)
        self.rows, self.bytes = rows, taken


def write_fixed_rows(run: RunDirectory, specification: RunSpecification, raw: RawSplits, draw: int) -> FixedRows:
    """Write the validation and test rows; the record has no digests yet.

    Args:
        raw: the splits as they come from the source.
        draw: the seed of a sample, where there are too many rows.

    Raises:
        TrainwrightError: the data is no plain values.
    """
    folder, root = run.artifacts / ROWS, Path(specification.code_root)
    shutil.rmtree(folder, ignore_errors=True)
    present = [name for name in SPLITS if name in raw.samples]
    splits: dict[str, FixedSplit] = {}
    left = specification.evaluation_rows_bytes
    for number, name in enumerate(present):
        split = _Split(raw, name, folder / name, root, held_out_seed(specification.config), draw)
        splits[name], taken = split.write(left // (len(present) - number))
        left -= taken
    scaling = None
    if specification.config.target_scaling is not None:
        with user_code("Reading the targets of the train split", root):
            by, parts = specification.config.target_scaling, raw.samples
            scaling = measure_targets(parts["train"], raw.data_seed, by, parts.get("validation")).as_dict()
    of_series = {} if raw.series is None else {"naive_errors": raw.series.naive_errors(raw.samples["train"].rows)}
    counts = _train_counts(raw, specification)
    return FixedRows(splits=splits, target_scaling=scaling, train_counts=counts, **of_series)


def first_samples(specification: RunSpecification, raw: RawSplits) -> list[str]:
    """Return the digests of the first train samples of the user's code, before any other is read; else none."""
    config = specification.config
    if config.trainer is not None or (config.data is not None and not is_entry(config.data.use)):
        return []
    seed = TASK_DATA_SEED if config.data is None else config.data.split.seed
    with user_code("Reading samples of train", Path(specification.code_root)):
        return record_split(raw.samples["train"], seed, most=FIRST).digests[:FIRST]


def require_same_samples(run: RunDirectory, splits: Splits) -> None:
    """Refuse data that differ from those of the process that fixed the rows. Raises UserCodeError."""
    first = run.part(FixedRows).first
    if first and first != splits.records["train"].digests[:FIRST]:
        raise UserCodeError(
            "The data are others in each process that reads them: the first train samples differed between two.",
            remedy=f"Your code draws their order or their values without a seed. {SEEDED}",
        )


def _train_counts(raw: RawSplits, specification: RunSpecification) -> list[list[float]]:
    """Return what the loss's weights are measured by; empty where they are not, or the split does not reveal it."""
    named, train = specification.config.loss, raw.samples["train"]
    entry = Entry(use=named) if isinstance(named, str) else named
    loss = None if is_entry(entry.use) else built_in_loss(entry.use, entry.args)
    if loss is None or loss.measure is None or isinstance(train, IterableDataset):
        return []
    with user_code("Reading the targets of the train split", Path(specification.code_root)):
        labels = {} if known_targets(train) is not None else record_split(train, raw.data_seed).labels
    try:
        counts = counts_on_train(loss, train, labels)
    except DataError:  # the run meets it too, and says so
        return []
    found: list[list[float]] = counts.reshape(2 if loss.task == "binary" else 1, -1).double().tolist()
    return found


@dataclass
class _Split:
    """Writes the rows of one split."""

    raw: RawSplits
    name: str
    folder: Path
    root: Path
    seed: int
    draw: int

    def __post_init__(self) -> None:
        self.samples = self.raw.samples[self.name]
        self.whole_groups = False
        """Whether the rows that are kept of too many are those of whole groups."""
        self.is_batched = self.raw.batch_size is None
        """Whether each item is a batch already."""

    def write(self, most_bytes: int) -> tuple[FixedSplit, int]:
        """Write all rows, or as many as take no more than so many bytes; return the record, and the bytes taken.

        Raises:
            DataError: the rows are no plain values.
        """
        size = self._size()
        chosen: Chosen = None
        while True:
            try:
                return self._write(size, chosen, most_bytes)
            except _TooManyError as error:
                before = size if chosen is None else len(chosen)
                count = min(int(0.95 * most_bytes * error.rows / max(error.bytes, 1)), before - 1)
                if self.is_batched or count < 1:
                    raise DataError(
                        f"The {self.name} rows take more than the {most_bytes} bytes that are kept of them.",
                        remedy="Return single samples with a batch_size, smaller ones, or ask the owner to raise "
                        "evaluation_rows_bytes in settings.yaml.",
                    ) from error
                chosen = self._drawn(size, count)

    def _drawn(self, size: int, count: int) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Return the sorted places of so many rows at most: of whole groups, where enough of these are so few rows."""
        generator = np.random.default_rng([self.draw, size, self.name == "test"])
        groups = self.raw.groups.get(self.name)
        self.whole_groups = False
        if groups is not None and self.raw.grouped_by == "groups":
            sizes = np.bincount(groups)
            order = generator.permutation(np.flatnonzero(sizes))
            kept = order[np.cumsum(sizes[order]) <= count]
            self.whole_groups = len(kept) >= MIN_UNITS
            if self.whole_groups:
                return np.flatnonzero(np.isin(groups, kept))
        return np.sort(generator.choice(size, count, replace=False))

    def _size(self) -> int:
        if not hasattr(self.samples, "__len__"):
            raise DataError(
                f"The {self.name} split has no length, so which rows it has is not known.",
                remedy="Give the data set a __len__ (for a stream: the number of samples it yields in one epoch).",
            )
        return len(self.samples)

    def _write(self, size: int, chosen: Chosen, most_bytes: int) -> tuple[FixedSplit, int]:
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        files: list[ArrayFile] = []
        first: PlainSample | None = None
        taken = 0
        with closing(self._pieces(chosen, most_bytes)) as pieces:
            for piece in pieces:
                with clock.paused():
                    if first is None:
                        first = piece
                        files = [ArrayFile(self.folder / f"{stem}.npy", stem) for stem in _stems(piece)]
                    self._add(files, first, piece)
                    taken = sum(file.bytes for file in files)
                if taken > most_bytes:
                    raise _TooManyError(files[0].rows, taken)
        for file in files:
            file.close()
        if first is None:
            raise DataError(f"The {self.name} split gave no rows.", remedy="Check the paths and filters of the data.")
        return self._recorded(size, chosen, first, files), taken

    def _pieces(self, chosen: Chosen, most_bytes: int) -> Generator[PlainSample, None, None]:
        samples = self.samples
        if type(samples) is TensorSamples and all(type(tensor) is torch.Tensor for tensor in samples.base):
            yield from self._in_memory(samples, chosen, most_bytes)
        elif isinstance(samples, InMemory):
            yield from map(self._plain, samples.each(range(len(samples)) if chosen is None else chosen.tolist()))
        else:
            what = f"Reading the rows of {self.name}"
            with user_code(what, self.root), seeding.preserved(), clock.each_call_alone():
                yield from map(self._plain, self._items(chosen))

    def _add(self, files: list[ArrayFile], first: PlainSample, piece: PlainSample) -> None:
        if [*piece.inputs] != [*first.inputs] or (piece.target is None) != (first.target is None):
            raise DataError(
                f"Row {files[0].rows} of {self.name} has the values {[*piece.inputs]}, the first {[*first.inputs]}.",
                remedy="Return the same values for every sample.",
            )
        if len({len(rows) for rows in piece.arrays}) > 1:
            raise DataError(
                f"An item of {self.name} is a batch whose parts have different numbers of rows.",
                remedy="Return batches whose tensors have equally many rows, or single samples with a batch_size.",
            )
        for file, added in zip(files, piece.arrays, strict=True):
            file.add(added)

    def _in_memory(self, samples: TensorSamples, chosen: Chosen, most_bytes: int) -> Iterator[PlainSample]:
        """Yield many rows at a time of tensors in memory."""
        samples = samples if chosen is None else samples.subset(torch.from_numpy(chosen))
        row_bytes = sum(tensor[:1].numel() * tensor.element_size() for tensor in samples.base)
        if row_bytes * len(samples) > most_bytes:
            raise _TooManyError(len(samples), row_bytes * len(samples))
        for _, tensors in rows.pieces(samples):
            arrays = [plain_tensor(tensor) for tensor in tensors]
            inputs, target = (arrays[:-1], arrays[-1]) if len(arrays) > 1 else (arrays, None)
            named = {input_name(number, len(inputs)): value for number, value in enumerate(inputs)}
            yield PlainSample(named, target)

    def _plain(self, item: Any) -> PlainSample:
        """Return the item's rows: one, or those of a batch."""
        plain = plain_sample(item)
        if not self.is_batched:
            return _as_batch(plain)
        if any(value.ndim == 0 for value in plain.arrays):
            raise DataError(
                f"An item of {self.name} is to be a batch and holds a single number.",
                remedy="Set loader.batch_size (or return batch_size) where items are single samples.",
            )
        return plain

    def _items(self, chosen: Chosen) -> Iterator[Any]:
        """Yield the user's samples, drawn as every run's evaluation draws them."""
        samples: Any = self.samples
        key = seeding.of_split(seeding.SPLITS.index(self.name))
        announce_epoch(samples, 0)
        if isinstance(samples, IterableDataset):
            seeding.seed_sample(self.seed, 0, *key)
            wanted = None if chosen is None else set(chosen.tolist())
            for number, sample in enumerate(islice(_called(iter(samples)), self._size())):
                if wanted is None or number in wanted:
                    yield sample
        else:
            for index in range(len(samples)) if chosen is None else chosen.tolist():
                clock.next_call()
                seeding.seed_sample(self.seed, 0, index, *key)
                yield samples[index]

    def _recorded(self, size: int, chosen: Chosen, first: PlainSample, files: list[ArrayFile]) -> FixedSplit:
        arrays = [Array(path=self._place(file.path), digest="", dtype="", shape=[]) for file in files]
        values: dict[str, Any] = {}
        if chosen is not None:
            np.save(self.folder / "chosen.npy", chosen.astype("<i8"))
            values["chosen"] = Array(path=self._place(self.folder / "chosen.npy"), digest="", dtype="", shape=[])
        if (groups := self.raw.groups.get(self.name)) is not None:
            np.save(self.folder / "groups.npy", (groups if chosen is None else groups[chosen]).astype("<i8"))
            values["groups"] = Array(path=self._place(self.folder / "groups.npy"), digest="", dtype="", shape=[])
            values |= {"grouped_by": self.raw.grouped_by, "whole_groups": self.whole_groups}
        if first.target is not None:
            values["target"] = arrays[-1]
        return FixedSplit(
            size=files[0].rows if self.is_batched else size,
            rows=files[0].rows,
            inputs=dict(zip(first.inputs, arrays, strict=False)),
            order=[*first.inputs],
            bytes_per_target=self.samples.bytes_per_token if type(self.samples) is TokenBlocks else 1.0,
            **values,
        )

    def _place(self, path: Path) -> str:
        return path.relative_to(self.folder.parents[1]).as_posix()


def _called(items: Iterator[Any]) -> Iterator[Any]:
    while True:
        clock.next_call()
        try:
            yield next(items)
        except StopIteration:
            return


def _stems(sample: PlainSample) -> list[str]:
    """Return the file names of a sample's arrays: the inputs' names where they can be file names."""
    named = [
        name if name.isascii() and name.isidentifier() and name not in TAKEN else f"column_{number}"
        for number, name in enumerate(sample.inputs)
    ]
    return [*named, *([] if sample.target is None else ["target"])]


def _as_batch(sample: PlainSample) -> PlainSample:
    inputs = {name: value[None] for name, value in sample.inputs.items()}
    return PlainSample(inputs, None if sample.target is None else sample.target[None])


def digested(record: FixedRows, artifacts: Path) -> FixedRows:
    """Return the record with the digest, type and shape of every file as they are now.

    Raises:
        DataError: a file is not where rows are written, or is no array of plain numbers.
    """
    splits = {}
    for name, split in record.splits.items():
        values = {key: getattr(split, key) for key in TAKEN if getattr(split, key) is not None}
        found = {key: _digested(value, artifacts) for key, value in values.items()}
        inputs = {key: _digested(value, artifacts) for key, value in split.inputs.items()}
        splits[name] = split.model_copy(update={"inputs": inputs, **found})
    return record.model_copy(update={"splits": splits})


def _digested(given: Array, artifacts: Path) -> Array:
    path, folder = artifacts / given.path, (artifacts / ROWS).resolve()
    if path.is_symlink() or not path.is_file() or not path.resolve().is_relative_to(folder):
        raise DataError(f"{given.path} is no file among the fixed rows.", remedy="Start the smoke run again.")
    with path.open("rb") as file:
        try:
            version = np.lib.format.read_magic(file)
            shape, by_columns, dtype = np.lib.format.read_array_header_1_0(file)
        except ValueError as error:
            raise DataError(f"{given.path} is no array: {error}"[:200], remedy="Start the smoke run again.") from error
        size = file.tell() + dtype.itemsize * math.prod(shape)
        if version != (1, 0) or by_columns or dtype.kind not in KINDS or size != path.stat().st_size:
            raise DataError(f"{given.path} is no array of plain numbers.", remedy="Start the smoke run again.")
        file.seek(0)
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    beside = {}
    if shapes_beside(path).exists():
        place = shapes_beside(path).relative_to(artifacts).as_posix()
        beside = {"shapes": _digested(Array(path=place, digest="", dtype="", shape=[]), artifacts)}
    return Array(path=given.path, digest=digest, dtype=str(dtype), shape=list(shape), **beside)
