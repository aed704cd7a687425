"""Expectations from elsewhere: suggested, taken over from other libraries, compared with earlier ones."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest

from trainwright.trainer.data.validation import distances
from trainwright.trainer.data.validation.changes import changes, loosened
from trainwright.trainer.data.validation.check import Context
from trainwright.trainer.data.validation.expectations import parse_expectations
from trainwright.trainer.data.validation.suggest import suggested
from trainwright.trainer.data.validation.validate import validate
from trainwright.trainer.data.validation.values import kind_of

SUITE = {
    "name": "churn",
    "expectations": [
        {"type": "expect_column_values_to_be_between", "kwargs": {"column": "age", "min_value": 0, "max_value": 120}},
        {"expectation_type": "expect_column_values_to_not_be_null", "kwargs": {"column": "age", "mostly": 0.95}},
        {"type": "expect_column_values_to_be_in_set", "kwargs": {"column": "plan", "value_set": ["a", "b"]}},
        {"type": "expect_column_values_to_be_unique", "kwargs": {"column": "id"}},
        {"type": "expect_table_row_count_to_be_between", "kwargs": {"min_value": 2}},
        {"type": "expect_column_kl_divergence_to_be_less_than", "kwargs": {"column": "age"}},
    ],
}


def frame_context(values: dict[str, object], text: str, **given: object) -> Context:
    frame = pl.LazyFrame(values)
    kinds = {name: kind_of(dtype) for name, dtype in frame.collect_schema().items()}
    return Context(frame, kinds, parse_expectations(text, "expectations.yaml"), **given)


@pytest.mark.requirement("PIPE-2")
def test_a_suite_of_great_expectations_is_taken_over_and_the_rest_is_said_not_to_be_checked():
    found = parse_expectations(json.dumps(SUITE), "suite.json")
    assert found.values() == {
        "columns": {
            "age": {"min": 0, "max": 120, "nulls_at_most": 0.05},
            "plan": {"one_of": ["a", "b"]},
            "id": {"unique": True},
        },
        "rows": {"at_least": 2},
        "not_taken_over": ["expect_column_kl_divergence_to_be_less_than of age"],
    }
    report = validate(frame_context({"age": [1, 200], "plan": ["a", "c"], "id": [1, 1]}, json.dumps(SUITE)))
    assert {one.place for one in report.stopping} == {"age.max", "plan.one_of", "id.unique"}
    assert "expect_column_kl_divergence_to_be_less_than of age" in {one.what for one in report.not_checked}


@pytest.mark.requirement("PIPE-2")
def test_what_is_suggested_is_kept_by_the_data_and_broken_by_what_is_far_off():
    values = {
        "age": [*range(20, 50), *range(20, 50)],
        "plan": ["yes", "no", "yes"] * 20,
        "day": ["2026-01-31"] * 60,
        "id": [f"C{n}" for n in range(60)],
        "left": [0, 1] * 30,
    }
    text = suggested(frame_context(values, "{}", targets=["left"], source="csv"))
    assert "10%" in text
    assert not validate(frame_context(values, text, targets=["left"])).stopping
    broken = {**values, "age": [*range(20, 49), 900, *range(20, 50)], "plan": ["maybe", *values["plan"][1:]]}
    places = {one.place for one in validate(frame_context(broken, text, targets=["left"])).stopping}
    assert places == {"age.max", "plan.one_of"}
    assert parse_expectations(text, "it").columns["day"].kind == "date"


@pytest.mark.requirement("PIPE-2")
def test_what_allows_more_is_loosened_and_the_rest_is_told_too():
    before = {
        "columns": {"age": {"max": 120, "min": 0, "unique": True}, "plan": {"one_of": ["a"]}},
        "rows": {"at_least": 9},
    }
    after = {"columns": {"age": {"max": 200, "min": 5, "mostly": 0.9}, "plan": {"one_of": ["a", "b"]}}}
    assert loosened(before, after) == [
        "expectation age.max loosened from 120 to 200",
        "expectation age.mostly loosened from 1.0 to 0.9",
        "expectation age.unique loosened from True to False",
        "expectation plan.one_of loosened from ['a'] to ['a', 'b']",
        "expectation rows.at_least (9) dropped",
    ]
    assert "expectation age.min tightened from 0 to 5" in changes(before, after)
    assert not changes(before, before)


@pytest.mark.requirement("PIPE-2")
def test_drift_is_measured_against_a_reference_and_bounded():
    draw = np.random.default_rng(0)
    now, before = draw.normal(size=4000), draw.normal(size=4000)
    text = "drift: {reference: old.csv, psi_at_most: 0.1, ks_at_most: 0.1, wasserstein_at_most: 0.2, mmd_at_most: 0.01}"
    reference = pl.LazyFrame({"x": before, "kind": ["a", "b"] * 2000})
    same = frame_context({"x": now, "kind": ["b", "a"] * 2000}, text, reference=reference)
    assert not [one for one in validate(same).worst_first() if one.family == "drift"]
    moved = frame_context({"x": now + 0.6, "kind": ["a", "a", "a", "b"] * 1000}, text, reference=reference)
    places = {one.place for one in validate(moved).stopping}
    assert places == {"x.psi", "x.ks", "x.wasserstein", "kind.psi", "mmd"}


def test_distances_are_those_of_shifted_normals():
    draw = np.random.default_rng(1)
    one, other = draw.normal(size=50_000), draw.normal(size=50_000) + 1
    assert distances.wasserstein(one, other) == pytest.approx(1.0, abs=0.03)
    assert distances.ks(one, other) == pytest.approx(0.383, abs=0.01)  # 2 * Phi(1/2) - 1
    assert distances.psi(one, other) == pytest.approx(1.0, abs=0.15)  # the symmetric KL divergence is 1
    assert distances.chi2({"a": 500, "b": 500}, {"a": 505, "b": 495}) < 1
    assert distances.chi2({"a": 500, "b": 500}, {"a": 600, "b": 400}) > 10
