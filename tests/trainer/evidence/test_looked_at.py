"""Before training a smoke run records what plain predictors score, and train rows that are altered held-out rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from sklearn import datasets
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.neighbors import KNeighborsClassifier
from torch import Tensor
from torch.utils.data import IterableDataset, TensorDataset

from trainwright.tools.gates.leakage import beyond_chance
from trainwright.trainer.data import drawn_rows
from trainwright.trainer.data.assemble import from_user
from trainwright.trainer.evidence.looked_at import looked_at_evidence
from trainwright.trainer.run import RunDirectory
from trainwright.trainer.run.looked_at import LookedAt

ONCE_IN, MOST = 1e6, 3.0
Splits = dict[str, tuple[Tensor, Tensor]]


@pytest.fixture(autouse=True)
def _no_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """How many rows are read in a time is tested by tests/trainer/data/test_drawn_rows.py."""
    for name in ("READING_SECONDS", "WAITING_SECONDS"):
        monkeypatch.setattr(drawn_rows, name, 3600.0)


def bundled(name: str) -> Splits:
    """Return a data set of scikit-learn, dealt out by chance; equal rows once."""
    inputs, targets = getattr(datasets, f"load_{name}")(return_X_y=True)
    _, first = np.unique(inputs, axis=0, return_index=True)
    order = np.random.default_rng(0).permutation(first)
    edges = [len(order) * 6 // 10, len(order) * 8 // 10]
    return {
        split: (torch.tensor(inputs[rows]).float(), torch.tensor(targets[rows]))
        for split, rows in zip(("train", "validation", "test"), np.split(order, edges), strict=True)
    }


def digits() -> Splits:
    return {split: (rows.reshape(-1, 1, 8, 8), labels) for split, (rows, labels) in bundled("digits").items()}


def photos() -> Splits:
    """Return smooth coloured pictures of 40 x 32 pixels."""
    drawn = torch.randn(900, 3, 40, 32, generator=torch.Generator().manual_seed(0)).cumsum(2).cumsum(3)
    parts = zip(drawn.split([600, 150, 150]), torch.arange(900).remainder(5).split([600, 150, 150]), strict=True)
    return dict(zip(("train", "validation", "test"), parts, strict=True))


def look(splits: Splits) -> LookedAt:
    given = {name: TensorDataset(*both) for name, both in splits.items()}
    return looked_at_evidence(from_user(given, None, source="own", seed=1), 1)


def found(splits: Splits) -> set[tuple[str, str]]:
    """Return (split, transformation) of near rows that chance does not explain."""
    near = look(splits).near_rows
    return {(one.splits[1], one.transformation) for one in beyond_chance(list(near), ONCE_IN, MOST)}  # type: ignore[attr-defined]


def with_copies(splits: Splits, alter: Callable[[Tensor], Tensor], of: int = 60) -> Splits:
    """Add altered copies of test rows to the train split, under other labels."""
    (rows, labels), (test, others) = splits["train"], splits["test"]
    both = torch.cat([rows, alter(test[:of])]), torch.cat([labels, others[:of].roll(1)])
    return splits | {"train": both}


ALTERED: dict[str, tuple[str, Callable[[Tensor], Tensor]]] = {
    "scaled": ("scaled", lambda rows: 0.5 * rows + 3),
    "negative": ("scaled", lambda rows: 16 - rows),
    "mirrored": ("flipped", lambda rows: rows.flip(-1)),
    "upside down": ("flipped", lambda rows: rows.flip(-2)),
    "mirrored and darker": ("flipped", lambda rows: 0.5 * rows.flip(-1)),
    "shifted": ("shifted", lambda rows: rows.roll((1, -1), (-2, -1))),
    "rounded": ("none", lambda rows: rows + 0.3 * torch.rand(rows.shape, generator=torch.Generator().manual_seed(0))),
}


@pytest.mark.requirement("GATE-6", "REPRO-4")
@pytest.mark.parametrize("pictures", [digits, pytest.param(photos, marks=pytest.mark.long)])
@pytest.mark.parametrize("alteration", ALTERED)
def test_altered_copies_of_test_rows_in_training_are_reported(pictures: Any, alteration: str) -> None:
    name, alter = ALTERED[alteration]
    assert ("test", name) in found(with_copies(pictures(), alter))


@pytest.mark.requirement("GATE-6")
def test_crops_of_test_pictures_in_training_are_reported() -> None:
    def cropped(rows: Tensor) -> Tensor:
        return torch.nn.functional.interpolate(rows[..., 5:35, 4:28], size=(40, 32), mode="bilinear")

    assert ("test", "cropped") in found(with_copies(photos(), cropped))


@pytest.mark.requirement("GATE-6")
@pytest.mark.parametrize("name", ["wine", "breast_cancer", "diabetes"])
def test_scaled_or_rounded_rows_of_tables_are_reported(name: str) -> None:
    rows = bundled(name)
    unit = rows["train"][0].abs().amax(0).clamp_min(1e-9)
    assert ("test", "scaled") in found(with_copies(rows, lambda some: 1.7 * some + 0.3))
    assert ("test", "none") in found(with_copies(rows, lambda some: (some / unit).round(decimals=2) * unit))


@pytest.mark.requirement("GATE-6")
def test_an_example_names_the_row_and_its_copy() -> None:
    rows = digits()
    size = len(rows["train"][0])
    near = [one for one in look(with_copies(rows, lambda some: some.flip(-1))).near_rows if one.tolerance == 0.02]
    flipped = next(one for one in near if one.transformation == "flipped" and one.splits == ("train", "test"))
    assert len(flipped.examples) == 5
    assert all(train - size == test for train, test in flipped.examples)


@pytest.mark.requirement("GATE-6", "GATE-3")
@pytest.mark.parametrize("name", ["iris", "wine", "breast_cancer", "digits", "diabetes"])
def test_data_dealt_out_by_chance_raises_no_alarm(name: str) -> None:
    assert found(bundled(name)) == set()


@pytest.mark.requirement("GATE-6", "GATE-3")
def test_pictures_dealt_out_by_chance_raise_no_alarm() -> None:
    assert found(digits()) == found(photos()) == set()


@pytest.mark.requirement("GATE-3")
def test_rows_of_a_grid_or_of_few_values_raise_no_alarm() -> None:
    places = torch.cartesian_prod(torch.arange(40.0), torch.arange(40.0))
    order = torch.randperm(1600, generator=torch.Generator().manual_seed(0))
    splits = dict(zip(("train", "validation", "test"), places[order].split([1000, 300, 300]), strict=True))
    assert found({name: (rows, rows[:, 0].long()) for name, rows in splits.items()}) == set()


@pytest.mark.requirement("GATE-6")
@pytest.mark.parametrize("split", ["validation", "test"])
def test_scores_of_plain_predictors_of_classes_are_right(split: str) -> None:
    rows = bundled("digits")
    (train, labels), (others, targets) = ([part.numpy() for part in rows[name]] for name in ("train", split))
    seen = look(rows).splits[split]
    assert seen.size == seen.compared == len(others)
    assert seen.classes == {str(one): int((targets == one).sum()) for one in range(10)}
    constant = DummyClassifier(strategy="most_frequent").fit(train, labels).score(others, targets)
    assert seen.constant == {"accuracy": pytest.approx(constant)}
    nearest = KNeighborsClassifier(1).fit(train, labels).score(others, targets)
    assert seen.nearest_neighbour["accuracy"] == pytest.approx(nearest, abs=0.05)


@pytest.mark.requirement("GATE-6")
def test_scores_of_plain_predictors_of_numbers_are_right() -> None:
    rows = bundled("diabetes")
    seen = look(rows).splits["test"]
    (train, targets), (others, wanted) = ([part.numpy() for part in rows[name]] for name in ("train", "test"))
    constant = DummyRegressor().fit(train, targets).score(others, wanted)
    assert seen.constant["r2"] == pytest.approx(constant)
    assert seen.constant["mae"] == pytest.approx(float(np.abs(wanted - targets.mean()).mean()))
    assert seen.nearest_neighbour["r2"] < 0.5
    assert seen.classes is None


class Sentences(IterableDataset[Any]):
    def __iter__(self) -> Any:
        return iter([("some words", 1), ("other words", 0)] * 10)

    def __len__(self) -> int:
        return 20


@pytest.mark.requirement("GATE-6")
def test_rows_that_are_no_numbers_are_not_compared_and_the_reason_is_recorded() -> None:
    splits = from_user({"train": Sentences(), "validation": Sentences()}, None, source="own", seed=1)
    seen = looked_at_evidence(splits, 1)
    assert seen.not_compared == seen.not_scored == "inputs are not numbers alone"
    assert seen.splits["train"].classes == {"0": 10, "1": 10}


@pytest.mark.requirement("GATE-6")
def test_looking_draws_nothing_from_the_generators() -> None:
    before = torch.get_rng_state(), np.random.get_state()[1].copy()  # type: ignore[index, union-attr]
    look(digits())
    assert torch.equal(before[0], torch.get_rng_state())
    assert (before[1] == np.random.get_state()[1]).all()  # type: ignore[index]


@pytest.mark.requirement("GATE-6")
def test_a_smoke_run_records_the_look_and_no_other_run_does(digits_run: RunDirectory, ended: Any, mine: str) -> None:
    assert not digits_run.part(LookedAt)
    seen = ended(mine, kind="smoke", max_steps=2).part(LookedAt)
    assert seen.splits.keys() == {"train", "validation", "test"}
    assert seen.splits["test"].nearest_neighbour.keys() == {"accuracy"}
