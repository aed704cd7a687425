"""The worst rows in words: a label that a typing error made ten times too large shows without a picture."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from trainwright.tools.projects.comparing import worst_in_words
from trainwright.tools.training_monitor.assessment import assess
from trainwright.trainer.jobs.evaluation.record import _ranges
from trainwright.trainer.run.evaluation import ShownRow
from trainwright.trainer.run.evidence import BestEpoch, Summary
from trainwright.trainer.run.specification import Goal

pytestmark = pytest.mark.requirement("MON-2", "DIAG-9")
GOAL = Goal(metric="accuracy", direction="maximize", target=0.9)
ROWS = 375


def priced(factor: float, rows: int = ROWS) -> tuple[dict[str, Any], float]:
    """Return the evaluation of predictions that lie too high, one price times a factor, and what five rows have."""
    rng = np.random.default_rng(0)
    true = rng.normal(8000, 800, rows)
    predicted, priced = true + 300 + rng.normal(0, 400, rows), np.where(np.arange(rows) == 7, factor * true, true)
    errors = np.square(predicted - priced)
    order = np.argsort(-errors)
    worst = [ShownRow(row=row, loss=errors[row], target=priced[row], prediction=predicted[row]) for row in order[:10]]
    ranges = [_ranges(priced, predicted)]
    return {"kind": "numbers", "rows": rows, "worst": worst, "ranges": ranges}, errors[order[:5]].sum() / errors.sum()


@pytest.mark.parametrize(("factor", "is_asked"), [(10.0, True), (1.0, False)])
def test_a_few_rows_with_much_of_the_error_are_named_with_the_question_after_their_labels(predicted, factor, is_asked):
    evaluation, share = priced(factor)
    run = predicted(evaluation=evaluation, loss=np.zeros(3))
    told = worst_in_words(run)
    asked = f"5 of {ROWS} validation rows have {100 * share:.0f} % of the squared error; are their labels right?"
    assert told.startswith(asked) is is_asked
    assert "row 7: label" in told or not is_asked
    run.write_evidence(Summary(best=BestEpoch(step=10, epoch=1)))
    with run.metrics(writer=True) as metrics:
        metrics.write([("epoch", 10, 1.0, 0.0), ("validation/accuracy", 10, 0.7, 0.0)])
    missed = next(one for one in assess(run, GOAL).reasons if one.startswith("The goal is missed"))
    assert (asked[:-1] in missed) is is_asked


def test_a_large_share_of_a_few_rows_or_of_classes_is_ordinary(predicted):
    of_class = {"rows": ROWS, "worst": [ShownRow(row=1, loss=9.0, target="yes", prediction="no")]}
    for name, evaluation in (("few", priced(10.0, rows=45)[0]), ("classes", of_class)):
        told = worst_in_words(predicted(name, evaluation=evaluation, loss=np.zeros(3)))
        assert told.startswith(("row 7: label", "row 1: label yes, predicted no"))


def test_rows_without_one_label_are_left_to_the_picture(predicted):
    assert worst_in_words(predicted(evaluation={"worst": [ShownRow(target=[1.0, 2.0])]}, loss=np.zeros(1))) is None
