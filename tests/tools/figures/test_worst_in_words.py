"""The worst rows in words: a label that a typing error made ten times too large shows without a picture."""

from __future__ import annotations

import numpy as np
import pytest

from trainwright.tools.projects.comparing import worst_in_words
from trainwright.trainer.run.evaluation import ShownRow
from trainwright.trainer.run.evidence import BestEpoch, Summary

pytestmark = pytest.mark.requirement("MON-2", "DIAG-9")
WORST = [ShownRow(row=3, source_row=812, loss=2.0, target=72260.0, prediction=7554.0), ShownRow(row=4, loss=0.2)]


@pytest.mark.parametrize(("mean", "is_asked"), [(0.02, True), (0.2, False)])
def test_a_few_rows_with_much_of_the_loss_are_named_with_the_question_after_their_labels(predicted, mean, is_asked):
    run = predicted(evaluation={"kind": "numbers", "rows": 375, "worst": WORST}, loss=np.zeros(3))
    run.write_evidence(Summary(best=BestEpoch(metrics={"loss": mean})))
    told = worst_in_words(run)
    assert told.endswith("source row 812: label 72260, predicted 7554")
    assert told.startswith("1 of 375 validation rows have 27 % of the loss; are their labels right?") is is_asked


def test_rows_without_one_label_are_left_to_the_picture(predicted):
    assert worst_in_words(predicted(evaluation={"worst": [ShownRow(target=[1.0, 2.0])]}, loss=np.zeros(1))) is None
