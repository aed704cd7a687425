"""Ways to split: by group, time, hash, scaffold, a given column and in folds; equal rows and growing data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet
from pydantic import ValidationError
from tests.trainer.data.loading import load

from trainwright.trainer.base.errors import DataError
from trainwright.trainer.data.assemble import from_loaded, from_user
from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.data.sources import load_source
from trainwright.trainer.data.sources.parquet_file import Parquet
from trainwright.trainer.data.sources.reading import Reading
from trainwright.trainer.data.sources.source import Loaded
from trainwright.trainer.data.split_methods import METHODS
from trainwright.trainer.data.split_methods.by_time import rows_after_end
from trainwright.trainer.data.split_methods.rows import Rows, numbered
from trainwright.trainer.data.splits import split_rows
from trainwright.trainer.data.tensors import TensorSamples

pytestmark = pytest.mark.requirement("TRAIN-1", "PIPE-2")
COLUMNS = {"group": "group", "time": "time", "scaffold": "smiles", "given": "column"}


def section(by: str, **keys: Any) -> SplitSection:
    column = {COLUMNS[by]: "key"} if by in COLUMNS else {}
    return SplitSection.model_validate({"by": by, **column, **keys})


def of_rows(splits: dict[str, Any], size: int, *, are_all: bool = True) -> np.ndarray[Any, Any]:
    """Return the split of each row, -1 for none, and check that each is in one."""
    found = np.full(size, -1)
    for code, name in enumerate(("train", "validation", "test")):
        assert (found[splits[name]] == -1).all()
        found[splits[name]] = code
    assert (found >= 0).all() or not are_all
    return found


rows_of = st.integers(40, 200).flatmap(
    lambda size: st.tuples(
        st.lists(st.integers(0, 25), min_size=size, max_size=size),
        st.lists(st.integers(0, size), min_size=size, max_size=size),
        st.lists(st.integers(0, 2), min_size=size, max_size=size),
    )
)


@settings(max_examples=25, deadline=None)
@given(rows_of, st.integers(0, 3))
def test_no_group_and_no_equal_row_is_in_two_splits(drawn: tuple[list[int], ...], seed: int) -> None:
    key, contents, labels = (np.array(one) for one in drawn)
    units = np.unique(contents, return_index=True, return_inverse=True)[2]
    try:
        splits = split_rows(Rows(units, labels, key), section("group", seed=seed))
    except DataError:
        return  # everything is chained to everything by equal rows
    found = of_rows(splits, len(key))
    for value in (key, contents):
        assert all(len(set(found[value == one])) == 1 for one in np.unique(value))


@pytest.mark.parametrize("by", ["group", "hash"])
@pytest.mark.parametrize("kind", [str, object])
def test_a_group_is_one_however_its_key_is_written(by: str, kind: type) -> None:
    key = np.array([f"{row % 40}" for row in range(400)], dtype="<U9" if kind is str else object)
    key[:120] = [f" {row % 40}.0 " if row % 2 else f"{row % 40}\t" for row in range(120)]
    if kind is object:
        key[120:160], key[160:200] = range(40), [float(row) for row in range(40)]
    found = of_rows(split_rows(Rows(len(key), None, key), section(by, group="key")), len(key))
    assert len(set(found.tolist())) == 3
    assert all(len(set(found[row::40].tolist())) == 1 for row in range(40))
    key[7] = "  "
    with pytest.raises(DataError, match=r"empty in 1 of 400 rows .*: 7\)"):
        split_rows(Rows(len(key), None, key), section(by, group="key"))


@pytest.mark.parametrize("groups", [12, 300, 60_000])
def test_group_shares_are_near_and_classes_are_balanced(groups: int) -> None:
    generator = np.random.default_rng(0)
    key = generator.integers(0, groups, 5 * groups if groups > 100 else 600)
    labels = (generator.random(len(key)) < 0.2).astype(int)
    found = of_rows(split_rows(Rows(len(key), labels, key), section("group")), len(key))
    tolerance = 0.06 if groups < 100 else 0.01
    for code, share in enumerate((0.7, 0.15, 0.15)):
        assert abs((found == code).mean() - share) < tolerance
        assert abs(labels[found == code].mean() - labels.mean()) < 2 * tolerance


@settings(max_examples=25, deadline=None)
@given(rows_of)
def test_time_runs_forward_and_ties_are_not_divided(drawn: tuple[list[int], ...]) -> None:
    key = np.array(drawn[0])
    if len(set(key.tolist())) < 3:
        return
    found = of_rows(split_rows(Rows(len(key), None, key), section("time")), len(key))
    assert key[found == 0].max() < key[found == 1].min() <= key[found == 1].max() < key[found == 2].min()


def test_a_third_border_ends_the_test_and_rows_from_it_on_are_in_no_split() -> None:
    years = np.arange(20)
    rows, bounds = Rows(20, None, years), section("time", borders=[10, 12, 16])
    splits = split_rows(rows, bounds)
    assert {name: places.tolist() for name, places in splits.items()} == {
        "train": [*range(10)], "validation": [10, 11], "test": [12, 13, 14, 15],
    }  # fmt: skip
    assert rows_after_end(years, bounds) == 4
    assert rows_after_end(years, section("time", borders=[10, 12])) == 0
    with pytest.raises(DataError, match="test, which ends before the third, would have no time"):
        split_rows(rows, section("time", borders=[10, 12, 12]))
    with pytest.raises(DataError, match="validation, which begins at the first, would have no time"):
        split_rows(rows, section("time", borders=[12, 10]))


@pytest.mark.parametrize("keys", [{}, {"borders": [12, 16]}, {"borders": [12, 16, 20]}])
def test_folds_by_time_are_earlier_origins_that_never_learn_from_after_what_they_predict(keys: dict[str, Any]) -> None:
    years = np.repeat(np.arange(20), 3)
    shares = {} if keys else {"validation": 0.2, "test": 0.2}
    rows = Rows(len(years), None, years)

    def split(**more: Any) -> Any:
        return of_rows(split_rows(rows, section("time", **keys, **shares, **more)), len(years), are_all=not more)

    plain = split()
    assert (split(folds=3, fold=0) == plain).all()
    for fold in range(3):
        found = split(folds=3, fold=fold)
        begin = 12 - 4 * fold
        assert set(years[found == 1]) == {*range(begin, begin + 4)}
        assert set(years[found == 0]) == {*range(begin)}
        assert ((found == 2) == (plain == 2)).all()
    with pytest.raises(DataError, match="4 folds of 4 times each leave nothing") as refused:
        split(folds=4, fold=0)
    assert "data.split.folds to 3" in str(refused.value.remedy)


def test_the_earlier_copy_decides_where_a_later_one_is() -> None:
    dates = np.array([f"2026-01-{day:02d}" for day in range(1, 21)])
    units = np.array([*range(19), 0])  # the row of the first day comes again on the last
    splits = split_rows(Rows(units, None, dates), section("time"))
    assert 19 in splits["train"]
    assert splits["validation"].max() < splits["test"].min()


def test_dates_with_and_without_zones_and_numbers_are_times() -> None:
    for values in (
        [f"2026-11-{day:02d}T12:00:00Z" for day in range(1, 25)],
        [f"2026-11-{day:02d}" for day in range(1, 25)],
        list(range(24)),
    ):
        found = of_rows(split_rows(Rows(24, None, np.array(values)), section("time")), 24)
        assert (np.diff(found) >= 0).all()
    with pytest.raises(DataError, match="row 1 'soon'"):
        split_rows(Rows(3, None, np.array(["2026-01-01", "soon", "2026-01-03"])), section("time"))
    with pytest.raises(DataError, match="row 1 'NaN'"):  # which would be the newest of all, and tested on
        split_rows(Rows(3, None, np.array(["1", "NaN", "3"])), section("time"))


@pytest.mark.parametrize("keys", [{}, {"folds": 5, "fold": 2}])
def test_a_hashed_row_stays_where_it_is_as_data_grow(keys: dict[str, Any]) -> None:
    contents = [f"row {number}" for number in range(3000)]
    more = [*(f"new {number}" for number in range(500)), *reversed(contents)]
    way = section("hash", **keys)
    before, after = (
        of_rows(split_rows(Rows(len(one), contents=lambda one=one: one), way), len(one)) for one in (contents, more)
    )
    assert (after[500:][::-1] == before).all()
    assert abs((before == 2).mean() - 0.15) < 0.03
    assert abs((before == 1).mean() - (0.17 if keys else 0.15)) < 0.03


def test_a_hash_of_the_target_does_not_change_with_a_new_class() -> None:
    inputs = torch.arange(400.0).reshape(200, 2)
    labels = torch.arange(200) % 2
    few = Loaded(TensorSamples(inputs, labels), ["b", "c"])
    more = Loaded(TensorSamples(torch.cat([inputs, inputs + 1000]), torch.cat([labels + 1, labels])), ["a", "b", "c"])
    known = [from_loaded(one, section("hash"), source="csv").samples for one in (few, more)]
    tested = [set(one["test"].tensors[0][:, 0].tolist()) for one in known]
    assert tested[0] == {value for value in tested[1] if value < 400}


def test_folds_cover_everything_but_one_test_split_which_is_that_without_folds() -> None:
    generator = np.random.default_rng(1)
    labels = generator.integers(0, 3, 400)
    units = np.arange(400)
    units[1::40] = units[0::40]  # some rows are copies of the one before
    units = np.unique(units, return_inverse=True)[1]
    for by, key in (("random", None), ("group", generator.integers(0, 100, 400)), ("hash", None)):
        rows = Rows(units, labels, key, lambda: [f"row {unit}" for unit in units])
        found = [of_rows(split_rows(rows, section(by, folds=5, fold=fold)), 400) for fold in range(5)]
        validated = np.stack([one == 1 for one in found])
        assert (validated.sum(axis=0) == (found[0] != 2)).all()
        assert all((one == 2).tolist() == (found[0] == 2).tolist() for one in found)
        sizes = validated.sum(axis=1)
        assert sizes.min() > (30 if by == "hash" else 55)
        assert all(len(set(one[units == unit])) == 1 for one in found for unit in np.unique(units))
        plain = of_rows(split_rows(rows, section(by)), 400)
        assert ((plain == 2) == (found[0] == 2)).all()


def test_a_given_column_is_taken_at_its_word() -> None:
    key = np.array(["train", "Train ", "val", "TEST", "training", "validation"])
    splits = split_rows(Rows(6, None, key), section("given"))
    assert [splits[name].tolist() for name in ("train", "validation", "test")] == [[0, 1, 4], [2, 5], [3]]
    with pytest.raises(DataError, match="row 1 'holdout'"):
        split_rows(Rows(2, None, np.array(["train", "holdout"])), section("given"))
    copied = Loaded(TensorSamples(torch.zeros(6, 2), torch.zeros(6)), keys={"key": key})
    with_copies = from_loaded(copied, section("given"), source="csv")
    assert len(with_copies.samples["test"]) == 1  # the copy stays where the column says; planning reports it


SMILES = ["c1ccccc1", "Cc1ccccc1", "CCc1ccccc1", "Oc1ccccc1", "C1CCCCC1", "CC1CCCCC1", "c1ccncc1", "Cc1ccncc1", "CCO",
          "CCCO", "c1ccc2ccccc2c1", "Cc1ccc2ccccc2c1"]  # fmt: skip


def test_molecules_of_one_scaffold_stay_together() -> None:
    pytest.importorskip("rdkit")
    key = np.array(SMILES)
    splits = split_rows(Rows(len(key), None, key), section("scaffold", validation=0.2, test=0.2))
    found = of_rows(splits, len(key))
    assert len(set(found[:4])) == len(set(found[4:6])) == len(set(found[6:8])) == len(set(found[10:])) == 1
    assert found[0] == 0  # the most frequent scaffold is for training
    folds = [of_rows(split_rows(Rows(12, None, key), section("scaffold", folds=3, fold=f)), 12) for f in range(3)]
    assert ((np.stack(folds) == 1).sum(axis=0) == (folds[0] != 2)).all()
    plain = of_rows(split_rows(Rows(12, None, key), section("scaffold")), 12)
    assert all(((one == 2) == (plain == 2)).all() for one in folds)
    with pytest.raises(DataError, match="row 1 'C1CC'"):
        split_rows(Rows(3, None, np.array(["CCO", "C1CC", "CC"])), section("scaffold"))


@pytest.mark.parametrize("by", [by for by in METHODS if by in COLUMNS])
def test_an_empty_cell_and_a_missing_column_are_reported(by: str) -> None:
    empty = np.array(["CCO", None, "CCC"], dtype=object)
    with pytest.raises(
        DataError, match=r"'key', by which the data are split, is empty in 1 of 3 rows .*: 1\)"
    ) as caught:
        split_rows(Rows(3, None, empty), section(by))
    assert caught.value.details["rows"] == [1]
    with pytest.raises(DataError, match="needs the column 'key'") as caught:
        split_rows(Rows(3), section(by))
    assert "Use a table" in caught.value.remedy


def test_groups_that_equal_rows_chain_together_are_reported() -> None:
    with pytest.raises(DataError, match="chain 12 of 20 groups") as caught:
        split_rows(Rows(np.array([*range(30), *[0] * 12, *range(30, 38)]), None, np.arange(50) % 20), section("group"))
    assert "a column more" in caught.value.remedy


def test_too_few_groups_and_times_are_reported() -> None:
    with pytest.raises(DataError, match="2 groups"):
        split_rows(Rows(8, None, np.arange(8) % 2), section("group"))
    with pytest.raises(DataError, match="2 different times"):
        split_rows(Rows(8, None, np.arange(8) % 2), section("time"))
    found = of_rows(split_rows(Rows(9, None, np.arange(9) % 3), section("group")), 9)
    assert set(found) == {0, 1, 2}


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"by": "group"}, "needs the column, data.split.group"),
        ({"by": "time", "group": "a", "time": "b"}, "split.group has no effect with split.by time"),
        ({"time": "b"}, "it belongs to by time"),
        ({"by": "given", "column": "b", "folds": 3}, "the file decides"),
        ({"folds": 3, "fold": 3}, "counted from 0"),
        ({"fold": 1}, "split.folds is None"),
    ],
)
def test_keys_that_do_not_go_together_are_refused(keys: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        SplitSection.model_validate(keys)


def test_a_table_is_split_by_a_column_that_is_no_feature(tmp_path: Any) -> None:
    lines = [f"{n % 7},{n},2026-{1 + n // 28:02d}-{1 + n % 28:02d},{'x' if n % 3 else 'y'}" for n in range(280)]
    (tmp_path / "t.csv").write_text("\n".join(["customer,a,day,kind", *lines]))
    args = {"path": "t.csv", "target": "kind", "features": ["a"]}
    way = SplitSection(by="time", time="day")
    splits = from_loaded(load_source("csv", args, tmp_path, way), way, source="csv")
    times = splits.split["times"]
    assert times["train"][0] == "2026-01-01"
    assert times["train"][1] < times["validation"][0] < times["validation"][1] < times["test"][0]
    way = SplitSection(by="group", group="customer")
    splits = from_loaded(load_source("csv", args, tmp_path, way), way, source="csv")
    assert sum(splits.split["groups"].values()) == 7
    assert load("csv", tmp_path / "t.csv", target="kind", features=["a"]).keys == {}
    del args["features"]
    (tmp_path / "t.csv").write_text("\n".join(["customer,a,kind", *(f"{n % 7},{n},{n % 2}" for n in range(70))]))
    assert load_source("csv", args, tmp_path, way).feature_names == ["a"]


def test_samples_without_the_field_that_divides_are_refused() -> None:
    with pytest.raises(DataError, match="needs the column 'patient'"):
        pairs = [(torch.tensor([float(n)]), n % 2) for n in range(100)]
        from_user(pairs, SplitSection(by="group", group="patient"), source="a.py:data", seed=0)


@pytest.mark.requirement("TRAIN-1")
def test_values_of_a_column_are_numbered_as_numpy_sorts_them() -> None:
    texts = ["b", "ä", "a", "\U0001f600", "b", "￿", "", "ä", "aa"]
    for key in (np.array(texts), np.array(texts, dtype=object), np.array([3, -1, 3, 2]), np.array([0.5, -1.0, 0.5])):
        wanted, places = np.unique(key.astype(str) if key.dtype == object else key, return_inverse=True)
        values, found = numbered(key)
        assert values.tolist() == wanted.tolist()
        assert found.tolist() == places.tolist()


@pytest.mark.requirement("TRAIN-1")
def test_a_column_of_texts_is_read_as_its_cells_are(tmp_path: Path) -> None:
    for cells in (["b", "a", "b"], ["b", None, "b"], [2, 1, 2], [2.5, None, 2.5]):
        table = pa.table({"key": cells, "x": [1.0, 2.0, 3.0], "y": [0, 1, 1]})
        parquet.write_table(table, tmp_path / "t.parquet")
        source = Parquet(path="t.parquet", target="y")
        found = Reading(source, source.files(tmp_path)).values("key")
        assert found.dtype == np.array(cells).dtype
        assert found.tolist() == np.array(cells).tolist()
