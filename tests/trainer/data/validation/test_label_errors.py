"""Labels are doubted where a model knows more than they do; where it does not, they are not checked, and not passed."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import polars as pl
import pytest

from trainwright.trainer.data.validation.check import Context
from trainwright.trainer.data.validation.families import label_errors
from trainwright.trainer.data.validation.report import Report
from trainwright.trainer.data.validation.validate import validate
from trainwright.trainer.data.validation.values import kind_of

ROWS = 600


def report_of(labels: Any, *, without: tuple[str, ...] = (), rows: int = ROWS) -> Report:
    """Return the report on two measurements and a label that says whether their sum is above 0, or other labels."""
    drawn = np.random.default_rng(0).normal(size=(ROWS, 2))
    frame = pl.DataFrame({"width": drawn[:, 0], "height": drawn[:, 1], "label": labels(drawn)}).head(rows)
    frame = frame.drop(without)
    kinds = {name: kind_of(dtype) for name, dtype in frame.schema.items()}
    train = rows * 2 // 3
    splits = {"train": np.arange(train), "test": np.arange(train, rows)}
    options = {"path": "x.csv", "target": "label"}
    return validate(Context(frame.lazy(), kinds, targets=["label"], splits=splits, source="csv", options=options))


def above(drawn: np.ndarray[Any, Any], *, wrong: float = 0.0) -> np.ndarray[Any, Any]:
    truth = (drawn.sum(axis=1) > 0).astype(int)
    return np.where(np.random.default_rng(1).random(len(drawn)) < wrong, 1 - truth, truth)


@pytest.mark.requirement("PIPE-2")
@pytest.mark.parametrize(("wrong", "passed"), [(0.0, True), (0.08, False), (0.25, False)])
def test_labels_are_checked_where_a_model_of_the_other_rows_knows_enough(wrong, passed):
    report = report_of(lambda drawn: above(drawn, wrong=wrong))
    (found,) = [one for one in report.checks if one.name == "label_errors"]
    assert found.passed == passed
    assert not [one for one in report.not_checked if "label" in one.what]


@pytest.mark.requirement("PIPE-2")
def test_where_the_model_knows_too_little_labels_are_not_checked_rather_than_passed():
    chance = np.random.default_rng(2).normal(size=ROWS)
    report = report_of(lambda drawn: drawn.sum(axis=1) + 1.2 * chance > 0)
    assert not [one for one in report.checks if one.name == "label_errors"]
    (left,) = [one for one in report.not_checked if one.what == "label errors of label"]
    assert re.match(
        r"a cheap model's power is 0\.[0-5]\d of 1, and 0\.65 is needed: add columns that tell more", left.why
    )
    assert "have some rows labelled twice" in left.why


@pytest.mark.requirement("PIPE-2")
@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"labels": lambda drawn: drawn[:, 0] + 1}, "it is a number and no class"),
        ({"labels": above, "rows": 90}, "60 train rows have a label, and at least 100 are needed"),
        ({"labels": above, "without": ("width", "height")}, "no other column holds a number"),
        ({"labels": lambda drawn: np.arange(ROWS) == 7}, "class 'True' has 1 train rows, and each needs 10"),
        ({"labels": lambda drawn: [f"class {row % 60}" for row in range(ROWS)]}, "60 classes, and of at most 50"),
    ],
    ids=["number", "few rows", "no inputs", "rare class", "many classes"],
)
def test_what_else_keeps_labels_from_being_checked_is_named(given, why):
    report = report_of(**given)
    (left,) = [one for one in report.not_checked if one.what == "label errors of label"]
    assert why in left.why


def survival(seed: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Who survives a shipwreck: an outcome that chance has a part in, the larger the less the columns tell."""
    draw, rows = np.random.default_rng(seed), 620
    is_woman, cabin, age = draw.random(rows) < 0.35, draw.integers(1, 4, rows), draw.normal(30, 14, rows).clip(1)
    fare, kin = np.exp(draw.normal(4 - cabin, 0.7)), draw.poisson(0.5, rows)
    chance = np.where(is_woman, np.array([0.96, 0.92, 0.5])[cabin - 1], np.array([0.37, 0.16, 0.14])[cabin - 1])
    chance = np.where((age < 10) & (cabin < 3), 0.95, chance)
    return np.c_[is_woman, cabin, age, fare, kin], (draw.random(rows) < chance).astype(int)


def flipped(seed: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """A fifth of the labels is wrong."""
    draw = np.random.default_rng(seed)
    inputs = draw.normal(size=(620, 4))
    labels = inputs[:, 0] + inputs[:, 1] * inputs[:, 2] + 0.3 * draw.normal(size=620) > 0
    return inputs, np.where(draw.random(620) < 0.2, ~labels, labels).astype(int)


@pytest.mark.requirement("DIAG-7")
@pytest.mark.parametrize(("drawn", "least", "most"), [(survival, 0, 0), (flipped, 2, 3)])
def test_chance_in_an_outcome_is_no_wrong_label(drawn, least, most):
    doubted = [label_errors.are_everywhere(labels, label_errors.out_of_fold(inputs, labels)) for inputs, labels in map(
        drawn, range(3))]  # fmt: skip
    assert least <= sum(doubted) <= most, doubted
