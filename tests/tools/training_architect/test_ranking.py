"""Sentences that want rows ranked within groups: split, target and metric of such a plan, and what is none."""

# polars reads the tables in this process: tests that fork it come before (tests/scheduling.py)

from __future__ import annotations

import pytest
from tests.tools.training_architect.sentences import asked, plan_of

from trainwright.trainer.config import TrainingConfig
from trainwright.trainer.metrics.built_in import OF_GROUPS

pytestmark = pytest.mark.requirement("ARCH-1")
R = "table_regression"


QUERY, SEARCH = ("query_id", "relevance"), ("srch_id", "clicked")


@pytest.mark.parametrize(
    ("sentence", "data", "columns", "goal"),
    [
        ("rank the documents of each query by relevance, nDCG@10 at least 0.8", "ranked.csv", QUERY,
         ("group_ndcg_at_10", 0.8)),
        ("per query, rank documents by relevance: MRR above 0.6", "ranked.csv", QUERY, ("group_mrr", 0.6)),
        ("Sortiere die Dokumente jeder query nach Relevanz (relevance), NDCG@5 mindestens 70 %", "ranked.csv", QUERY,
         ("group_ndcg_at_5", 0.7)),
        ("rank each query's documents by relevance, at least 0.8", "ranked.csv", QUERY, ("group_ndcg_at_10", 0.8)),
        ("order the hotels of each search by clicks, recall@5 of 80 %", "hotels.csv", SEARCH,
         ("group_recall_at_5", 0.8)),
        ("rank hotels for a user by what is clicked, MAP of 0.7", "hotels.csv", SEARCH, ("group_map", 0.7)),
        ("learning to rank: predict the stars, nDCG of 0.9", "hotels.csv", ("srch_id", "stars"),
         ("group_ndcg_at_10", 0.9)),
    ],
)  # fmt: skip
def test_rows_of_a_group_are_ranked_where_sentence_and_columns_say_so(sentence, data, columns, goal):
    plan, (group, target) = plan_of(sentence, data), columns
    assert plan.task == R
    assert plan.config["data"]["split"] == {"by": "group", "group": group}
    assert plan.config["data"]["args"]["target"] == target
    assert (plan.config["metrics"], plan.goal.target) == ([goal[0]], goal[1])
    assert any(f"the rows of one {group!r} are ranked by {target!r}" in one for one in plan.assumed)
    assert TrainingConfig.model_validate(plan.config).loss == "mse"


def test_a_metric_of_the_call_is_enough():
    _, reading = asked("predict stars", "hotels.csv", metric="group_map", target=0.8)
    assert (reading.questions, reading.task, reading.target) == ([], R, "stars")
    assert reading.split == {"by": "group", "group": "srch_id"}


@pytest.mark.parametrize(
    ("sentence", "argument", "words"),
    [
        ("rank the documents of each query by relevance", "target", "group_ndcg_at_10, which is to rise"),
        ("rank the documents of each query by relevance, accuracy of 90 %", "metric", "accuracy is not measured"),
        ("rank the documents of each query by relevance, nDCG@20 of 0.9", "metric", "is not built in"),
    ],
)
def test_what_a_ranking_leaves_open_is_asked_with_its_own_metrics(sentence, argument, words):
    _, reading = asked(sentence, "ranked.csv")
    (question,) = reading.questions
    assert (question.argument, words in question.asks) == (argument, True)
    assert question.choices[: len(OF_GROUPS)] == (list(OF_GROUPS) if argument == "metric" else [])


def test_a_table_without_such_a_column_is_asked_for_it_or_said_to_have_none():
    request, reading = asked("learning to rank by state, nDCG@10 of 0.8", "clips.csv")
    question = reading.questions[0]
    assert (question.argument, question.choices) == ("group_column", ["machine", "none"])
    _, reading = asked("rank the diamonds of each shop by price, spearman of 0.8", "diamonds.csv")
    assert reading.split is None
    assert any("no column says of which 'shop' a row is" in one for one in reading.assumed)
    assert request.metric is None


def test_a_ranking_that_its_measure_tells_is_asked_for_its_groups_and_planned_once_they_are_given():
    sentence = "for a new traveller I want the ways ranked by choice, a mean reciprocal rank of 0.8"
    _, reading = asked(sentence, "trips.csv")
    assert reading.questions[0].argument == "group_column"
    assert "individual" in reading.questions[0].choices, "numbered, and each as often"
    use = {"use": "csv", "args": {"path": "trips.csv"}, "split": {"by": "group", "group": "individual"}}
    _, reading = asked(sentence, "trips.csv", data=use)
    assert (reading.questions, reading.ranks, reading.goal.metric) == ([], True, "group_mrr")


@pytest.mark.parametrize(
    ("sentence", "data", "task", "metric"),
    [
        ("predict what is clicked, accuracy 80 %", "hotels.csv", "table_classification", "accuracy"),
        ("predict the quality class of a wine, nDCG@10 of 80 %", "wine.csv", "table_classification", "ndcg_at_10"),
        ("predict clicked, in order of price for each search, AUC 0.8", "hotels.csv", "table_classification", "auc"),
    ],
)
def test_other_sentences_rank_nothing(sentence, data, task, metric):
    _, reading = asked(sentence, data)
    assert (reading.task, reading.goal.metric, reading.ranks) == (task, metric, False)
