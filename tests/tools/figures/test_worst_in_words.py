"""The worst rows in words: a label that a typing error made ten times too large shows without a picture."""

from __future__ import annotations

import numpy as np
import pytest

from trainwright.tools.projects.comparing import worst_in_words
from trainwright.tools.training_monitor.assessment import assess
from trainwright.trainer.run.evaluation import ShownRow
from trainwright.trainer.run.evidence import BestEpoch, Summary
from trainwright.trainer.run.specification import Goal

pytestmark = pytest.mark.requirement("MON-2", "DIAG-9")
GOAL = Goal(metric="accuracy", direction="maximize", target=0.9)
WORST = [ShownRow(row=3, source_row=812, loss=2.0, target=72260.0, prediction=7554.0), ShownRow(row=4, loss=0.2)]


@pytest.mark.parametrize(("mean", "is_asked"), [(0.02, True), (0.2, False)])
def test_a_few_rows_with_much_of_the_loss_are_named_with_the_question_after_their_labels(predicted, mean, is_asked):
    run = predicted(evaluation={"kind": "numbers", "rows": 375, "worst": WORST}, loss=np.zeros(3))
    run.write_evidence(Summary(best=BestEpoch(step=10, epoch=1, metrics={"loss": mean})))
    told = worst_in_words(run)
    assert told.endswith("source row 812: label 72260, predicted 7554")
    asked = "1 of 375 validation rows have 27 % of the loss; are their labels right?"
    assert told.startswith(asked) is is_asked
    with run.metrics(writer=True) as metrics:
        metrics.write([("epoch", 10, 1.0, 0.0), ("validation/accuracy", 10, 0.7, 0.0)])
    missed = next(one for one in assess(run, GOAL).reasons if one.startswith("The goal is missed"))
    assert (asked[:-1] in missed) is is_asked


def test_a_large_share_of_a_few_rows_or_of_classes_is_ordinary(predicted):
    of_class = ShownRow(row=1, loss=9.0, target="yes", prediction="no")
    for name, rows, worst in (("few", 40, WORST), ("classes", 375, [of_class])):
        run = predicted(name, evaluation={"rows": rows, "worst": worst}, loss=np.zeros(3))
        run.write_evidence(Summary(best=BestEpoch(metrics={"loss": 0.1})))
        assert worst_in_words(run).startswith(("source row 812: label", "row 1: label yes, predicted no"))


def test_rows_without_one_label_are_left_to_the_picture(predicted):
    assert worst_in_words(predicted(evaluation={"worst": [ShownRow(target=[1.0, 2.0])]}, loss=np.zeros(1))) is None
