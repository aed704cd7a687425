"""Data of any size: whole-array work for rows in memory, arrays of indices for samples that lie elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset, IterableDataset

from trainwright.trainer.base import seeding
from trainwright.trainer.data import assemble, fingerprint, rows
from trainwright.trainer.data.assemble import from_user
from trainwright.trainer.data.fingerprint import SplitRecord, record_split, sample_digest
from trainwright.trainer.data.loader import BatchLoader
from trainwright.trainer.data.order import Part
from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.data.splits import split_indices, split_units
from trainwright.trainer.data.tensors import TensorSamples
from trainwright.trainer.evidence.data import data_evidence

pytestmark = pytest.mark.slow

KINDS = {
    "numbers and classes": (torch.randn(60, 5), torch.arange(60) % 3),
    "images and numbers": (torch.randn(60, 3, 9, 9), torch.randn(60)),
    "tokens": (torch.randint(0, 9, (60, 4)), torch.randint(0, 3, (60,))),
    "inputs alone": (torch.randn(60, 5),),
    "three parts": (torch.randn(60, 5), torch.randint(0, 9, (60, 2)), torch.rand(60)),
    "bfloat16": (torch.randn(60, 5).bfloat16(), torch.arange(60) % 2 == 0),
    "pixels": (torch.randint(0, 255, (60, 3, 4), dtype=torch.uint8), torch.arange(60) % 2),
    "complex": (torch.randn(60, 3, dtype=torch.complex64), torch.arange(60)),
    "columns of a transpose": (torch.randn(5, 60).T, torch.arange(60)),
}


@pytest.mark.requirement("REPRO-4", "TRAIN-11")
@pytest.mark.parametrize("kind", KINDS)
def test_rows_as_whole_arrays_are_described_as_samples_one_by_one(kind: str) -> None:
    samples = TensorSamples(*KINDS[kind]).subset(torch.from_numpy(np.random.default_rng(0).integers(0, 40, 60)))
    reference = SplitRecord(60, [], sampled=False)
    for index in range(60):
        reference.note(index, samples[index])
    record = record_split(samples, 1)
    assert record.fingerprint == reference.fingerprint
    assert record.digests == reference.digests
    assert record.labels == reference.labels
    assert record.sketches.exact == reference.sketches.exact
    places = np.arange(60)
    assert [*record.sketches.by_width(places)] == [*reference.sketches.by_width(places)]
    assert np.array_equal(record.sketches.stacked(places), reference.sketches.stacked(places))


@pytest.mark.requirement("PIPE-2")
@pytest.mark.parametrize("collide", [False, True])
def test_equal_rows_are_found_whatever_their_hash_says(collide: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if collide:  # as rows would that somebody made for it
        hashes = rows._hashes_by_piece
        few = lambda samples: ((start, found % np.uint64(3)) for start, found in hashes(samples))  # noqa: E731
        monkeypatch.setattr(rows, "_hashes_by_piece", few)
    samples = TensorSamples(torch.randint(0, 4, (400, 3)), torch.randint(0, 2, (400,)))
    first: dict[str, int] = {}
    units = [first.setdefault(sample_digest(samples[row]), len(first)) for row in range(400)]
    found = rows.unit_numbers(samples)
    assert np.array_equal(found, units)
    by_unit = split_units(np.array(units), None, SplitSection())
    by_digest = split_indices([sample_digest(samples[row]) for row in range(400)], None, SplitSection())
    assert all(np.array_equal(by_unit[name], by_digest[name]) for name in by_digest)
    alone = rows.unit_numbers(TensorSamples(torch.arange(30)))
    assert np.array_equal(alone, np.arange(30)) if collide else alone == 30, "where all differ, no array is made"


@pytest.mark.requirement("PIPE-2")
def test_one_shared_row_in_large_arrays_is_seen() -> None:
    """A closer look at 20,000 drawn rows of each would hardly ever hold both copies."""
    train, validation = torch.randn(90_000, 4), torch.randn(60_000, 4)
    validation[41_234] = train[77_777]
    data = {"train": (train, torch.zeros(90_000)), "validation": (validation, torch.zeros(60_000))}
    splits = from_user(data, None, source="own", seed=1)
    assert data_evidence(splits, None).shared_samples == 1  # type: ignore[arg-type]
    before = splits.records["train"].fingerprint
    train[5, 1] += 1
    assert record_split(splits.samples["train"], 1).fingerprint != before, "every row is in the fingerprint"


@pytest.mark.requirement("PIPE-2")
def test_a_shared_row_is_named_in_each_split() -> None:
    train, validation = torch.randn(30, 2), torch.randn(9, 2)
    validation[4], train[20] = train[17], train[17]
    data = {"train": (train, torch.zeros(30)), "validation": (validation, torch.zeros(9))}
    found = data_evidence(from_user(data, None, source="own", seed=1), Path())
    assert (found.shared_samples, found.shared_examples) == (1, [{"train": 17, "validation": 4}])


class Far(Dataset[Any]):
    """A large data set of which nothing lies in memory; counts what is asked of it."""

    def __init__(self, size: int) -> None:
        self.size, self.asked = size, 0

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> Any:
        assert type(index) is int
        self.asked += 1
        return torch.tensor([index / self.size, 1.0]), index % 2


@pytest.mark.requirement("TRAIN-10", "TRAIN-11")
@pytest.mark.parametrize("workers", [0, 2])
def test_an_epoch_of_millions_of_samples_begins_without_an_object_for_each(workers: int) -> None:
    size = 3_000_000
    samples = Part(Far(size), np.arange(size, dtype=np.int32))
    loader = BatchLoader(samples, 4, seed=3, shuffle=True, num_workers=workers, prefetch_factor=2 if workers else None)
    order = loader._order(0).shuffled
    assert order is not None
    assert order.dtype == torch.int32
    assert np.array_equal(order.numpy(), np.random.default_rng([3, 0]).permutation(size)), "the order of old runs"
    batches = loader.batches(0)
    first = next(batches)[0]
    assert first[:, 0].mul(size).round().int().tolist() == pytest.approx(order[:4].tolist(), rel=1e-4)
    assert samples.dataset.asked <= 4
    assert loader._order(0).shuffled is order
    del batches


@pytest.mark.requirement("TRAIN-10", "PIPE-2")
def test_a_large_data_set_is_split_by_arrays_and_read_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (assemble, fingerprint):
        monkeypatch.setattr(module, "MAX_SAMPLES_READ", 2_000)
    data = Far(200_000)
    splits = from_user(data, SplitSection(validation=0.1, test=0.1), source="own", seed=1)
    assert data.asked <= 6_004  # twice the first of it, and the last
    parts = [splits.samples[name].indices for name in seeding.SPLITS]
    assert [len(part) for part in parts] == [160_000, 20_000, 20_000]
    assert {part.dtype for part in parts} == {np.dtype(np.int32)}
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(200_000))
    by_digest = split_indices([str(n) for n in range(9_999)], None, SplitSection())
    by_count = split_units(9_999, None, SplitSection())
    assert all(np.array_equal(by_count[name], by_digest[name]) for name in by_digest)


class Draws(IterableDataset[Any]):
    """Yields draws."""

    def __len__(self) -> int:
        return 6

    def __iter__(self) -> Iterator[Any]:
        for _ in range(6):
            yield torch.rand(2)


class DrawsByIndex(Dataset[Any]):
    """Makes each sample of draws."""

    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> Any:
        return torch.rand(2)


@pytest.mark.requirement("REPRO-1")
@pytest.mark.parametrize("kind", [Draws, DrawsByIndex])
@pytest.mark.parametrize("workers", [0, 1])
def test_splits_of_one_seed_draw_values_of_their_own(kind: type[Any], workers: int) -> None:
    drawn = [
        torch.cat(list(BatchLoader(kind(), 2, seed=7, shuffle=False, num_workers=workers, split=split).batches(0)))
        for split in range(3)
    ]
    assert len(torch.cat(drawn).unique()) == 36, "each number is drawn once"
    seeding.seed_sample(7, 0, *(() if kind is Draws else (0,)))
    assert torch.equal(drawn[0][0], torch.rand(2)), "training draws as it ever did"
    evidence = data_evidence(from_user({"train": kind(), "validation": kind()}, None, source="own", seed=1), None)  # type: ignore[arg-type]
    assert evidence.disjoint
