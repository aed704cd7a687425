"""Goals relative to a naive forecast: the amount in a sentence, which forecast it means, the target that follows."""

# polars reads the tables in this process: tests that fork it come before (tests/scheduling.py)
from __future__ import annotations

import pytest
from tests.tools.training_architect.sentences import asked

from trainwright.trainer.config.goal_words import spoken_goals
from trainwright.trainer.config.naive_words import beaten_naive

pytestmark = pytest.mark.requirement("ARCH-1")
NEXT = "sales of the next year"
HOURS = "forecast load of the next 6 hours"


@pytest.mark.parametrize(
    ("words", "metric", "target"),
    [
        ("10 % better than just repeating this year's value", "mae", 3.6),
        ("at least 10 % better than the last value", "mae", 3.6),
        ("with 20 % lower mae than the last value", "mae", 3.2),
        ("an RMSE 10 % below the naive forecast", "rmse", 3.6),
        ("a 15 % improvement over persistence", "mae", 3.4),
        ("beat the last value by 5 %", "mae", 3.8),
        ("improve on the naive forecast's MAPE by at least 15 percent", "mape", 0.0297),
        ("reduce the error of the last value by a quarter", "mae", 3.0),
        ("a third lower error than the last value", "mae", 2.66),
        ("half the error of the naive forecast", "mae", 2.0),
        ("halve the error of the last value", "mae", 2.0),
        ("MAE at most 80 % of the last value's", "mae", 3.2),
        ("an error two thirds of the naive one", "mae", 2.66),
        ("twice as good as persistence", "mae", 2.0),
        ("2x as accurate as the naive forecast", "mae", 2.0),
        ("three times better than the naive forecast", "mae", 1.33),
        ("mindestens 10 % besser als der letzte Wert", "mae", 3.6),
        ("MAE 20 % unter dem letzten Wert", "mae", 3.2),
        ("die naive Prognose um 5 % übertreffen", "mae", 3.8),
        ("halb so großer Fehler wie der letzte Wert", "mae", 2.0),
        ("höchstens die Hälfte des Fehlers der naiven Prognose", "mae", 2.0),
        ("doppelt so gut wie die naive Prognose", "mae", 2.0),
    ],
)  # fmt: skip
def test_an_amount_by_which_the_last_value_is_to_be_beaten_becomes_the_target(words, metric, target):
    _, reading = asked(f"{NEXT}; {words}", "cigar.csv")
    assert reading.questions == []
    assert (reading.goal.metric, reading.goal.target) == (metric, pytest.approx(target))
    (said,) = [one for one in reading.assumed if "% below what the last value errs by" in one]
    assert said.startswith(f"target {target:g}: ")
    assert f"({metric}), rounded down to 3 digits. On the validation rows" in said


@pytest.mark.parametrize(("words", "target"), [("better than", 0.72), ("20 % better than", 0.77)])
def test_of_r2_what_is_not_explained_falls_by_the_amount(words, target):
    _, reading = asked(f"{NEXT}; r2 {words} the last value", "cigar.csv")
    assert (reading.goal.metric, reading.goal.target, reading.questions) == ("r2", target, [])


@pytest.mark.parametrize(
    ("words", "target"),
    [
        ("MAE 10 % below the last value", 4.56), ("10 % better MAE than the seasonal naive", 4.25),
        ("MAE 10 % better than repeating yesterday", 4.25), ("MAE 10 % below yesterday's", 4.25),
        ("MAE better than the value of the previous day", 4.7),
        ("MAE better than repeating the last hour", 5.0), ("10 % better MASE than the seasonal naive", 0.856),
        ("test on 20 % of the rows, MAE better than the last value", 5.0),
    ],
)  # fmt: skip
def test_the_forecast_is_the_one_whose_time_the_sentence_names(words, target):
    assert asked(f"{HOURS}; {words}", "load.csv")[1].goal.target == target


@pytest.mark.parametrize(
    ("words", "data"),
    [
        (f"{HOURS}; 10 % better than repeating last week", "load.csv"),
        (f"{NEXT}; beat the last value by 0.5", "cigar.csv"),
        (f"{NEXT}; 150 % better than the last value", "cigar.csv"),
        ("predict price, 10 % better than a naive model", "diamonds.csv"),
    ],
)  # fmt: skip
def test_what_cannot_be_computed_is_asked_and_no_easier_target_taken(words, data):
    _, reading = asked(words, data)
    assert [one.argument for one in reading.questions] == ["target"]
    assert reading.goal.target is None


def test_a_target_beside_it_stays_the_goal_and_the_other_is_told():
    _, reading = asked(f"{NEXT}; 10 % better than the last value, MAE at most 3.9", "cigar.csv")
    assert reading.goal.target == 3.9
    assert any("though the sentence also says: target 3.6: 10 % below" in one for one in reading.assumed)


@pytest.mark.parametrize(
    "sentence",
    ["predictions within 5 % of the last value", "accuracy 5 % better than the current model", "MAE below 3"],
)
def test_other_amounts_are_none_of_a_naive_forecast(sentence):
    assert beaten_naive(sentence) is None


def test_an_amount_is_no_number_of_a_metric():
    (named,) = spoken_goals("20 % lower MAE than the last value").named
    assert (named.word.metric, named.target) == ("mae", None)
