"""Labels are doubted where a model knows more than they do; where it does not, they are not checked, and not passed."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import polars as pl
import pytest

from trainwright.trainer.data.validation.check import Context
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
