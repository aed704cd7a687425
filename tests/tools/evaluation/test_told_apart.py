"""Whether two programs are told apart: by the interval, and of predicted classes by the rows that differ."""

from __future__ import annotations

from typing import Any

import pytest
from scipy import stats

from trainwright.tools.evaluation.statistics import exact_p
from trainwright.tools.evaluation.told_apart import shown_by

pytestmark = pytest.mark.requirement("PIPE-3", "GATE-6")
NAMES = ("v2", "v1")


def paired(*ends: float, differ: tuple[int, int] | None = None) -> dict[str, Any]:
    names = ("accuracy", "f1", "recall_micro", "auc")
    found: dict[str, Any] = {"rows": 60, "intervals": {name: list(ends) for name in names} if ends else {}}
    return found | ({"classes": dict(zip(("only_first", "only_second"), differ, strict=True))} if differ else {})


@pytest.mark.parametrize(
    ("interval", "is_minimized", "word"),
    [
        ((0.1, 0.2), False, "better"), ((0.1, 0.2), True, "worse"), ((-0.2, -0.1), True, "better"),
        ((-0.2, -0.1), False, "worse"), ((-0.1, 0.2), False, "not told apart"), ((), True, "not told apart"),
    ],
)  # fmt: skip
def test_a_word_follows_from_the_interval_and_the_metrics_direction(
    interval: tuple[float, ...], word: str, *, is_minimized: bool
) -> None:
    assert shown_by(paired(*interval), "auc", NAMES, is_minimized=is_minimized).word == word


@pytest.mark.parametrize(
    ("differ", "metric", "word"),
    [
        ((4, 0), "accuracy", "not told apart"), ((4, 0), "recall_micro", "not told apart"),
        ((4, 0), "f1", "not told apart"), ((4, 0), "auc", "better"),
        ((9, 2), "accuracy", "not told apart"), ((9, 2), "f1", "better"),
        ((6, 0), "accuracy", "better"), ((12, 2), "accuracy", "better"), (None, "accuracy", "better"),
    ],
)  # fmt: skip
def test_classes_are_told_apart_by_the_exact_test_of_the_rows_that_differ_too(
    differ: tuple[int, int] | None, metric: str, word: str
) -> None:
    found = shown_by(paired(0.01, 0.08, differ=differ), metric, NAMES, is_minimized=False)
    assert (found.word, found.side) == (word, "better"), "the side of the interval stays known"
    assert bool(found.few) is (word != "better")


def test_of_several_comparisons_together_interval_and_exact_test_are_wider() -> None:
    one, of_20 = (shown_by(paired(-0.3, -0.1, differ=(0, 7)), "accuracy", NAMES, is_minimized=False, together=count)
                  for count in (1, 20))  # fmt: skip
    assert (one.interval, one.word) == ((-0.3, -0.1), "worse")
    assert of_20.interval == pytest.approx((-0.2 - 0.1 * 3.0233 / 1.96, -0.2 + 0.1 * 3.0233 / 1.96), rel=1e-3)
    assert of_20.few == "0 rows right by v2 alone, 7 by v1 alone: McNemar's exact test, p = 0.0156"


def test_no_row_that_differs_is_no_certainty() -> None:
    found = shown_by(paired(0.0, 0.0, differ=(0, 0)), "accuracy", NAMES, is_minimized=False)
    assert (found.interval, found.word, found.few) == ((-0.05, 0.05), "not told apart", "")


@pytest.mark.parametrize("differ", [(0, 0), (0, 5), (5, 0), (3, 3), (12, 31), (4000, 4200), (0, 3000)])
def test_the_exact_test_is_scipys(differ: tuple[int, int]) -> None:
    expected = stats.binomtest(differ[0], sum(differ)).pvalue if sum(differ) else 1.0
    assert exact_p(dict(zip(("only_first", "only_second"), differ, strict=True))) == pytest.approx(expected, rel=1e-8)
