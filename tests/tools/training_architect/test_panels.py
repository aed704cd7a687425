"""Series whose times are numbers: panels of a group and a year, what is asked of them, and the last value to beat."""

from __future__ import annotations

import re

import polars as pl
import pytest
from tests.tools.training_architect.sentences import asked, plan_of, table

from trainwright.tools.training_architect.answers import questions_answer
from trainwright.tools.training_architect.reading import read_task
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.jobs.table_times import times_of

pytestmark = pytest.mark.requirement("ARCH-1")
SERIES = "series_regression"
NEXT = "I want a model that tells me each state's sales of the next year"
BETTER = "better than just repeating this year's value"


@pytest.mark.parametrize(
    ("sentence", "data", "series", "time"),
    [
        (f"{NEXT}, MAE at most 2", "cigar.csv", {"window": 2, "horizon": 1, "group": "state"}, "year"),
        ("sales der nächsten 2 Jahre vorhersagen, MAE höchstens 2", "cigar.csv",
         {"window": 2, "horizon": 2, "group": "state"}, "year"),
        ("forecast sales 2 rows ahead, MAE at most 2", "cigar.csv",
         {"window": 2, "horizon": 2, "group": "state"}, "year"),
        ("predict co2 of the next 6 steps, MAE of at most 2", "gas.csv", {"window": 12, "horizon": 6}, "t"),
        ("forecast co2 for the next 3 periods, MAE of at most 2", "gas.csv", {"window": 8, "horizon": 3}, "t"),
    ],
)  # fmt: skip
def test_numbered_times_are_a_series_and_the_column_that_parts_them_is_its_group(sentence, data, series, time):
    plan = plan_of(sentence, data)
    assert plan.task == SERIES
    assert plan.config["data"]["args"]["series"] == series
    assert plan.config["data"]["split"] == {"by": "time", "time": time}
    assert [f"one row at each {time!r}" in one for one in plan.assumed if "of its own" in one] == [True] * (
        "group" in series
    )


@pytest.mark.parametrize(
    ("sentence", "data"),
    [
        ("predict the price of a house, MAPE at most 30 %", "houses.csv"),
        ("predict the price, MAE at most 5", "cigar.csv"),
        ("predict co2 from inflow, MAE at most 3", "gas.csv"),
    ],
)
def test_rows_with_a_year_are_no_series_unless_the_sentence_looks_ahead(sentence, data):
    plan = plan_of(sentence, data)
    assert (plan.task, plan.config["data"].get("split")) == ("table_regression", None)


@pytest.mark.parametrize(
    ("sentence", "data", "more", "arguments", "words"),
    [
        ("price of the next year, MAPE of 20 %", "houses.csv", {}, ["task"],
         "looks 1 year ahead, and no column of times"),
        ("price of the next 3 rows, MAPE of 20 %", "houses.csv", {}, ["task"], "looks 3 rows ahead"),
        ("Preis (price) der nächsten 2 Jahre, MAPE 20 %", "houses.csv", {}, ["task"], "looks 2 years ahead"),
        ("sales of the next month, MAE of 2", "cigar.csv", {}, ["horizon"],
         "1 month is no whole number of rows (a row is 1 year)."),
        ("sales of the next year, MAE of 2", "cigar.csv", {}, [], ""),
        ("price of the next year, MAPE of 20 %", "houses.csv", {"task": SERIES}, ["time_column"], "holds the times"),
    ],
)  # fmt: skip
def test_what_is_open_of_numbered_times_is_asked_in_their_words(sentence, data, more, arguments, words):
    given = {"task": more["task"]} if "task" in more else {}
    _, reading = asked(sentence, data, **given)
    assert [one.argument for one in reading.questions] == arguments
    assert words in "".join(one.asks for one in reading.questions[:1])


def sparse(first: int) -> dict:
    """An inspection of shops that report in some of the years, each at most once a year."""
    rows = [(year, shop) for year in range(1990, 2010) for shop in range(first, 40) if (year * 7 + shop * 5) % 11 < 4]
    frame = pl.LazyFrame({"year": [one[0] for one in rows], "shop": [one[1] for one in rows]}).with_columns(
        sold=pl.int_range(pl.len()) / 7
    )
    columns = [{"name": name, "kind": "number", "different": 40, "words": 0.0} for name in ("year", "shop", "sold")]
    columns[2]["is_fraction"] = True
    named = {"split": {"by": "time", "time": "year"}}
    found = times_of(frame, len(rows), columns, named)
    return {"data": {"rows": len(rows), "columns": columns, "times": found, "header": ["year", "shop", "sold"]}}


def test_whose_series_a_row_is_of_is_asked_where_it_is_not_certain_and_its_answer_is_taken():
    found = sparse(0)
    request, _ = asked("forecast what is sold in the next year, MAE of 2", "cigar.csv", task=SERIES)
    request = request.with_answers({"target_column": "sold"})
    both = read_task(request, found)
    assert [(one.argument, one.choices) for one in both.questions][:2] == [
        ("time_column", ["year"]), ("series_group", ["shop"]),
    ]  # fmt: skip
    named = request.with_answers({"time_column": "year"})
    reading = read_task(named, found)
    assert [(one.argument, one.choices) for one in reading.questions] == [("series_group", ["shop"])]
    assert "rows have 20 different times in 'year': which column" in reading.questions[0].asks
    again = questions_answer(named, reading.questions, []).next
    assert again is not None
    assert again.arguments["data"]["args"]["series"] == {"group": "<shop>"}
    settled = read_task(named.with_answers({"series_group": "shop"}), found)
    assert (settled.questions, settled.series) == ([], {"window": 2, "horizon": 1, "group": "shop"})


def test_a_group_that_does_not_part_the_rows_is_asked_for_again():
    found = sparse(0)
    found["data"]["header"] = ["year", "shop", "sold", "region"]
    request, _ = asked("forecast what is sold in the next year, MAE of 2", "cigar.csv", task=SERIES)
    request = request.with_answers({"target_column": "sold", "time_column": "year", "series_group": "region"})
    (question,) = read_task(request, found).questions
    assert (question.argument, question.choices) == ("series_group", ["shop"])
    assert "and some of one 'region' share theirs" in question.asks


def test_a_column_that_is_named_as_times_is_looked_at_though_its_steps_are_uneven():
    frame = pl.LazyFrame({"at": [1.0, 1.0, 2.5, 2.5, 7.0, 7.0], "who": ["a", "b"] * 3})
    columns = [{"name": "at", "kind": "number"}, {"name": "who", "kind": "category"}]
    found = times_of(frame, 6, columns, {"split": {"by": "time", "time": "at"}})
    assert (found["at"]["steps"], found["at"]["groups"], found["at"]["step_seconds"]) == (3, ["who"], None)
    assert times_of(frame, 6, columns, {}) == {}


def test_times_that_no_column_parts_are_refused_before_a_plan():
    data = {"use": "csv", "args": {"path": "houses.csv"}, "split": {"by": "time", "time": "year"}}
    found = {"data": table("houses.csv") | {"times": {"year": {"steps": 20, "groups": [], "possible": []}}}}
    request, _ = asked("price of the next year, MAPE of 20 %", "cigar.csv")
    request = request.with_answers({"task": SERIES, "time_column": "year", "target_column": "price"})
    assert (request.data or {})["split"] == data["split"]
    with pytest.raises(ConfigurationError, match="400 rows have 20 different times in 'year'") as refused:
        read_task(request, found)
    assert "task='table_regression'" in refused.value.remedy


def test_a_month_is_no_group_of_a_year():
    assert [(one["groups"], one["is_series"]) for one in table("months.csv")["times"].values()] == [([], False)]


@pytest.mark.parametrize(
    ("words", "metric", "target"),
    [
        (f"it has to be {BETTER}, otherwise I don't need it", "mae", 4.0),
        ("better than repeating the last value", "mae", 4.0),
        ("it must beat the last value", "mae", 4.0),
        ("better than last year's figure", "mae", 4.0),
        ("better than a naive forecast", "mae", 4.0),
        ("an RMSE better than persistence", "rmse", 4.0),
        ("a MAPE lower than a naive model", "mape", 0.035),
        ("besser als einfach den letzten Wert zu wiederholen", "mae", 4.0),
        ("besser als die naive Prognose", "mae", 4.0),
        ("besser als der Wert dieses Jahres", "mae", 4.0),
        ("es soll den letzten Wert klar schlagen", "mae", 4.0),
        ("Persistenz muss übertroffen werden", "mae", 4.0),
        (f"{BETTER}, MAE at most 3", "mae", 3.0),
    ],
)
def test_a_sentence_that_wants_the_last_value_beaten_has_its_error_as_target(words, metric, target):
    _, reading = asked(f"{NEXT}; {words}", "cigar.csv")
    assert reading.questions == []
    assert (reading.goal.metric, reading.goal.target) == (metric, pytest.approx(target))
    said = [one for one in reading.assumed if "better than the last value" in one]
    assert [("rounded down to 2" in one, "as rivals" in one) for one in said] == [(True, True)] * (target != 3.0)


def test_the_question_of_a_target_says_what_naive_forecasts_reach_and_so_does_a_target_that_one_meets():
    (question,) = asked(NEXT, "cigar.csv")[1].questions
    assert question.argument == "target"
    said = "On the validation rows, 1 row ahead, the last value has mae 4, rmse 4, mape 0.035, r2 0.712"
    assert said in question.asks
    (two,) = asked("sales of the next 2 years", "cigar.csv")[1].questions
    assert "1 to 2 rows ahead, the last value has mae 2, rmse 2," in two.asks, "the second row is alike"
    _, met = asked(f"{NEXT}, MAE of 5", "cigar.csv")
    assert any("a target of 5 asks little: On the validation rows" in one for one in met.assumed)
    (plain,) = asked("co2 of the next 2 steps", "gas.csv")[1].questions
    assert "the last value has mae 0.188" in plain.asks, "the mean of 1/8 and 2/8"
    assert "validation rows" not in asked("predict price", "houses.csv")[1].questions[0].asks


def test_the_value_of_the_day_before_stands_beside_it_in_the_goals_metric_and_one_that_meets_the_target_is_named():
    (question,) = asked("forecast load of the next 6 hours, mse", "load.csv")[1].questions
    assert re.search(
        r"ahead, the last value has mse [\d.]+ and the value 24 rows before has mse [\d.]+$", question.asks
    )
    _, met = asked("forecast load of the next 6 hours, r2 of -3", "load.csv")
    assert any("asks little" in one and "has r2 -" in one for one in met.assumed)
