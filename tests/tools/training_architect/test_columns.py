"""Columns that sentences name: predicted alone or with others, kept apart, over time; and what is asked of them."""

# polars reads the tables in this process: tests that fork it come before (tests/scheduling.py)

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from tests.tools.training_architect.sentences import ROWS, asked, plan_of, table

from trainwright.tools.projects.goals import other_than_said
from trainwright.tools.training_architect.answers import questions_answer
from trainwright.tools.training_architect.documents import DOCUMENTS
from trainwright.tools.training_architect.intent import with_intent
from trainwright.tools.training_architect.reading import read_task
from trainwright.tools.training_architect.request import read_request
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.config import parse_config
from trainwright.trainer.jobs import inspection

pytestmark = pytest.mark.requirement("ARCH-1")


@pytest.mark.parametrize(
    ("data", "remedy"),
    [
        (
            {"use": "csv", "args": {"path": "clips.csv", "target": "<clip|…|state>"}},
            "it is: machine, state, clip, and 16 more.",
        ),
        ({"use": "csv", "args": {"path": "clips.csv", "target": "stat"}}, "it is: machine, state, clip, and 16 more."),
        ({"use": "csv", "args": {"path": "clips.csv"}, "split": {"by": "group", "group": "<machine|x>"}}, "machine, "),
        ("<data>", "which data it is"),
    ],
)
def test_a_form_that_nobody_filled_in_and_a_column_that_is_not_there_are_refused_with_those_that_are(data, remedy):
    with pytest.raises(ConfigurationError, match="no column of the file|a form that nobody") as refused:
        asked("the state of a machine, accuracy of 0.75", "clips.csv", data=data)
    assert remedy in refused.value.remedy
    assert "changes" not in refused.value.details


SEVERAL = [
    ("which teams does it go to? It can be for several of billing, login and cancel (1 = yes). F1 of 0.85",
     "tickets.csv", ("billing", "login", "cancel"), "bce_with_logits"),
    ("multi-label: cancel and billing of a ticket, F1 of 0.8", "tickets.csv", ("cancel", "billing"), "bce_with_logits"),
    ("predict two things at once from the text: whether it is about billing, and whether they cancel; F1 of 0.8",
     "tickets.csv", ("billing", "cancel"), "bce_with_logits"),
    ("predict x, y and z from carat and cut, r2 of 0.8", "diamonds.csv", ("x", "y", "z"), "mse"),
    ("Aus diamonds.csv: sage x (mm), y und z gemeinsam voraus, R2 von 0.8", "diamonds.csv", ("x", "y", "z"), "mse"),
    *((sentence, "mixtures.csv", ("druckfestigkeit_mpa", "ausbreitmass_mm", "erstarrung_h"), "mse") for sentence in (
        "Ein gemeinsames Modell für Druckfestigkeit, Ausbreitmaß und Erstarrung, R2 ab 0.85",
        "One joint model for druckfestigkeit, ausbreitmass and erstarrung, mean R2 of at least 0.85",
    )),
]  # fmt: skip


@pytest.mark.parametrize(("sentence", "data", "columns", "loss"), SEVERAL)
def test_several_columns_are_planned_together_and_none_is_an_input_where_one_is_named(
    sentence, data, columns, loss
):  # fmt: skip
    plan = plan_of(sentence, data)
    assert (plan.config["data"]["args"]["target"], plan.config["loss"]) == (list(columns), loss)
    told = [
        f"{', '.join(columns)} are predicted together, by one model",
        "a goal is of the mean of the targets, not of each",
    ]
    assert set(told) <= set(plan.assumed)
    parse_config(plan.config)
    one = {"use": "csv", "args": {"path": data, "target": columns[0]}}
    alone = asked(sentence, data, data=one)[1]
    assert (alone.targets, alone.others) == ([columns[0]], list(columns[1:]))
    several = {"use": "csv", "args": {"path": data, "target": list(columns)}}
    goal = "r2 of 0.8" if loss == "mse" else "F1 of 0.8"
    assert plan_of(f"learn it, {goal}", data, data=several).config["loss"] == loss


@pytest.mark.requirement("ARCH-1")
@pytest.mark.parametrize(("sentence", "data", "metric"), [
    ("predict x, y and z from carat and cut, each of the three with r2 of at least 0.9", "diamonds.csv", "worst_r2"),
    ("predict x, y and z from carat and cut, mape of at most 5 % for each of them", "diamonds.csv", "worst_mape"),
    ("Aus diamonds.csv: sage x, y und z gemeinsam voraus, jede der drei mit R2 ab 0.9", "diamonds.csv", "worst_r2"),
    ("predict x, y and z of each stone, r2 of at least 0.9", "diamonds.csv", "r2"),
    ("multi-label: cancel and billing of a ticket, F1 of 0.8 for each of the two", "tickets.csv", "f1"),
])  # fmt: skip
def test_a_bound_for_each_of_several_is_one_of_the_worst(sentence, data, metric):
    plan = plan_of(sentence, data)
    assert (plan.goal.metric, plan.config["metrics"][0]) == (metric, metric)
    assert other_than_said(sentence, {"metric": metric}) == []
    said = " ".join(plan.assumed)
    assert ("that of the worst" in said) is metric.startswith("worst_")
    assert ("evaluation_gate.minimum {'f1 of cancel': 0.8" in said) is (metric == "f1")


def test_numbers_and_classes_at_once_are_refused_with_the_page_and_with_a_project_each():
    with pytest.raises(ConfigurationError, match="cut has 3 classes, price has numbers") as refused:
        asked("predict `cut` and `price`, as well as you can", "diamonds.csv")
    assert "objective multi_task" in refused.value.remedy
    assert "'target': 'cut'" in refused.value.remedy
    assert refused.value.document == "configs/several_targets.md"
    assert "multi_task" in (DOCUMENTS.parent / str(refused.value.document)).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("sentence", "data", "choices"),
    [
        ("The pclass is known for half of the passengers, accuracy 0.8", "titanic.csv", ["pclass", "survived"]),
        ("use sex, AUC 0.8", "titanic.csv", ["sex", "survived"]),
        ("We have passengers with sex. Classify them, AUC 0.8", "titanic.csv", ["sex", "survived"]),
    ],
)
def test_a_column_that_may_be_an_input_or_the_target_is_asked_about(
    sentence: str, data: str, choices: list[str]
) -> None:
    reading = asked(sentence, data)[1]
    assert (reading.target, [one.choices for one in reading.questions]) == (None, [choices])


@pytest.mark.parametrize(
    "sentence",
    [
        "which teams does a ticket go to? One ticket can be for several teams. F1 of at least 0.85",
        "multi-label classification of tickets.csv into the three team columns, F1 of 0.85",
        "die letzten drei Spalten gemeinsam, F1 0.85",
    ],
)
def test_whoever_wants_several_at_once_without_naming_them_is_told_how_they_are_named(sentence: str) -> None:
    (question,) = asked(sentence, "tickets.csv")[1].questions
    assert "Several that one model predicts at once are a list of them, data.args.target." in question.asks


def test_inputs_that_are_answers_like_the_target_are_said() -> None:
    wide = {**table("titanic.csv"), "columns": [*table("titanic.csv")["columns"], *table("tickets.csv")["columns"][1:]]}
    request = read_request(intent="predict survived, AUC 0.8", data="titanic.csv")
    (told,) = [one for one in read_task(request, {"data": wide}).assumed if "are inputs" in one]
    assert told.startswith("billing, login, cancel are inputs, and are 0 or 1 as 'survived' is")
    assert not any("are inputs" in one for one in asked("predict survived, AUC 0.8", "titanic.csv")[1].assumed)


@pytest.mark.parametrize(
    ("sentence", "data", "target"),
    [
        ("x, y and z drive the price; r2 of 0.8", "diamonds.csv", "price"),
        ("Use price as the target, r2 of 0.8", "diamonds.csv", "price"),
        ("predict price from carat for the output of the mine, r2 of 0.8", "diamonds.csv", "price"),
        ("predict price; do not use carat as the target, r2 of 0.8", "diamonds.csv", "price"),
        ("Train a classifier with pclass as the label, accuracy 0.8", "titanic.csv", "pclass"),
        ("The price is known for 400 diamonds, predict it, r2 of 0.8", "diamonds.csv", "price"),
        ("Which treatment causes illness? The sex; predict sex, accuracy 0.8", "titanic.csv", "sex"),
        ("Sage die Druckfestigkeit voraus, R2 ab 0.85", "mixtures.csv", "druckfestigkeit_mpa"),
        ("estimate how carat and cut affect price, r2 of 0.8", "diamonds.csv", "price"),
        ("predict which carat and cut lead to a high price, r2 of 0.8", "diamonds.csv", "price"),
        ("predict price, carat and cut being the inputs, r2 of 0.8", "diamonds.csv", "price"),
        ("predict price, x and y are measured in mm, r2 of 0.8", "diamonds.csv", "price"),
        ("predict whether sex and age decide who survived, AUC 0.8", "titanic.csv", "survived"),
        ("sex, age, pclass -> survived, AUC 0.8", "titanic.csv", "survived"),
        ("predict whether they survived, AUC 0.8. Tell me whether sex matters", "titanic.csv", "survived"),
        (
            "predict whether they survived; age and sex together: whether age helps, AUC 0.8",
            "titanic.csv",
            "survived",
        ),
        ("price mit x, y und z schätzen, R2 0.8", "diamonds.csv", "price"),
        ("predict price from `carat`, r2 of 0.8", "diamonds.csv", "price"),
        ("using `carat`, predict price, r2 of 0.8", "diamonds.csv", "price"),
        ("predict price (the `carat` column is an input), r2 of 0.8", "diamonds.csv", "price"),
        ("drop 'x' and predict price without \"cut\", r2 of 0.8", "diamonds.csv", "price"),
        ("Aus `carat` den Preis (price) vorhersagen, R2 0.8", "diamonds.csv", "price"),
        ("predict price; the `carat` has a unit, r2 of 0.8", "diamonds.csv", ["price", "carat"]),
        ("predict who survived: target column `alive`, AUC 0.8", "titanic.csv", ["survived", "alive"]),
    ],
)
def test_columns_that_are_named_as_inputs_are_not_predicted_and_two_that_could_be_are_asked_about(
    sentence, data, target
):  # fmt: skip
    _, reading = asked(sentence, data)
    assert [one.choices for one in reading.questions] == ([target] if isinstance(target, list) else [])
    alone = (None if isinstance(target, list) else target, [], [])
    assert (reading.target, reading.further, reading.others) == alone


def test_of_several_columns_those_that_are_not_predicted_are_left_out_and_a_forecast_has_them_all():
    one = {"use": "csv", "args": {"path": "diamonds.csv", "target": "y"}}
    plan = plan_of("predict x, y and z, MAE at most 0.5", "diamonds.csv", data=one)
    assert plan.config["data"]["args"]["columns"] == {"x": "ignore", "z": "ignore"}
    assert any("x, z: no inputs" in one for one in plan.assumed)
    series = plan_of("forecast load and wind of the next 3 hours, MAE at most 2", "load.csv")
    assert series.config["data"]["args"]["target"] == ["load", "wind"]
    assert series.config["data"]["args"]["series"] == {"window": 24, "horizon": 3}
    scaled = plan_of("forecast load and wind of the next 3 hours, MASE below 0.9", "load.csv")
    assert (scaled.goal.metric, scaled.goal.target, scaled.config["metrics"][0]) == ("mase", 0.9, "mase")


@pytest.mark.parametrize(
    ("sentence", "data", "split", "said"),
    [
        ("predict sold, split by day, MAE of 9", "shops.csv", {"by": "time", "time": "day"}, "the latest rows are the"),
        (
            "predict load, split by time, MAE of 9",
            "load.csv",
            {"by": "time", "time": "date"},
            "the latest rows are the",
        ),
        ("predict sold, do not split by day, MAE of 9", "shops.csv", None, "'sold' is what the sentence wants"),
        ("predict sold, split by shop, MAE of 9", "shops.csv", {"by": "group", "group": "shop"}, "stay in one split"),
        ("predict survived, split by sex, AUC 0.8", "titanic.csv", None, "not split by 'sex', of which there are 2"),
        ("predict state, accuracy of 0.75", "clips.csv", None, "'machine' has 50 values in 400 rows: where the model"),
    ],
)
def test_a_split_that_is_asked_for_is_by_time_or_by_group_or_said_not_to_be(sentence, data, split, said):
    reading = asked(sentence, data)[1]
    assert reading.split == split
    assert any(said in one for one in reading.assumed), reading.assumed


@pytest.mark.parametrize(
    ("sentence", "data", "group"),
    [
        ("predict state, accuracy of 0.75 on machines that are in no part of the training", "clips.csv", "machine"),
        ("the state of a machine that nobody has listened to before: predict state, F1 0.7", "clips.csv", "machine"),
        ("predict state, accuracy 0.75 on unseen machines", "clips.csv", "machine"),
        ("predict state for new industrial machines, accuracy 0.75", "clips.csv", "machine"),
        ("state vorhersagen, Genauigkeit 75 % auf Maschinen, die es nicht kennt", "clips.csv", None),
        ("predict state, accuracy 0.75 on patients it has never seen", "clips.csv", None),
        ("predict state, accuracy 0.75; the rows of a machine stay together", "clips.csv", "machine"),
        ("predict state, accuracy 0.75; split by machine", "clips.csv", "machine"),
        ("predict state, accuracy 0.75 on machines outside the training set", "clips.csv", "machine"),
        ("predict state, accuracy 0.75 on unseen rows", "clips.csv", ""),
        ("predict state, accuracy 0.75 on the held-out set", "clips.csv", ""),
        ("predict state for unknown reasons, accuracy 0.75", "clips.csv", ""),
        ("predict state with a new machine learning method, accuracy 0.75", "clips.csv", ""),
        ("predict state, accuracy 0.75 on machines it has seen", "clips.csv", ""),
        ("predict state, accuracy 0.75. This is a new project; we have never trained a network", "clips.csv", ""),
        ("predict state, accuracy 0.75. The machine must not be trained for more than 2 hours", "clips.csv", ""),
        ("predict state of a machine, accuracy 0.75", "clips.csv", ""),
        ("predict state from clip and machine together, accuracy 0.75", "clips.csv", ""),
        ("we have a network that has never seen patients: predict state, accuracy 0.75", "clips.csv", ""),
        ("predict price on diamonds it has not seen, r2 of 0.7", "diamonds.csv", ""),
    ],
)
def test_whom_training_is_not_to_know_is_kept_apart_by_its_column_or_asked_about(sentence, data, group):
    request, reading = asked(sentence, data)
    if group is None:
        (question,) = reading.questions
        assert (question.argument, question.choices) == ("group_column", ["machine", "none"])
        for answer, split in (("machine", {"by": "group", "group": "machine"}), ("none", {"by": "random"})):
            answered = request.with_answers({"group_column": answer})
            filled = read_request(intent=sentence, data={**request.data, "split": {"by": "group", "group": answer}})
            assert answered.data["split"] == filled.data["split"] == split
            assert read_task(answered, {"data": table(data)}).questions == []
        return
    assert reading.questions == []
    assert reading.split == ({"by": "group", "group": group} if group else None)
    assert plan_of(sentence, data).config["data"].get("split") == reading.split


def test_a_column_that_tells_the_target_in_every_row_is_left_out_and_named():
    plan = plan_of("Predict survived on the Titanic, ROC AUC at least 0.85", "titanic.csv")
    assert plan.config["data"]["args"]["columns"] == {"alive": "ignore"}
    assert any("'alive' tells 'survived'" in one for one in plan.assumed)
    assert plan.config["metrics"] == ["auc"]


def test_what_stands_last_in_a_wide_table_can_be_predicted_and_a_named_column_comes_first():
    wide = pl.LazyFrame({**{f"p{n}": np.arange(ROWS) % 200 for n in range(100)}, "digit": np.arange(ROWS) % 10})
    found = inspection._of_frame(wide, None, None, is_table=True)
    request, _ = with_intent(read_request(intent="Predict the digit, accuracy of 97 %", data="digits.csv"))
    assert read_task(request, {"data": found}).target == "digit"
    request, _ = with_intent(read_request(intent="regress it, given p95, r2 of 0.9", data="digits.csv"))
    (question,) = read_task(request, {"data": found}).questions
    assert question.choices == ["p95", "p0", "p1", "p2", "p3", "p4", "p94", "p96", "p97", "p98", "p99", "digit"]
    assert "48 more" in question.asks


@pytest.mark.parametrize(
    ("sentence", "data", "series", "time"),
    [
        ("forecast the load of the next 24 hours, MAE at most 2", "load.csv", {"window": 24, "horizon": 24}, "date"),
        ("load der nächsten 2 Tage vorhersagen, MAE höchstens 2", "load.csv", {"window": 50, "horizon": 48}, "date"),
        ("predict load 3 rows ahead with a MAE of 1", "load.csv", {"window": 24, "horizon": 3}, "date"),
        ("forecast sold for the next week, MAE at most 5", "shops.csv",
         {"window": 12, "horizon": 7, "group": "shop"}, "day"),
    ],
)  # fmt: skip
def test_a_horizon_over_rows_of_even_dates_plans_windows_split_by_time(sentence, data, series, time):
    plan = plan_of(sentence, data)
    assert plan.task == "series_regression"
    assert plan.config["data"]["args"]["series"] == series
    assert plan.config["data"]["split"] == {"by": "time", "time": time}
    assert plan.config["model"] == {"use": "dlinear", "args": {"from_last": True}}
    assert plan.config["optimizer"]["learning_rate"] == 3e-4, "it begins as good as the last value"
    assert plan.config["target_scaling"] == "standardize"
    assert any("rows are seen before each horizon" in one for one in plan.assumed)


@pytest.mark.parametrize(
    ("spans", "split", "words"),
    [
        ("12 months to train, 4 to validate, 4 to test", {"validation": 0.2, "test": 0.2}, "are shares of all rows"),
        ("train on the first 10 days, validate on 4 days and test on the last 2",
         {"borders": ["2024-01-11", "2024-01-15", "2024-01-17"]}, "rows from 2024-01-17 on are left out"),
        ("split 12, 2, 2 days", {"borders": ["2024-01-13", "2024-01-15", "2024-01-17"]}, "the test at 2024-01-15"),
        ("split by time, 300/50/50 rows", {"borders": ["2024-01-13T12:00:00", "2024-01-15T14:00:00"]}, "300, 50, 50 r"),
        ("test on the last 4 days", {}, ""),
        ("10 days to train, 2 weeks to validate, 4 days to test", {}, ""),
    ],
)  # fmt: skip
def test_how_far_back_and_ahead_and_how_long_each_split_is_are_the_sentences(spans, split, words):
    plan = plan_of(
        f"From the last 30 hours of all columns forecast load of the next 6; {spans}; MAE at most 2", "load.csv"
    )
    assert plan.config["data"]["args"]["series"] == {"window": 30, "horizon": 6}
    assert plan.config["data"]["split"] == {"by": "time", "time": "date", **split}
    assert any(words in one for one in plan.assumed)
    assert any("of training, validation and test" in one for one in plan.assumed) is bool(split)
    assert not any("rows are seen before each horizon" in one for one in plan.assumed)


@pytest.mark.parametrize(
    ("sentence", "target", "task"),
    [
        ("predict the outage of the next hour", "outage", "table_classification"),
        ("forecast outage 3 hours ahead, AUC 0.8", "outage", "table_classification"),
        ("forecast weather of the next hour, accuracy of 0.9", "weather", "table_classification"),
        ("forecast outage of the next 3 hours, MAE at most 0.2", "outage", "series_regression"),
    ],
)
def test_a_forecast_of_classes_is_of_rows_in_order_of_time_and_what_its_column_holds_is_said(
    sentence, target, task
):  # fmt: skip
    _, reading = asked(sentence, "load.csv")
    assert (reading.questions, reading.target, reading.task) == ([], target, task)
    assert reading.split == {"by": "time", "time": "date"}
    is_table = task == "table_classification"
    assert (reading.series is None, any("Shift the column" in one for one in reading.assumed)) == (is_table, is_table)


def test_what_is_open_of_a_forecast_is_asked_at_once_and_its_answers_are_taken():
    request, reading = asked("time series forecasting of my load", "load.csv")
    assert [one.argument for one in reading.questions] == ["horizon", "target"]
    answer = questions_answer(request, reading.questions, [])
    assert answer.next is not None
    assert answer.next.arguments["data"]["args"]["series"] == {"horizon": "<horizon>"}
    again = read_task(request.with_answers({"horizon": 6, "target": 2.0}), {"data": table("load.csv")})
    assert (again.questions, again.series) == ([], {"window": 24, "horizon": 6})
    minutes = asked("load of the next 5 minutes, MAE at most 2", "load.csv")[1].questions
    assert minutes[0].asks.startswith("5 minutes are no whole number of rows (a row is 1 hour).")


def test_a_horizon_without_a_series_is_asked_about_and_a_named_task_is_no_forecast():
    spending = "spending of the next 30 days, accuracy 0.9"
    question = asked(spending, "customers.csv")[1].questions[0]
    assert (question.argument, question.choices[1]) == ("task", "table_classification")
    assert asked(spending, "customers.csv", task="table_classification")[1].series is None
    churn = asked("which customers churned within the next 30 days, accuracy 0.9", "customers.csv")[1]
    assert (churn.questions, churn.series) == ([], None), "asked of each row"
    assert asked("predict load from wind, MAE at most 3", "load.csv")[1].series is None


@pytest.mark.parametrize(
    ("sentence", "data", "says"),
    [
        ("predict state, accuracy 0.75 on unseen machines", "clips.csv", ["50 groups leave 8 for validation"]),
        ("which customers churned, accuracy 0.9", "customers.csv", ["400 rows leave 60 for validation"]),
        ("forecast the load of the next 24 hours, MAE at most 2", "load.csv", []),
    ],
)
def test_folds_are_advised_before_any_result_where_little_is_left_to_measure_by(sentence, data, says):
    advice = [one for one in plan_of(sentence, data).assumed if "data.split.folds 5" in one]
    assert [one.partition(",")[0] for one in advice] == says


@pytest.mark.parametrize(
    ("names", "sentence", "target"),
    [
        (("level", "level4"), "predict level4 from the rest", "level4"),
        (("method", "method2"), "predict method2 from the rest", "method2"),
        (("ranks", "rank"), "predict rank from the rest", "rank"),
        (("p95", "P95"), "predict P95 from the rest", "P95"),
        (("", "kind"), "which kind is it?", "kind"),
        (("y", "id"), "predict id from the rest", "id"),
        (("Weight", "Pig"), "Predict a pig's weight from what it has eaten, for pigs it has never seen", "Weight"),
        (("house", "price"), "predict the house price", "price"),
        (("lvr", "deny"), "predict which applications are denied", "deny"),
        (("age", "fail"), "which machines failed, of those aged above 9?", "fail"),
    ],
)
def test_the_column_that_is_named_as_it_is_written_comes_before_those_that_are_alike(names, sentence, target):
    columns = {"data": {"rows": 90, "columns": [
        {"name": name, "kind": "category", "different": 5, "rows": 90, "nulls": 0} for name in names
    ]}}  # fmt: skip
    reading = read_task(read_request(intent=f"{sentence}, accuracy of 0.8", data="x.csv"), columns)
    assert reading.target == target
