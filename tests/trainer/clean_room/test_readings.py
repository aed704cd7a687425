"""Usual other readings of a metric's name, beside scikit-learn."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from sklearn import metrics as known

from trainwright.trainer.clean_room import metrics
from trainwright.trainer.clean_room.readings import readings

pytestmark = pytest.mark.requirement("GATE-6")


def read(name: str, outputs: Any, targets: Any) -> dict[str, float]:
    kept = metrics.OF_OUTPUTS[name][0](outputs, targets)
    return readings(name, kept, targets, metrics.compute(name, outputs, targets))


@pytest.mark.parametrize(
    ("name", "outputs", "targets"),
    [
        ("auc", np.array([True, False, True]), np.array([1, 0, 0])),
        ("f1", np.zeros((2, 3)), np.full((2, 3), metrics.IGNORED)),
    ],
)
def test_readings_of_odd_outputs_decide_nothing(name: str, outputs: Any, targets: Any) -> None:
    found = readings(name, outputs, targets, 0.5)
    assert all(np.isfinite(value) for value in found.values())
    assert ("average_precision" in found) == (name == "auc")


@pytest.mark.parametrize("seed", range(5))
def test_readings_are_scikit_learns(seed: int) -> None:
    draws = np.random.default_rng(seed)
    rows, labels = 80, (80, 5)
    two, wanted = draws.normal(size=(rows, 2)), draws.integers(0, 2, rows)
    many, classes = draws.normal(size=(rows, 4)), draws.integers(0, 4, rows)
    several, yes = draws.normal(size=labels), draws.integers(0, 2, labels)
    numbers, values = draws.normal(size=rows), draws.normal(size=rows)
    tags, tokens = draws.normal(size=(20, 7, 4)), draws.integers(0, 4, (20, 7))
    tokens[:, 5:] = metrics.IGNORED
    kept = tokens != metrics.IGNORED
    decided, guessed, chosen, scores = two.argmax(1), many.argmax(1), several > 0, two[:, 1] - two[:, 0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = [
            ("f1", two, wanted, "f1_binary", known.f1_score(wanted, decided)),
            ("f1", two, wanted, "that of class 0 alone", known.f1_score(wanted, decided, pos_label=0)),
            ("f1", many, classes, "f1_weighted", known.f1_score(classes, guessed, average="weighted")),
            ("f1", many, classes, "f1_micro", known.accuracy_score(classes, guessed)),
            ("f1", many, classes, "dice", known.f1_score(classes, guessed, average="macro", labels=[1, 2, 3])),
            ("f1", several, yes, "f1_micro", known.f1_score(yes, chosen, average="micro")),
            ("f1", several, yes, "the mean over rows",
             known.f1_score(yes, chosen, average="samples", zero_division=0)),
            ("f1", tags, tokens, "f1_weighted",
             known.f1_score(tokens[kept], tags.argmax(-1)[kept], average="weighted")),
            ("recall_binary", two, wanted, "that of class 0 alone", known.recall_score(wanted, decided, pos_label=0)),
            ("accuracy", several, yes, "the share of rows with every label right", known.accuracy_score(yes, chosen)),
            ("accuracy", many, classes, "balanced_accuracy", known.balanced_accuracy_score(classes, guessed)),
            ("balanced_accuracy", many, classes, "accuracy", known.accuracy_score(classes, guessed)),
            ("mean_iou", two, wanted, "foreground_iou", known.jaccard_score(wanted, decided)),
            ("mean_iou", many, classes, "the mean weighted by the classes' rows",
             known.jaccard_score(classes, guessed, average="weighted")),
            ("auc", two, wanted, "the area of decided classes in place of scores",
             known.roc_auc_score(wanted, decided)),
            ("auc", two, wanted, "average_precision", known.average_precision_score(wanted, scores)),
            ("rmse", numbers, values, "mse", known.mean_squared_error(values, numbers)),
            ("mae", numbers, values, "median_absolute_error", known.median_absolute_error(values, numbers)),
            ("accuracy", many, classes, "the same in percent", 100 * known.accuracy_score(classes, guessed)),
        ]  # fmt: skip
    for name, outputs, targets, words, value in expected:
        assert read(name, outputs, targets)[words] == pytest.approx(value), (name, words)
