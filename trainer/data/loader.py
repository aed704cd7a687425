"""Batches of one epoch from any offset, the same for any number of loader workers.

A position is (epoch, batch): the order of samples is a pure function of (seed, epoch), and what a data set draws
for a sample is keyed to (seed, split, epoch, index). So nothing of the loader needs saving, and a fetch that is made in
a worker, in this process, or again after a kill gives the same bits.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset, default_collate

from trainwright.trainer.base import seeding
from trainwright.trainer.base.errors import DataError
from trainwright.trainer.data.curriculum import Curriculum
from trainwright.trainer.data.fingerprint import uneven_stream
from trainwright.trainer.data.order import BlockOrder, Order, Plan, Share
from trainwright.trainer.data.tensors import InMemory, TensorSamples


class Placed(list[Any]):
    """The samples of a batch, with the place of its first."""

    def __init__(self, items: list[Any], place: tuple[int, int]) -> None:
        super().__init__(items)
        self.place = place


@dataclass
class KeyedCollate:
    """The user's collate, whose draws are keyed to (seed, epoch, first index of the batch) as those of samples are."""

    collate: Callable[[list[Any]], Any]
    seed: int
    split: int

    def preserved(self) -> AbstractContextManager[None]:
        """Return a context that leaves the global generators as it found them."""
        return seeding.preserved()

    def __call__(self, items: list[Any]) -> Any:
        """Collate the samples under the key of the first; those of a batch that came whole under none."""
        if not isinstance(items, Placed):
            return self.collate(items)
        with self.preserved():
            seeding.seed_sample(self.seed, *items.place, _OF_THE_BATCH, *seeding.of_split(self.split))
            return self.collate(list(items))


_OF_THE_BATCH = 1
"""Sets the key of a batch apart from that of its first sample."""


class KeyedSamples(Dataset[Any]):
    """A map-style data set, asked for (epoch, index), whose random draws are keyed to (seed, epoch, index)."""

    def __init__(self, samples: Any, seed: int, split: int) -> None:
        self.samples, self.seed, self.split = samples, seed, split
        self.epoch = -1
        """Epoch last announced to the samples; workers that live longer than an epoch announce it to their copy."""

    def preserved(self) -> AbstractContextManager[None]:
        """Return a context that leaves the global generators as it found them."""
        return seeding.preserved()

    def __getitem__(self, place: tuple[int, int]) -> Any:
        return self.__getitems__([place])[0]

    def __getitems__(self, places: list[tuple[int, int]]) -> list[Any]:
        with self.preserved():
            items = []
            for epoch, index in places:
                if epoch != self.epoch:
                    self.epoch = epoch
                    announce_epoch(self.samples, epoch)
                seeding.seed_sample(self.seed, epoch, index, *seeding.of_split(self.split))
                items.append(self.samples[index])
            return Placed(items, places[0])


def _key_stream(_worker: int, *, seed: int, epoch: int, split: int) -> None:
    """Key the generators from which a stream draws to its epoch and split."""
    seeding.seed_sample(seed, epoch, *seeding.of_split(split))


@dataclass
class _Places:
    """The (epoch, index) places of the batches to fetch: a sampler whose plan changes from epoch to epoch."""

    batched: bool
    """False where each item of the data set is a batch already."""
    plan: Plan | None = None
    epoch: int = 0

    def __iter__(self) -> Iterator[Any]:
        return map(partial(self._of, self.epoch), self.plan or ())

    def _of(self, epoch: int, rows: Tensor) -> Any:
        places = [(epoch, index) for index in rows.tolist()]
        return places if self.batched else places[0]

    def __len__(self) -> int:
        return len(self.plan or ())


def announce_epoch(samples: Any, epoch: int) -> None:
    """Announce the epoch to a data set that has `set_epoch`, also through a subset of it."""
    if isinstance(samples, Subset):
        announce_epoch(samples.dataset, epoch)
    announce = getattr(samples, "set_epoch", None)
    if callable(announce):
        announce(epoch)


@dataclass
class BatchLoader:
    """Fetches the batches of an epoch.

    Attributes:
        samples: InMemory, a map-style data set, a sequence, or an IterableDataset.
        batch_size: samples in a batch; None when each item is a batch already.
    """

    samples: Any
    batch_size: int | None
    seed: int
    shuffle: bool
    drop_last: bool = False
    num_workers: int = 0
    prefetch_factor: int | None = None
    persistent_workers: bool = False
    pin_memory: bool = False
    collate: Callable[[list[Any]], Any] | None = None
    curriculum: Curriculum | None = None
    """Chooses the samples of an epoch in place of the plain permutation."""
    share: Share | None = None
    """The part of each batch that this process takes; None for all of it."""
    split: int = 0
    """Number of the split: each draws values of its own. Those of the first, the train split, are keyed without it."""
    by_blocks: bool | None = None
    """Whether samples are shuffled by blocks of neighbours (`BlockOrder`); None: where they are mapped from a disk."""
    by_length: bool = False
    """Whether samples of about one length come together; they have `lengths` then."""
    _kept: tuple[_Places, DataLoader[Any]] | None = field(default=None, repr=False)
    """The loader whose workers stay from epoch to epoch."""
    _orders: dict[tuple[int, ...], Order | BlockOrder] = field(default_factory=dict, repr=False)
    """The newest order, which several readers of one epoch share."""

    @property
    def is_stream(self) -> bool:
        """Whether the samples have no index."""
        return isinstance(self.samples, IterableDataset)

    def __len__(self) -> int:
        """Return the batches of an epoch. Raises DataError for a stream that does not know its length."""
        try:
            count = len(self.samples)
        except TypeError as error:
            raise DataError(
                f"{type(self.samples).__name__} has no length, so the steps of an epoch are not known.",
                remedy="Give the data set a __len__ (for a stream: the number of samples it yields in one epoch).",
            ) from error
        if self.batch_size is None:
            return count
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)

    def indices(self, epoch: int, batch: int) -> list[int]:
        """Return the sample indices of one batch of an epoch; empty for a stream."""
        if self.is_stream:
            return []
        return Plan(self._order(epoch), self.batch_size or 1, range(0)).rows(batch).tolist()

    def batches(self, epoch: int, offset: int = 0) -> Iterator[Any]:
        """Yield the batches of an epoch from number `offset` on. The global generators are left alone."""
        announce_epoch(self.samples, epoch)
        if self.is_stream:
            return self._stream(epoch, offset)
        plan = Plan(self._order(epoch), self.batch_size or 1, range(offset, len(self)), self.share)
        if isinstance(self.samples, InMemory) and self.collate is None and self.batch_size is not None:
            batches = map(self.samples.gather, plan)
            return map(partial(tree_map_only, Tensor, Tensor.pin_memory), batches) if self.pin_memory else batches
        return self._loaded(plan, epoch)

    def is_spare(self, batch: int) -> bool:
        """Return whether this process only keeps the others company in a batch: none of its rows is its own."""
        if self.share is None or self.batch_size is None:
            return False
        return self.share.is_spare(min(self.batch_size, len(self.samples) - batch * self.batch_size))

    def _order(self, epoch: int) -> Order | BlockOrder:
        size = len(self.samples)
        if not self.shuffle:
            return Order(size)
        key = (epoch, size, id(self.curriculum))
        if key not in self._orders:
            self._orders.clear()  # first, so that no two take memory at once
            self._orders[key] = self._shuffled(epoch, size)
        return self._orders[key]

    def _shuffled(self, epoch: int, size: int) -> Order | BlockOrder:
        arrays = self.samples if isinstance(self.samples, TensorSamples) else None
        if self.curriculum is not None:
            return Order(size, self.curriculum.order(epoch))
        if self.by_length:
            return Order(size, order_by_length(self.samples.lengths, self.batch_size or 1, self.seed, epoch))
        if self.by_blocks or (self.by_blocks is None and arrays is not None and arrays.is_mapped):
            return BlockOrder(size, self.seed, epoch, *(() if arrays is None else [arrays.sample_bytes]))
        return Order(size, torch.from_numpy(seeding.permutation(self.seed, epoch, size)))

    def _loaded(self, plan: Plan, epoch: int) -> Iterator[Any]:
        with seeding.preserved():  # making an iterator may draw; training must not notice
            places, loader = self._kept or self._make_loader()
            if self.persistent_workers and self.num_workers:
                self._kept = places, loader
            loader.generator.manual_seed(seeding.key_of(self.seed, epoch) >> 1)
            places.plan, places.epoch = plan, epoch
            return iter(loader)

    def _make_loader(self) -> tuple[_Places, DataLoader[Any]]:
        places = _Places(self.batch_size is not None)
        working: dict[str, Any] = {}
        if self.num_workers:
            context = multiprocessing.get_context("fork")
            working = {"multiprocessing_context": context, "persistent_workers": self.persistent_workers}
            working |= {} if self.prefetch_factor is None else {"prefetch_factor": self.prefetch_factor}
        how: dict[str, Any] = (
            {"sampler": places, "batch_size": None} if self.batch_size is None else {"batch_sampler": places}
        )
        loader: DataLoader[Any] = DataLoader(
            KeyedSamples(self.samples, self.seed, self.split),
            num_workers=self.num_workers,
            pin_memory=self.pin_memory,
            collate_fn=None
            if self.collate is None or self.batch_size is None
            else KeyedCollate(self.collate, self.seed, self.split),
            generator=torch.Generator(),
            **working,
            **how,
        )
        return places, loader

    def _stream(self, epoch: int, offset: int) -> Iterator[Any]:
        """Yield from an IterableDataset, which draws from a separate generator state, keyed to the epoch.

        A stream has one order, so one worker at most reads it ahead. To start at `offset`, earlier batches are read
        again and dropped.

        Raises:
            DataError: the stream yields fewer or more batches than its length makes.
        """
        with seeding.preserved():
            source = iter(self._stream_loader(epoch))
            own = seeding.capture()
        wanted = len(self)
        for number in range(wanted + 1):  # one more, which should not be there
            with seeding.preserved():
                seeding.restore(own)
                batch = next(source, None)
                own = seeding.capture()
            if (batch is None) != (number == wanted):
                there = f"ends after {number}" if batch is None else f"yields more than {wanted}"
                raise uneven_stream(self.samples, f"{there} batches in epoch {epoch + 1}")
            if offset <= number < wanted:
                yield batch

    def _stream_loader(self, epoch: int) -> DataLoader[Any]:
        """Return a loader that keys the stream's generators where it is read: here, or in its worker."""
        key = partial(_key_stream, seed=self.seed, epoch=epoch, split=self.split)
        working: dict[str, Any] = {}
        if self.num_workers:
            working = {"num_workers": 1, "multiprocessing_context": multiprocessing.get_context("fork")}
            working |= {"worker_init_fn": key}
            working |= {} if self.prefetch_factor is None else {"prefetch_factor": self.prefetch_factor}
        else:
            key(0)
        return DataLoader(
            self.samples,
            batch_size=self.batch_size,
            drop_last=self.drop_last and self.batch_size is not None,
            collate_fn=self._collate_share(),
            pin_memory=self.pin_memory,
            generator=torch.Generator(),  # else making the iterator would draw from the stream's own
            **working,
        )

    def _collate_share(self) -> Callable[[list[Any]], Any] | None:
        """Return how a batch of a stream is made: of this process's rows only, for every process reads the stream."""
        share, collate = self.share, self.collate
        if share is None:
            return collate
        return lambda items: (collate or default_collate)(items[share.rows(len(items))])


# Order by length: samples of a batch are about equally long, so that little of it is filling.
#
# As the Transformers library groups them: within so many batches of a random order, the samples are put in order by
# length, and the batches that they make are drawn in random order.

BATCHES_AT_ONCE = 50
"""Whose samples are put in order together: more would leave the same neighbours in every epoch."""


def order_by_length(lengths: Tensor, batch_size: int, seed: int, epoch: int) -> Tensor:
    """Return the samples of an epoch, (samples,): a pure function of (seed, epoch), every sample once.

    Args:
        lengths: of the samples, (samples,).
    """
    found = seeding.permutation(seed, epoch, len(lengths))
    sizes, window = lengths.numpy(), batch_size * BATCHES_AT_ONCE
    for number, start in enumerate(range(0, len(found), window)):
        part = found[start : start + window]
        part = part[np.argsort(-sizes[part], kind="stable")]
        whole = len(part) // batch_size * batch_size
        batches = part[:whole].reshape(-1, batch_size)
        drawn = batches[np.random.default_rng([seed, epoch, number]).permutation(len(batches))]
        found[start : start + window] = np.concatenate([drawn.reshape(-1), part[whole:]])
    return torch.from_numpy(found)
