"""Checks of a frame: verdicts with rows, bounds and remedies; what is not checked is said."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import polars as pl
import pytest
import yaml

from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.data.split_methods.at_random import deal
from trainwright.trainer.data.validation import check
from trainwright.trainer.data.validation import validate as validate_module
from trainwright.trainer.data.validation.check import Context
from trainwright.trainer.data.validation.expectations import parse_expectations
from trainwright.trainer.data.validation.families import uniqueness
from trainwright.trainer.data.validation.frames import scanned
from trainwright.trainer.data.validation.report import Report, Verdict
from trainwright.trainer.data.validation.validate import validate
from trainwright.trainer.data.validation.values import kind_of


def report_of(values: dict[str, Any], expectations: str = "{}", **given: Any) -> Report:
    frame = pl.LazyFrame(values)
    kinds = {name: kind_of(dtype) for name, dtype in frame.collect_schema().items()}
    return validate(Context(frame, kinds, parse_expectations(expectations, "expectations.yaml"), **given))


def verdict(report: Report, place: str) -> Verdict:
    (found,) = (check for check in report.checks if check.place == place)
    return found


BAD = [
    ("age", [30, 200, 40], "columns: {age: {max: 120}}", "age.max", [1]),
    ("age", [30, -1, 40], "columns: {age: {min: 0}}", "age.min", [1]),
    ("age", [30.0, None, float("nan")], "columns: {age: {nulls_at_most: 0.1}}", "age.nulls", [1, 2]),
    ("age", ["30", "4O", "50"], "columns: {age: {kind: integer}}", "age.kind", [1]),
    ("plan", ["a", "z", None], "columns: {plan: {one_of: [a, b]}}", "plan.one_of", [1]),
    ("plan", [1, 3, 2], "columns: {plan: {one_of: [1, 2]}}", "plan.one_of", [1]),
    ("plan", ["a", "?", "b"], 'columns: {plan: {none_of: ["?"]}}', "plan.none_of", [1]),
    ("mail", ["a@b", "ab", None], "columns: {mail: {pattern: '@'}}", "mail.pattern", [1]),
    ("id", [1, 2, 1], "columns: {id: {unique: true}}", "id.unique", [2]),
    ("name", ["anna", "bo", "carl"], "columns: {name: {length_at_least: 3}}", "name.length_at_least", [1]),
    ("name", ["anna", "bo", "carla"], "columns: {name: {length_at_most: 4}}", "name.length_at_most", [2]),
    ("day", [date(2020, 1, 1), date(2999, 1, 1)], "columns: {day: {not_after: now}}", "day.not_after", [1]),
    ("day", ["2020-01-01", "2019-01-01"], "columns: {day: {min: 2020-01-01}}", "day.min", [1]),
    ("day", ["2020-01-01", "2020-31-01"], "columns: {day: {kind: date}}", "day.kind", [1]),
]


@pytest.mark.requirement("PIPE-2")
@pytest.mark.parametrize(("column", "cells", "expectations", "place", "rows"), BAD)
def test_a_broken_expectation_is_an_error_that_names_its_rows(column, cells, expectations, place, rows):
    found = verdict(report_of({column: cells}, expectations), place)
    assert found.stops
    assert found.rows == rows
    assert found.count == len(rows)
    assert found.remedy


def test_a_share_of_the_rows_may_break_what_mostly_holds():
    cells = {"age": [*range(99), 500]}
    assert verdict(report_of(cells, "columns: {age: {max: 120, mostly: 0.99}}"), "age.max").passed
    assert not verdict(report_of(cells, "columns: {age: {max: 120, mostly: 0.995}}"), "age.max").passed


def test_rows_are_counted_ordered_and_unique_together():
    expected = "rows: {at_least: 4, at_most: 2, unique_together: [[a, b]], ordered: [[a, b]]}"
    report = report_of({"a": [1, 1, 5], "b": [2, 2, 4]}, expected)
    broken = {check.place: check.rows for check in report.worst_first()}
    assert (
        broken.items()
        >= {"rows_at_least": [], "rows_at_most": [], "a+b.unique_together": [1], "a.ordered": [2]}.items()
    )


def test_the_newest_date_is_not_older_than_expected():
    today = datetime.now(UTC).date()
    cells = {"day": [today - timedelta(days=30), today - timedelta(days=9)]}
    assert not verdict(report_of(cells, "columns: {day: {fresh_within_days: 7}}"), "day.fresh").passed
    assert verdict(report_of(cells, "columns: {day: {fresh_within_days: 12}}"), "day.fresh").passed


def test_a_missing_column_is_named_with_its_near_match():
    found = verdict(report_of({"ages": [1, 2]}, "columns: {age: {min: 0}}"), "age.present")
    assert found.stops
    assert "ages" in found.text


@pytest.mark.requirement("PIPE-2")
def test_without_expectations_only_what_cannot_be_trained_is_an_error():
    values = {
        "x": [1.0, 1.0, 1.0, 1.0],
        "y": ["a", "a", "a", "b"],
        "mixed": [*"1234"],
        "empty": [None, None, None, "1"],
    }
    report = report_of(values, targets=["y"])
    assert not report.stopping
    assert {check.place for check in report.worst_first()} >= {"x.constant", "empty.nulls", "y.class_rows"}
    assert [check.place for check in report_of({"x": [1, 2], "y": ["a", "a"]}, targets=["y"]).stopping] == [
        "y.target_varies"
    ]
    assert [check.place for check in report_of({"x": [1, 2, 3], "y": ["a", None, "b"]}, targets=["y"]).stopping] == [
        "y.nulls"
    ]
    assert [check.place for check in report_of({"x": [1.0, float("inf")]}).stopping] == ["x.infinite"]


@pytest.mark.parametrize(
    ("source", "cells", "severity"),
    [
        ("own.py:load", [7, 8, 9, 7], "info"),
        ("own.py:load", [7.5, 8.0, 9.0, 7.0], "warning"),
        ("csv", [7, 8, 9, 7], "warning"),
    ],
)
def test_a_place_that_never_varies_is_a_note_among_words_and_a_warning_among_measurements(source, cells, severity):
    report = report_of({"x0": cells, "x1": [3, 3, 3, 3], "y": ["a", "b", "a", "b"]}, targets=["y"], source=source)
    assert verdict(report, "x1.constant").severity == severity


def test_decimals_are_checked_and_a_name_that_is_a_pattern_leaves_the_other_columns_checked():
    values = {"price": [Decimal("1.25"), None, Decimal("9.75")], "^p.*$": [1, 2, 3], "*": [1, 2, 3]}
    expectations = parse_expectations("{columns: {price: {max: 5}}}", "given")
    report = validate(scanned(pl.LazyFrame(values), expectations, use="parquet", args={}))
    assert [(one.place, one.rows) for one in report.stopping if one.name == "max"] == [("price.max", [2])]
    assert {"column ^p.*$", "column *"} <= {one.what for one in report.not_checked}


ONE_CLASS = [
    (["yes", "no"], ["yes."], "'yes' (20) and 'yes.' (3)"),
    (["Yes", "No"], ["yes", "YES "], "'Yes' (20) and 'YES' (3) and 'yes' (3)"),
    ([">50K", "<=50K"], [">50K.", "<=50K."], "'<=50K' (20) and '<=50K.' (3); '>50K' (20) and '>50K.' (3)"),
    (["new york", "x"], ["New-York", "new_york"], "'new york' (20) and 'New-York' (3) and 'new_york' (3)"),
    (["1", "x"], ["1.0", "01"], "'1' (20) and '01' (3) and '1.0' (3)"),
    (["caf\u00e9", "x"], ["cafe\u0301", '"caf\u00e9"'], "(20) and"),
]


@pytest.mark.requirement("PIPE-2")
@pytest.mark.parametrize(("labels", "variants", "said"), ONE_CLASS)
def test_labels_that_are_one_but_for_their_spelling_are_an_error_with_their_counts(labels, variants, said):
    cells = {"x": range(40 + 3 * len(variants)), "y": [*labels * 20, *variants * 3]}
    found = verdict(report_of(cells, targets=["y"]), "y.labels_alike")
    assert found.stops
    assert said in found.text
    assert found.count == 3 * len(variants)
    assert "classes.only" in found.remedy
    meant = {"classes": {"only": sorted({*labels, *variants})}}
    declared = report_of(cells, yaml.safe_dump(meant, allow_unicode=True), targets=["y"])
    assert "y.labels_alike" not in {check.place for check in declared.checks}, "said to be different classes"


@pytest.mark.parametrize(
    "labels",
    [[">50K", "<50K", "<=50K"], ["A", "A+", "A-", "B"], ["C", "C++", "C#"], ["+", "-"], ["-1", "1"]],
)
def test_labels_whose_signs_tell_them_apart_are_different_classes(labels):
    assert verdict(report_of({"x": range(60), "y": (labels * 60)[:60]}, targets=["y"]), "y.labels_alike").passed


@pytest.mark.requirement("PIPE-2")
def test_classes_that_train_never_has_are_an_error_that_names_the_split_and_what_train_has():
    splits = {"train": np.arange(0, 40), "validation": np.arange(40, 50), "test": np.arange(50, 60)}
    cells = {"x": range(60), "y": [*["no", "yes"] * 20, *["no"] * 8, *["maybe"] * 2, *["yes."] * 10]}
    found = verdict(report_of(cells, targets=["y"], splits=splits), "y.classes_in_train")
    assert found.stops
    assert "'yes.' (10 in test; train has 'yes'), 'maybe' (2 in validation)" in found.text
    assert found.rows[:2] == [48, 49]
    assert verdict(report_of(cells, targets=["y"], splits={"train": np.arange(60)}), "y.classes_in_train").passed


def test_a_few_rows_of_rare_classes_that_a_split_left_out_of_train_are_a_warning():
    rare = [f"rare {number}" for number in range(20)]
    labels = ["no", "yes"] * 140 + rare
    codes = deal(300, np.unique(labels, return_inverse=True)[1], [0.7, 0.15, 0.15], 42)
    splits = {name: np.flatnonzero(codes == number) for number, name in enumerate(("train", "validation", "test"))}
    cells = {"x": range(300), "y": labels}
    found = verdict(report_of(cells, targets=["y"], splits=splits), "y.classes_in_train")
    assert not found.passed
    assert not found.stops, found.text
    cells["y"] = [*labels[:280], *["Yes." if number in splits["test"] else "no" for number in range(280, 300)]]
    assert verdict(report_of(cells, targets=["y"], splits=splits), "y.classes_in_train").stops, (
        "train spells it otherwise"
    )


@pytest.mark.parametrize("given", [{"is_sample": True}, {"task": "regression"}])
def test_what_a_sample_of_train_or_numbers_lack_is_no_missing_class(given):
    splits = {"train": np.arange(0, 40), "test": np.arange(40, 60)}
    cells = {"x": range(60), "y": [*["3", "4"] * 20, *["5"] * 20]}
    found = report_of(cells, targets=["y"], splits=splits, **given)
    assert "y.classes_in_train" not in {check.place for check in found.checks}


def test_labels_outside_the_classes_are_named():
    found = verdict(report_of({"x": [1, 2, 3], "y": [0, 1, 7]}, "classes: {only: [0, 1]}", targets=["y"]), "y.labels")
    assert (found.stops, found.rows) == (True, [2])


@pytest.mark.requirement("PIPE-2")
def test_what_is_not_checked_is_said_with_its_reason():
    report = report_of({"x": [1, 2]}, "without: [uniqueness]")
    assert {one.what for one in report.not_checked} >= {"uniqueness", "freshness", "class balance"}
    assert not [check for check in report.checks if check.family == "uniqueness"]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("columns: {a: {mni: 3}}", "did you mean `min`"),
        ("colums: {}", "did you mean `columns`"),
        ("columns: {a: {min: 5, max: 3}}", "`min` = 5 is above"),
        ("- a", "a list and no mapping"),
        ("a: [", "expected"),
    ],
)
def test_a_slip_in_the_file_is_named_with_the_near_key(text, named):
    with pytest.raises(ConfigurationError, match=named) as caught:
        parse_expectations(text, "expectations.yaml")
    assert "expectations.yaml" in caught.value.message


@pytest.mark.requirement("PIPE-2")
def test_repeats_of_a_large_table_are_those_of_a_small_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a table with more than some million rows, no set of the rows' hashes is made."""
    values = {"id": [*range(50), None, None, 3, 3, 7], "plan": [*("ab" * 25), "a", "b", "b", "b", "b"]}
    expected = "{columns: {id: {unique: true, severity: warning}}, rows: {duplicates_at_most: 0, unique_together: "
    expected += "[[id, plan]]}, without: [leaks, label_errors]}"
    splits = {"train": np.arange(40), "test": np.arange(40, 55)}
    small = report_of(values, expected, splits=splits)
    monkeypatch.setattr(uniqueness, "MAX_IN_A_SET", 54)
    monkeypatch.setattr(check, "ROWS_AT_ONCE", 7)
    asked, one_pass = [], validate_module._one_pass
    monkeypatch.setattr(
        validate_module, "_one_pass", lambda given, checks: (asked.extend(checks), one_pass(given, checks))[1]
    )
    large = report_of(values, expected, splits=splits)
    found = [(one.place, one.count, one.rows, one.text) for one in large.checks]
    assert found == [(one.place, one.count, one.rows, one.text) for one in small.checks]
    assert (verdict(large, "id.unique").rows, verdict(large, "duplicates").count) == ([52, 53, 54], 3)
    assert not [name for check in asked for name in check.asks if name.startswith("different")]


@pytest.mark.requirement("PIPE-2")
def test_rows_of_few_values_repeat_by_nature_and_those_of_a_file_pasted_twice_do_not():
    rng = np.random.default_rng(0)
    people = {"class": rng.integers(1, 4, 600).tolist(), "sex": rng.integers(0, 2, 600).tolist()}
    wide = people | {"weight": rng.normal(70, 9, 600).tolist()}
    twice = {name: one[:300] * 2 for name, one in wide.items()}
    coarse_twice = {name: one * 2 for name, one in people.items()}
    found = [verdict(report_of(one, "{}"), "duplicates") for one in (people, wide, twice, coarse_twice)]
    assert [one.passed for one in found] == [True, True, False, False]
    assert "as rows of few different values do" in found[0].text
    assert not verdict(report_of(people, "{rows: {duplicates_at_most: 0.1}}"), "duplicates").passed


def test_zeros_far_from_every_measurement_are_a_warning_and_counts_have_theirs():
    rng = np.random.default_rng(0)
    cells = {
        "length_mm": [0.0] * 8 + rng.uniform(3.7, 10.7, 492).tolist(),
        "degrees": [0.0] * 8 + rng.uniform(-9, 10.7, 492).tolist(),
        "children": rng.integers(0, 5, 500).tolist(),
    }
    report = report_of(cells)
    assert verdict(report, "length_mm.zeros").count == 8
    assert "0 stands for a missing value" in verdict(report, "length_mm.zeros").text
    assert [one.column for one in report.checks if one.name == "zeros"] == ["length_mm"], "not of degrees or children"
    assert verdict(report_of(cells, "columns: {length_mm: {min: 0}}"), "zeros").passed


def test_texts_that_fill_a_few_templates_are_told_with_one_of_them():
    rng = np.random.default_rng(0)
    names = [f"{first}{last}" for first in "bcdfglmnprst" for last in ("ana", "oro", "ilu", "ento", "ares", "isk")]
    asks = ("what is the capital of {}", "how many people live in {} today", "name one river of {} please")
    filled = [asks[place % 3].format(names[rng.integers(len(names))]) for place in range(150)]
    (told,) = [check for check in report_of({"question": filled}).checks if check.family == "templates"]
    assert (told.value, told.count, told.severity) == (3, 150, "info")
    assert "what is the capital of …" in told.text
    words = [f"{one}{other}" for one in names for other in names]
    weights = 1 / np.arange(1, len(words) + 1)
    drawn = rng.choice(words, (150, 12), p=weights / weights.sum())
    free = [" ".join(of_row[: rng.integers(4, 12)]) for of_row in drawn]
    assert not [check for check in report_of({"question": free}).checks if check.family == "templates"]


def test_empty_cells_of_a_column_that_is_left_out_are_no_matter():
    cells = {"age": [1, 2, 3, 4], "left": [None, None, None, "2025"], "y": [0, 1, 0, 1]}
    seen = report_of(cells, targets=["y"])
    assert verdict(seen, "left.nulls").remedy.startswith("Fill left or drop these rows")
    told = verdict(report_of(cells, targets=["y"], source="csv"), "left.nulls").remedy
    assert "Nothing has to be filled" in told
    assert told.endswith('{"data.args.columns": {"left": "ignore"}}.')
    ignored = report_of(cells, targets=["y"], options={"columns": {"left": "ignore"}})
    assert [check.place for check in ignored.checks if check.name == "nulls"] == ["age.nulls", "y.nulls"]


def test_two_columns_that_say_the_same_are_told_as_twins():
    rng = np.random.default_rng(0)
    grade = rng.integers(1, 4, 300)
    cells = {"pclass": grade.tolist(), "class": [("First", "Second", "Third")[one - 1] for one in grade],
             "deck": rng.integers(1, 4, 300).tolist(), "fare": rng.normal(0, 1, 300).tolist()}  # fmt: skip
    told = [check for check in report_of(cells).checks if check.family == "twins"]
    assert [(one.value, one.column, one.severity) for one in told] == [("pclass", "class", "info")]
    cells["class"][7] = "First" if cells["class"][7] != "First" else "Third"
    assert not [check for check in report_of(cells).checks if check.family == "twins"]


def test_an_input_that_counts_the_rows_is_told_with_the_change_that_leaves_it_out():
    rng = np.random.default_rng(0)
    kept = np.sort(rng.choice(1000, 960, replace=False))  # rows were dropped since
    cells = {"number": (5000 + kept).tolist(), "cycle": (kept % 100).tolist(), "order": kept.tolist(),
             "age": rng.integers(0, 990, 960).tolist(), "y": (kept % 2).tolist()}  # fmt: skip
    options = {"path": "x.csv", "target": "y", "columns": {"order": "ignore"}}
    report = report_of(cells, targets=["y"], source="csv", options=options)
    told = [check for check in report.worst_first() if check.family == "running_numbers"]
    assert [(one.column, one.severity) for one in told] == [("number", "warning")]
    assert told[0].details["changes"] == {"data.args.columns": {"order": "ignore", "number": "ignore"}}
    assert "data.args.columns" in told[0].remedy


@pytest.mark.parametrize("is_set", [False, True])
def test_rows_with_the_same_inputs_are_named_by_their_id_and_what_is_set_is_not_proposed(is_set):
    rng = np.random.default_rng(0)
    spent, last = rng.gamma(2.0, 20.0, (2, 400))
    spent[300:340], last[300:340] = spent[:40], last[:40]
    ids = [f"{place}@mail.org" if is_set else f"c{place}" for place in range(400)]
    cells = {"customer": ids, "spent": spent.tolist(), "last": last.tolist(), "y": [0, 1] * 200}
    splits = {"train": np.arange(300), "validation": np.arange(300, 350), "test": np.arange(350, 400)}
    report = report_of(
        cells, targets=["y"], source="csv", splits=splits, settled={"data.split.drop_copies": is_set},
        options={"path": "x.csv", "target": "y", "columns": {"customer": "ignore"}},
    )  # fmt: skip
    (told,) = [check for check in report.worst_first() if check.name == "leak_duplicate"]
    by_id = "customer 'c300' has those of customer 'c0'; customer 'c301' has those of customer 'c1'"
    by_row = "row 300 has those of row 0; row 301 has those of row 1"
    assert (by_row if is_set else by_id) in told.text, "who a person is stays in the file"
    assert told.details == ({} if is_set else {"changes": {"data.split.drop_copies": True}})
    assert ("is set" in told.remedy) is is_set
