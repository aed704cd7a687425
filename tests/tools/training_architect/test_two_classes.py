"""Metrics of class number 1 of two: which class it is, is said, and how the other becomes it."""

# polars reads the tables in this process: tests that fork it come before (tests/scheduling.py)

from __future__ import annotations

import pytest
from tests.tools.training_architect.sentences import asked, table

from trainwright.tools.training_architect.intent import with_intent
from trainwright.tools.training_architect.reading import read_task
from trainwright.tools.training_architect.request import read_request
from trainwright.trainer.config.goal_words import spoken_goals

pytestmark = pytest.mark.requirement("ARCH-1")


@pytest.mark.parametrize(
    ("sentence", "metric", "target"),
    [
        ("U-Net on the masks, Dice at least 0.85", "dice", 0.85),
        ("mean Dice per image of 0.9", "dice_per_image", 0.9),
        ("mIoU of 70 %", "mean_iou", 0.7),
        ("top-5 accuracy 90 %", "top_5_accuracy", 0.9),
        ("top 3 accuracy of at least 0.8", "top_3_accuracy", 0.8),
        ("F1 of class 1 above 0.7", "f1_binary", 0.7),
        ("a false negative rate below 5 %", "recall_binary", 0.95),
    ],
)
def test_numbers_in_a_metrics_name_or_class_are_no_targets(sentence, metric, target):
    (found,) = spoken_goals(sentence).named
    assert (found.word.metric, found.target) == (metric, pytest.approx(target))


@pytest.mark.parametrize(
    ("sentence", "data", "said"),
    [
        ("find spam with precision of at least 99 %", "sms.csv", "precision_binary is of 'spam', class 1"),
        ("who survives? recall of at least 0.85", "titanic.csv", "one answer for all has recall_binary 1"),
        ("find spam; recall of 'ham' at least 0.95", "sms.csv", "the recall of 'ham', class 0, is specificity"),
        ("spam, IoU of 0.8", "sms.csv", "mean_iou counts it as a class"),
    ],
)
def test_what_is_taken_of_a_metric_of_class_1_is_said(sentence, data, said):
    _, reading = asked(sentence, data)
    assert any(said in one for one in reading.assumed)


@pytest.mark.parametrize("metric", [None, "f1"])
def test_an_f1_of_two_classes_is_told_once_as_the_mean_of_both_beside_that_of_class_1(metric):
    data = {"use": "csv", "args": {"path": "titanic.csv", "target": "survived"}}
    asked_for = {} if metric is None else {"metric": metric}
    request, _ = with_intent(read_request(intent="F1 of at least 0.7: who survived", data=data, **asked_for))
    told = [one for one in read_task(request, {"data": table("titanic.csv")}).assumed if "macro" in one]
    assert told == ["f1 is the mean of both classes (macro); that of '1' alone is f1_binary"]


def test_two_classes_are_turned_round_as_the_question_says():
    sentence = "spam, F1 of the class ham at least 0.9"
    _, reading = asked(sentence, "sms.csv")
    labels = {"spam": "0 spam", "ham": "1 ham"}
    assert f"data.args.labels={labels} turns them round" in reading.questions[0].asks
    data = {"use": "csv", "args": {"path": "sms.csv", "target": "label", "labels": labels}}
    request, _ = with_intent(read_request(intent=sentence, data=data))
    turned = read_task(request, {"data": table("sms.csv")})
    assert (turned.questions, turned.goal.metric) == ([], "f1_binary")
    assert any("f1_binary is of '1 ham', class 1" in one for one in turned.assumed)
