"""Columns of groups are known by their names, by what the rows of a group have in common, or by their target."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from trainwright.trainer.data.leaks import find_leaks, groups
from trainwright.trainer.data.leaks.table import SPLITS, LeakTable

rng = np.random.default_rng(1)
SIZES = rng.integers(2, 9, 80)
OF = np.repeat(np.arange(80), SIZES)
"""Group of each row; groups have different sizes, and their numbers below have gaps."""
NUMBERS = rng.choice(np.arange(10_000, 99_999), 80, replace=False)[OF]
EFFECT = rng.normal(size=80)[OF]
part = np.digitize(rng.random(len(OF)), [0.7, 0.85])
"""Split of each row, by its place among SPLITS."""


def found(name: str, target: np.ndarray, **others: object) -> list[str]:
    """Return the columns of groups that are found where rows of 80 groups were split at random."""
    noise = np.random.default_rng(2).normal(size=len(OF))
    frame = pl.DataFrame({name: NUMBERS, "noise": noise, "y": target} | others)
    frames = {split: frame.filter(pl.Series(part == place)) for place, split in enumerate(SPLITS)}
    return [str(one.column) for one in groups.find(LeakTable.of(frames, "y"))]


measured = EFFECT + np.random.default_rng(3).normal(0, 0.1, len(OF))
ill = np.where(EFFECT > 0, "ill", "well")
sex = np.where(OF % 2, "m", "f").astype(object)


@pytest.mark.requirement("PIPE-2")
@pytest.mark.parametrize(
    "name", ["patient_id", "pid", "mrn", "animal", "subj_no", "SUBJID", "pat", "patno", "visit_pat"]
)
def test_a_number_that_is_named_as_an_id_is_of_groups(name):
    assert found(name, measured) == [name]


@pytest.mark.parametrize("name", ["path", "pattern", "patent", "path_length", "stupid", "rapid", "animals_seen"])
def test_names_that_only_have_such_letters_name_no_group(name):
    assert not groups.NAMED.search(name)


@pytest.mark.requirement("PIPE-2")
@pytest.mark.parametrize("known", [1.0, 0.98, 0.5])
def test_a_number_whose_rows_have_a_property_in_common_is_of_groups_though_some_of_it_is_unknown(known):
    seen = np.where(np.random.default_rng(4).random(len(OF)) < known, sex, None)
    assert found("cow", measured) == [], "nothing says that it numbers something"
    assert found("cow", measured, sex=pl.Series(seen.tolist())) == ["cow"]


@pytest.mark.requirement("PIPE-2")
def test_a_property_that_few_groups_have_says_nothing():
    seen = np.where(OF < 9, sex, None)
    assert found("cow", measured, sex=pl.Series(seen.tolist())) == []


@pytest.mark.requirement("PIPE-2")
def test_a_target_that_is_one_in_each_group_is_in_common_too():
    assert found("cow", ill) == ["cow"]
    mixed = np.where(np.random.default_rng(5).random(len(OF)) < 0.3, "well", ill)
    assert found("cow", mixed) == [], "its rows have different targets"


@pytest.mark.requirement("PIPE-2")
@pytest.mark.parametrize(("is_within", "names"), [(True, ["cow"]), (False, [])])
def test_of_rows_that_are_split_by_a_group_another_is_named_only_where_its_split_parts_none_of_the_first(
    is_within: bool, names: list[str]
) -> None:
    rows = np.arange(len(OF))
    trip = NUMBERS * 10 + rows % 2 if is_within else rows // 2
    frame = pl.DataFrame({"cow": NUMBERS, "trip": trip, "sex": pl.Series(sex.tolist()), "y": measured})
    frames = {split: frame.filter(pl.Series(part == place)) for place, split in enumerate(SPLITS)}
    found = find_leaks(frames, "y", grouped_by="trip")
    assert [one.column for one in found if one.kind == "group"] == names
    assert [one.column for one in find_leaks(frames, "y") if one.kind == "group"] == ["cow"]


@pytest.mark.requirement("PIPE-2")
@pytest.mark.parametrize(("order", "columns"), [("listed by speaker", ["recording"]), ("mixed", [])])
def test_a_number_of_things_that_are_listed_one_after_the_other_is_of_groups_whatever_its_name(order, columns):
    sizes = np.random.default_rng(5).integers(7, 29, 90)
    of = np.repeat(np.arange(90), sizes)
    speaker = np.array([f"s{thing // 10}" for thing in of])
    rows = np.random.default_rng(6).permutation(len(of)) if order == "mixed" else np.arange(len(of))
    noise = np.random.default_rng(7).normal(size=len(of))
    frame = pl.DataFrame({"recording": of[rows], "noise": noise, "y": speaker[rows]}).with_row_index("__row")
    parts = np.digitize(np.random.default_rng(8).random(len(of)), [0.7, 0.85])
    frames = {split: frame.filter(pl.Series(parts == place)) for place, split in enumerate(SPLITS)}
    assert [one.column for one in groups.find(LeakTable.of(frames, "y"))] == columns
