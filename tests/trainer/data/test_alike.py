"""Copies of held-out samples among the training samples are counted although their last digits were altered."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn import datasets
from tests.trainer.data.loading import load
from torch import Tensor
from torch.utils.data import IterableDataset, TensorDataset

from trainwright.tools.gates.leakage import beyond_chance
from trainwright.trainer.data import fingerprint
from trainwright.trainer.data.assemble import from_loaded, from_user
from trainwright.trainer.data.fingerprint import record_split
from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.evidence.data import data_evidence

ONCE_IN, MOST = 1e6, 3.0
Splits = dict[str, Tensor]


def bundled(name: str, seed: int = 0) -> Splits:
    """Return the rows of a data set that scikit-learn brings along, dealt out by chance; equal rows once."""
    rows = np.unique(getattr(datasets, f"load_{name}")().data, axis=0)
    rows = rows[np.random.default_rng(seed).permutation(len(rows))]
    edges = [len(rows) * 6 // 10, len(rows) * 8 // 10]
    return dict(zip(("train", "validation", "test"), map(torch.from_numpy, np.split(rows, edges)), strict=True))


def evidence(splits: dict[str, Any]) -> dict[str, Any]:
    return data_evidence(from_user(splits, None, source="own", seed=1), Path())


def found(splits: dict[str, Any]) -> list[list[str]]:
    """Return the splits that hold more almost equal samples than chance explains."""
    record = evidence(splits)
    assert record.disjoint
    return [list(each.splits) for each in beyond_chance(record.alike_samples, ONCE_IN, MOST)]


def labelled(rows: Splits) -> dict[str, Any]:
    return {name: TensorDataset(part, torch.arange(len(part)) % 3) for name, part in rows.items()}


def altered(rows: Tensor, by: float) -> Tensor:
    signs = torch.randint(0, 2, rows.shape, generator=torch.Generator().manual_seed(0)) * 2 - 1
    return rows * (1 + by * signs)


def rounded(rows: Tensor, train: Tensor, decimals: int) -> Tensor:
    return (rows / train.abs().amax(0).clamp_min(1e-9)).round(decimals=decimals) + 0.0


FORMS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "as it is": lambda rows, train: rows,
    "standardised": lambda rows, train: (rows - train.mean(0)) / train.std(0).clamp_min(1e-9),
    "float32": lambda rows, train: rows.float(),
    "one digit": partial(rounded, decimals=1),
    "two digits": partial(rounded, decimals=2),
}
REAL = ["iris", "wine", "breast_cancer", "digits", "diabetes"]


@pytest.mark.requirement("REPRO-4", "GATE-5")
@pytest.mark.parametrize("name", REAL)
@pytest.mark.parametrize("by", [1e-6, 1e-3])
def test_altered_copies_of_test_rows_in_training_are_found(name: str, by: float) -> None:
    rows = bundled(name)
    rows["train"] = torch.cat([rows["train"], altered(rows["test"], by)])
    assert ["train", "test"] in found(labelled(rows))


@pytest.mark.requirement("REPRO-4")
@pytest.mark.parametrize("name", REAL)
@pytest.mark.parametrize("form", FORMS)
def test_no_alarm_on_real_data_dealt_out_by_chance(name: str, form: str) -> None:
    for seed in range(3):
        rows = bundled(name, seed)
        record = evidence(labelled({split: FORMS[form](part, rows["train"]) for split, part in rows.items()}))
        assert beyond_chance(record.alike_samples, ONCE_IN, MOST) == []


@pytest.mark.requirement("REPRO-4")
@pytest.mark.parametrize("size", [300, 700, 1000, 1500, 4000])
def test_no_alarm_on_a_grid_whose_points_are_dealt_out_in_turn(size: int) -> None:
    points = torch.linspace(-3, 3, size)[:, None]
    assert found(labelled({"train": points[::2], "validation": points[1::4], "test": points[3::4]})) == []


@pytest.mark.requirement("REPRO-4")
def test_no_alarm_where_samples_come_in_pairs_that_chance_parts() -> None:
    rows = torch.randn(1000, 8, generator=torch.Generator().manual_seed(0)).repeat_interleave(2, 0)
    rows = altered(rows, 1e-5)[torch.randperm(2000, generator=torch.Generator().manual_seed(1))]
    splits = labelled({"train": rows[:1600], "validation": rows[1600:1800], "test": rows[1800:]})
    (first, *_) = evidence(splits).alike_samples
    assert first.alike > 100
    assert found(splits) == []


@pytest.mark.requirement("REPRO-4")
def test_no_alarm_where_held_out_samples_crowd_in_a_place_where_training_has_few() -> None:
    draw = torch.Generator().manual_seed(0)
    off = 1e-4 * torch.randn(600, 6, generator=draw)  # a sensor that was switched off most of the later time
    rows = torch.randn(1400, 6, generator=draw)
    splits = {"train": torch.cat([rows[:900], off[:50]]), "validation": torch.cat([rows[900:1000], off[50:600]])}
    assert found(labelled(splits)) == []


@pytest.mark.requirement("REPRO-4", "GATE-5")
@pytest.mark.parametrize("split", ["train", "validation"])
def test_copies_are_told_with_examples_for_every_two_splits(split: str) -> None:
    rows = bundled("wine")
    size = len(rows[split])
    rows[split] = torch.cat([rows[split], rows["test"] * (1 + 1e-5)])
    (record, _) = [one for one in evidence(labelled(rows)).alike_samples if one.splits == (split, "test")]
    assert record.alike == len(rows["test"])
    assert (record.near, record.first, record.second) == (0, len(rows[split]), len(rows["test"]))
    assert record.examples == [(size + place, place) for place in range(5)]


class Stream(IterableDataset[Any]):
    def __init__(self, rows: Tensor) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Any]:
        return ({"values": row, "name": "x", "label": place} for place, row in enumerate(self.rows))


@pytest.mark.requirement("REPRO-4", "GATE-5")
def test_copies_in_streams_are_found() -> None:
    rows = bundled("wine")
    assert found({name: Stream(part) for name, part in rows.items()}) == []
    rows["train"] = torch.cat([rows["train"], rows["test"] + 1e-5])
    assert found({name: Stream(part) for name, part in rows.items()}) == [["train", "test"]] * 2


@pytest.mark.requirement("REPRO-4", "GATE-5")
def test_a_copy_is_a_copy_under_another_label_type_or_shape() -> None:
    rows = {name: part.double() for name, part in bundled("wine").items()}
    train = [*rows["train"], *(row.reshape(1, -1) for row in rows["test"])]
    splits = {
        "train": [(row, place) for place, row in enumerate(train)],
        "validation": [(row.numpy(), 7.5) for row in rows["validation"].float()],
        "test": [(row.tolist(), 7) for row in rows["test"]],
    }
    assert found(splits) == [["train", "test"]] * 2


@pytest.mark.requirement("REPRO-4", "GATE-5")
def test_copies_of_images_are_found_and_other_images_are_not() -> None:
    images = torch.rand(400, 3, 20, 20, generator=torch.Generator().manual_seed(0))
    splits = {"train": images[:300], "validation": images[300:350], "test": images[350:]}
    assert found(labelled(splits)) == []
    splits["train"] = torch.cat([splits["train"], altered(splits["test"], 1e-3)])
    assert found(labelled(splits)) == [["train", "test"]]
    pixels = {name: (part * 255).byte() for name, part in splits.items()}
    pixels["train"][300:, 0, :2, 0] ^= 1
    assert ["train", "test"] in found(labelled(pixels))


@pytest.mark.requirement("REPRO-4", "GATE-5")
def test_copies_of_recordings_that_each_have_their_own_length_are_found() -> None:
    draw = torch.Generator().manual_seed(0)
    sounds = [torch.randn(40 + 17 * number, generator=draw).cumsum(0) for number in range(150)]
    splits = {"train": sounds[::3], "validation": sounds[1::3], "test": sounds[2::3]}
    assert found({name: [(sound, 0) for sound in part] for name, part in splits.items()}) == []
    splits["train"] = splits["train"] + [altered(sound, 1e-3) for sound in splits["test"]]
    assert found({name: [(sound, 0) for sound in part] for name, part in splits.items()}) == [["train", "test"]]


@pytest.mark.requirement("REPRO-4")
def test_tokens_are_almost_equal_only_where_they_are_equal() -> None:
    tokens = torch.randint(0, 5000, (300, 16), generator=torch.Generator().manual_seed(0))
    splits = {"train": tokens[:200], "validation": tokens[200:250], "test": tokens[250:]}
    splits["train"] = torch.cat([splits["train"], splits["test"] + 1])
    assert evidence(labelled(splits)).alike_samples == []


@pytest.mark.requirement("REPRO-4", "GATE-5")
def test_an_outlier_or_a_constant_feature_hides_no_copies() -> None:
    rows = bundled("breast_cancer")
    for part in rows.values():
        part[:, 0] = 1.0
    copies = rows["test"] * (1 + 1e-5) + 1e-6
    rows["train"] = torch.cat([rows["train"], copies, torch.full_like(copies[:1], 1e30)])
    assert ["train", "test"] in found(labelled(rows))


@pytest.mark.requirement("REPRO-4")
def test_numbers_of_any_size_are_compared_without_a_fault() -> None:
    rows = torch.tensor([[1e308, -1e308], [1e-310, 0.0], [0.0, -0.0], [5e-324, 1e300]], dtype=torch.float64)
    record = evidence(labelled({"train": rows, "validation": rows[:, :1], "test": rows[:2] / 2}))
    assert record.disjoint


@pytest.mark.requirement("REPRO-4")
def test_of_a_large_split_neighbours_are_read_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neighbours in a file are often alike; spaced samples would make training look free of such pairs."""
    monkeypatch.setattr(fingerprint, "MAX_SAMPLES_READ", 200)
    pairs = torch.randn(400, 6, generator=torch.Generator().manual_seed(0)).repeat_interleave(2, 0)
    record = record_split(TensorDataset(altered(pairs, 1e-5)), 1)
    indices = record.sketches.indices
    assert indices == sorted(set(indices))
    assert (len(indices), record.size, record.sampled) == (200, 800, True)
    assert sum(later - sooner == 1 for sooner, later in pairwise(indices)) > 20
    assert record_split(TensorDataset(altered(pairs, 1e-5)), 2).fingerprint == record.fingerprint


@pytest.mark.requirement("REPRO-4")
@pytest.mark.parametrize("name", ["digits", "iris", "wine", "breast_cancer", "diabetes"])
def test_built_in_data_has_no_alarm(name: str) -> None:
    record = data_evidence(from_loaded(load(name), SplitSection(), source=name), Path())
    assert beyond_chance(record.alike_samples, ONCE_IN, MOST) == []
