"""Loader that another library reads its batches from: positioned at any (epoch, batch), without a state of its own.

It takes a torch `DataLoader` apart. The order of an epoch is that of the DataLoader's own batch sampler, listed under
generators keyed to (seed, epoch); draws of samples and of the collator are keyed as those of `data.loader`. Nothing is
read ahead in this process, and nothing of it changes the generators that training draws from.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset, Subset, TensorDataset

from trainwright.trainer.base import seeding
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.data.loader import BatchLoader, KeyedCollate, KeyedSamples, Placed, announce_epoch
from trainwright.trainer.frameworks import DOCUMENT
from trainwright.trainer.frameworks.generators import OwnDraws, generators_in


class _Samples(KeyedSamples):
    """Samples that are keyed one by one."""

    def preserved(self) -> AbstractContextManager[None]:
        """Return a quick context: a resumed run puts the generators back before it reads."""
        return seeding.quickly_preserved()


class _Collate(KeyedCollate):
    """The user's collator."""

    def preserved(self) -> AbstractContextManager[None]:
        """Return a quick context: a resumed run puts the generators back before it reads."""
        return seeding.quickly_preserved()


class _PlainSamples(KeyedSamples):
    """Samples that draw nothing when they are read, fetched as the data set likes best."""

    def __getitems__(self, places: list[tuple[int, Any]]) -> list[Any]:
        epoch, indices = places[0][0], [index for _, index in places]
        if epoch != self.epoch:
            self.epoch = epoch
            announce_epoch(self.samples, epoch)
        many = getattr(self.samples, "__getitems__", None)
        items = many(indices) if many is not None else [self.samples[index] for index in indices]
        return Placed(items, places[0]) if isinstance(items, list) else items


class _BatchedSamples(_PlainSamples):
    """Samples of a data set of the user's that reads whole batches: draws are keyed to the batch's first sample."""

    def __getitems__(self, places: list[tuple[int, Any]]) -> list[Any]:
        with seeding.quickly_preserved():
            seeding.seed_sample(self.seed, *places[0], *seeding.of_split(self.split))
            return super().__getitems__(places)


@dataclass
class PositionedLoader:
    """The training batches of a DataLoader, from any (epoch, batch).

    Attributes:
        raw: the DataLoader as the library made it, not prepared for devices or processes.
        seed: the run's.
        waited: is told the seconds that each batch was waited for.
    """

    raw: DataLoader[Any]
    seed: int
    waited: Callable[[float], None] = field(default=lambda _: None)
    epoch: int = 0
    offset: int = 0
    """First batch of the next iteration; the one after begins at 0."""
    _listed: tuple[int, list[Any]] | None = None

    def __post_init__(self) -> None:
        """Refuse what has no position. Raises ConfigurationError."""
        if not isinstance(self.raw, DataLoader) or isinstance(self.raw.dataset, IterableDataset):
            kind = type(getattr(self.raw, "dataset", self.raw)).__name__
            raise _no_position(f"{kind} is a stream without indices, so a killed run could not go on where it was")
        if self.raw.batch_sampler is None:
            raise _no_position("the train loader has no batch sampler, so which samples a batch has is not known")
        first = self.order(0)
        self._listed = None
        if self.order(0) != first:
            sampler = type(getattr(self.raw.batch_sampler, "sampler", self.raw.batch_sampler)).__name__
            raise _no_position(f"the sampler {sampler} gives another order each time it is asked for the same epoch")

    @property
    def dataset(self) -> Any:
        """The samples."""
        return self.raw.dataset

    @property
    def batch_size(self) -> int:
        """Most samples of a batch."""
        return max((len(batch) for batch in self.order(self.epoch)), default=1)

    @property
    def collate(self) -> Callable[[list[Any]], Any] | None:
        """What makes a batch of samples."""
        return self.raw.collate_fn

    def __len__(self) -> int:
        """Return the batches of an epoch."""
        return len(self.raw)

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch of the next iteration."""
        self.epoch = epoch

    def from_batch(self, batch: int) -> PositionedLoader:
        """Begin the next iteration at this batch."""
        self.offset = batch
        return self

    def order(self, epoch: int) -> list[list[Any]]:
        """Return the indices of each batch of an epoch: the DataLoader's own sampler under keyed generators."""
        if self._listed is None or self._listed[0] != epoch:
            with seeding.preserved():
                _key_samplers(self.raw.batch_sampler, self.seed, epoch)
                self._listed = epoch, [list(batch) for batch in self.raw.batch_sampler or ()]
        return self._listed[1]

    def __iter__(self) -> Iterator[Any]:
        """Yield the rest of the epoch."""
        offset, self.offset = self.offset, 0
        batches = self.batches(self.epoch, offset)
        while True:
            started = time.perf_counter()
            batch = next(batches, self)
            self.waited(time.perf_counter() - started)
            if batch is self:
                return
            yield batch

    def batches(self, epoch: int, offset: int = 0) -> Iterator[Any]:
        """Yield the batches of an epoch from number `offset` on. The global generators are left alone."""
        announce_epoch(self.raw.dataset, epoch)
        places = [[(epoch, index) for index in batch] for batch in self.order(epoch)[offset:]]
        with seeding.preserved():
            return iter(self._made(places))

    def _made(self, places: list[list[tuple[int, Any]]]) -> DataLoader[Any]:
        raw, working = self.raw, dict[str, Any]()
        if raw.num_workers:
            context = raw.multiprocessing_context or multiprocessing.get_context("fork")
            working = {
                "multiprocessing_context": context,
                "prefetch_factor": raw.prefetch_factor,
                "worker_init_fn": raw.worker_init_fn,
            }
        return DataLoader(
            _keyed_samples(raw.dataset, self.seed),
            batch_sampler=places,
            collate_fn=_keyed_collate(raw.collate_fn, self.seed),
            num_workers=raw.num_workers,
            pin_memory=raw.pin_memory and torch.cuda.is_available(),
            timeout=raw.timeout,
            generator=torch.Generator(),  # else an iterator would draw from the global one
            **working,
        )


@dataclass
class FrameworkLoader(BatchLoader):
    """The train split as the rest of the engine asks for it, in the library's own order."""

    positioned: PositionedLoader | None = None

    def __len__(self) -> int:
        """Return the batches of an epoch."""
        return len(self._own)

    def indices(self, epoch: int, batch: int) -> list[int]:
        """Return the sample indices of one batch of an epoch."""
        order = self._own.order(epoch)
        return [index for index in order[batch] if isinstance(index, int)] if batch < len(order) else []

    def batches(self, epoch: int, offset: int = 0) -> Iterator[Any]:
        """Yield the batches of an epoch from number `offset` on."""
        return self._own.batches(epoch, offset)

    @property
    def _own(self) -> PositionedLoader:
        assert self.positioned is not None, "given when it is made"  # noqa: S101
        return self.positioned


def has_rows_of(read: Any, given: Any) -> bool:
    """Return whether a loader's data set is the one that was given, or it with columns left out."""
    if read is given:
        return True
    if any(type(each).__module__.partition(".")[0] != "datasets" for each in (read, given)):
        return False
    if len(read) != len(given) or not set(read.column_names) <= set(given.column_names):
        return False
    kept = given.select_columns(read.column_names)
    indices = [each._indices and each._indices.column(0).to_pylist() for each in (read, kept)]
    return bool(read.data.table.equals(kept.data.table)) and indices[0] == indices[1]


def draws_nothing(collate: Any) -> bool:
    """Return whether a collator is known to draw no random number: of the libraries' own, all but the masking ones."""
    inner = getattr(collate, "data_collator", collate)
    kind = inner if callable(inner) and hasattr(inner, "__qualname__") else type(inner)
    package, name = str(kind.__module__).partition(".")[0], str(kind.__qualname__)
    if package == "torch":
        return True
    if package == "transformers":
        masks = getattr(inner, "mlm", False) or "Mask" in name or "Permutation" in name
        return not masks
    return package == "trl"


def _keyed_samples(samples: Any, seed: int) -> KeyedSamples:
    """Return samples whose draws, those of generators of their own included, are keyed to (seed, epoch, sample)."""
    if own := generators_in(samples):
        return _Samples(OwnDraws(samples, own), seed, 0)
    return _samples_of(samples)(samples, seed, 0)


def _keyed_collate(collate: Any, seed: int) -> Any:
    if own := generators_in(collate):
        return _Collate(OwnDraws(collate, own), seed, 0)
    return collate if draws_nothing(collate) else _Collate(collate, seed, 0)


def _samples_of(samples: Any) -> type[KeyedSamples]:
    """Return how samples are fetched: keyed one by one, unless nothing of the user's runs when they are read."""
    inner = samples
    while isinstance(inner, Subset) and type(inner) is Subset:
        inner = inner.dataset
    package = type(inner).__module__.partition(".")[0]
    if package == "datasets":
        return _Samples if (getattr(inner, "format", None) or {}).get("type") == "custom" else _PlainSamples
    if type(inner) in {list, tuple, TensorDataset}:
        return _PlainSamples
    return _BatchedSamples if hasattr(samples, "__getitems__") and type(samples) is not Subset else _Samples


def _key_samplers(sampler: Any, seed: int, epoch: int) -> None:
    """Key the global generators, and those of the samplers inside one another, to an epoch."""
    seeding.seed_sample(seed, epoch)
    seen: set[int] = set()
    while sampler is not None and id(sampler) not in seen:
        seen.add(id(sampler))
        if callable(announce := getattr(sampler, "set_epoch", None)):
            announce(epoch)
        if isinstance(own := getattr(sampler, "generator", None), torch.Generator):
            own.manual_seed(seeding.key_of(seed, epoch) >> 1)
        inner = getattr(sampler, "batch_sampler", None) or getattr(sampler, "sampler", None)
        sampler = None if isinstance(inner, Sequence) else inner


def _no_position(why: str) -> ConfigurationError:
    return ConfigurationError(
        f"The trainer's train loader cannot be positioned: {why}; a resumed run would see other samples.",
        remedy="Give train_dataset as a map-style data set (__getitem__ and __len__) with a sampler of torch or of the "
        "library; datasets.Dataset.from_generator makes one of a stream.",
        document=DOCUMENT,
    )
