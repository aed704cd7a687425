"""Numbers, dates and codes as people write them are read as they are meant, left out with a reason, or asked about."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.trainer.data.loading import load

from trainwright.trainer.base.errors import DataError
from trainwright.trainer.data.assemble import from_loaded
from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.data.sources import load_source
from trainwright.trainer.data.sources.source import Loaded
from trainwright.trainer.data.table import transform

pytestmark = pytest.mark.requirement("PIPE-2", "TRAIN-11")

WRITTEN: dict[str, tuple[list[str], list[float]]] = {
    "thousands beside smaller numbers": (["1,234", "987", "12"], [1234, 987, 12]),
    "millions by commas": (["1,234,567", "12"], [1234567, 12]),
    "Indian groups": (["12,34,567", "500"], [1234567, 500]),
    "commas of thousands, a decimal point": (["1,234.5", "7"], [1234.5, 7]),
    "points of thousands, a decimal comma": (["1.234,5", "7,25"], [1234.5, 7.25]),
    "points of thousands alone": (["1.234.567", "89"], [1234567, 89]),
    "a decimal comma": (["1,5", "2", "-0,25"], [1.5, 2, -0.25]),
    "a decimal comma before three digits": (["1,234", "0,5"], [1.234, 0.5]),
    "three decimals throughout": (["1.234", "0.987", "12.500"], [1.234, 0.987, 12.5]),
    "apostrophes": (["1'234.5", "12"], [1234.5, 12]),
    "typographic apostrophes": (["1\u2019234", "12"], [1234, 12]),
    "narrow spaces": (["1\u202f234,5", "12"], [1234.5, 12]),
    "plain spaces": (["1 234", "12"], [1234, 12]),
    "dollars": (["$1,200.00", "-$5.50", "$-3"], [1200, -5.5, -3]),
    "euros behind": (["1.200,00 €", "5,50 €"], [1200, 5.5]),
    "a currency by its code": (["CHF 1'200", "CHF 7.50"], [1200, 7.5]),
    "percent": (["45%", "7.5 %"], [45, 7.5]),
    "a unit": (["12.5 kg", "3 kg", "7kg"], [12.5, 3, 7]),
    "a unit that few lack": (["12 km/h", "3 km/h", "7 km/h", "5"], [12, 3, 7, 5]),
    "a typesetter's minus": (["\u22123.5", "2"], [-3.5, 2]),
    "brackets of accountants": (["(1,234)", "(12)", "987"], [-1234, -12, 987]),
    "a minus behind": (["12.50-", "3"], [-12.5, 3]),
    "powers of ten": (["1e-3", "2.5E4"], [0.001, 25000]),
}


def table(folder: Path, cells: list[str], times: int = 10, **args: Any) -> Loaded:
    rows = [{"a": cell, "b": n % 7, "y": f"{n % 2}"} for n, cell in enumerate(cells * times)]
    (folder / "t.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return load("jsonl", folder / "t.jsonl", target="y", **args)


@pytest.mark.parametrize("case", WRITTEN)
def test_a_number_is_read_as_it_is_written_in_training_and_in_serving(case: str, tmp_path: Path) -> None:
    cells, numbers = WRITTEN[case]
    loaded = table(tmp_path, cells)
    assert loaded.samples.base[0][: len(cells), 0].tolist() == pytest.approx(numbers)
    assert loaded.schema is not None
    shipped = loaded.schema.shipped({})
    served = transform.encode_rows([{"a": cell, "b": 0} for cell in cells], shipped)
    assert served[:, 0].tolist() == pytest.approx(numbers)


@pytest.mark.parametrize("case", WRITTEN)
def test_a_target_is_read_by_the_marks_that_features_are_read_by(case: str, tmp_path: Path) -> None:
    cells, numbers = WRITTEN[case]
    rows = [{"b": n % 7, "y": cell} for n, cell in enumerate(cells * 10)]
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, rows)))
    loaded = load("jsonl", tmp_path / "t.jsonl", target="y", task="regression")
    assert loaded.class_names is None
    assert loaded.samples.base[1][: len(cells)].tolist() == pytest.approx(numbers)


@pytest.mark.parametrize("cells", [["1,234", "5,678"], ["1.234", "987", "500"], ["1,234", "1500"]])
def test_a_mark_that_nothing_settles_is_asked_about_with_both_readings(cells: list[str], tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"may be 1234 or 1\.234") as asked:
        table(tmp_path, cells)
    assert '","' in str(asked.value.remedy)
    by_comma = table(tmp_path, cells, decimal=cells[0][1]).samples.base[0][0, 0]
    assert by_comma.item() == pytest.approx(1.234)
    by_point = table(tmp_path, cells, decimal={",": ".", ".": ","}[cells[0][1]]).samples.base[0][0, 0]
    assert by_point.item() == 1234


@pytest.mark.parametrize(
    ("later", "readings"), [("1.234", (1.234, 1234)), pytest.param("1,234", (1234, 1.234), marks=pytest.mark.long)]
)
def test_a_mark_in_later_rows_than_those_that_kinds_are_inferred_from_is_asked_about(
    later: str, readings: tuple[float, float], tmp_path: Path
) -> None:
    cells = [f"{n % 900}" for n in range(10_000)] + [later]
    with pytest.raises(DataError, match=rf"line 10001, column 'a': '{later}' may be \d+ or \d\.\d+"):
        table(tmp_path, cells, times=1)
    for decimal, number in zip(".,", readings, strict=True):
        loaded = table(tmp_path, cells, times=1, decimal=decimal)
        assert loaded.samples.base[0][-1, 0].item() == pytest.approx(number)
        rows = [{"b": n % 900, "y": cell} for n, cell in enumerate(cells)]
        (tmp_path / "y.jsonl").write_text("\n".join(map(json.dumps, rows)))
        of_target = load("jsonl", tmp_path / "y.jsonl", target="y", task="regression", decimal=decimal)
        assert of_target.samples.base[1][-1].item() == pytest.approx(number)
    with pytest.raises(DataError, match=f"line 10001: the target 'y' is read as a number, and '{later}'") as asked:
        load("jsonl", tmp_path / "y.jsonl", target="y", task="regression")
    assert "data.args.decimal" in asked.value.remedy


@pytest.mark.parametrize(("other", "number"), [("0,5", 1.234), ("0.5", 1234)])
def test_another_column_settles_a_mark(other: str, number: float, tmp_path: Path) -> None:
    rows = [{"a": "1,234", "c": other, "y": f"{n % 2}"} for n in range(40)]
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert load("jsonl", tmp_path / "t.jsonl", target="y").samples.base[0][0].tolist() == pytest.approx([number, 0.5])


@pytest.mark.parametrize(
    ("cells", "kind", "reason"),
    [
        ([f"{n} {unit}" for n in range(40) for unit in ("kg", "g")], "ignore", "of several units"),
        (["45%", "0.45"], "category", "of several units"),
        (["0x1F", "0x2A"], "category", "2 different texts"),
        (["01067", "99310"], "category", "2 different texts"),
        (["12a", "3b", "7c"], "category", "of several units"),
        (["1.2.3", "1.10.0"], "category", "2 different texts"),
        (["Mayfield 2 6909", "Marston 12 2642"], "text", "free text"),
        (["Decker 2, 1909", "Augustin 12, 2642"], "text", "free text"),
        ([f"{n:02}.01.24" for n in range(1, 29)] * 2, "category", "years of two digits"),
        (
            [f"{n:02}/13/2024" for n in range(1, 13)] + [f"{n + 12}/01/2024" for n in range(1, 13)],
            "category",
            "several",
        ),
        ([str(10**15 + n) for n in range(40)], "ignore", "float32 tells"),
    ],
)
def test_what_is_no_number_is_not_read_as_one(cells: list[str], kind: str, reason: str, tmp_path: Path) -> None:
    schema = table(tmp_path, cells, times=4).schema
    assert schema is not None
    assert (schema.columns[0].kind, reason in schema.columns[0].reason) == (kind, True), schema.columns[0].reason


@pytest.mark.parametrize(
    ("cell", "days", "seconds"),
    [
        ("2024-01-01T00:30:00+02:00", 19722, 81000),
        ("2024-01-01 23:30 -0330", 19724, 10800),
        ("2024-01-01T12:00:00Z", 19723, 43200),
        ("1 January 2024, 5:30 PM", 19723, 63000),
        ("01-Jan-2024", 19723, None),
        ("Jan 1, 2024", 19723, None),
        ("1st Jan 2024", 19723, None),
        ("2024-W01", 19723, None),
        ("2024-W01-2", 19724, None),
        ("2024-002", 19724, None),
        ("2. Januar 2024", 19724, None),
        ("2 de enero de 2024", 19724, None),
        ("20240102", 19724, None),
        ("Tue, 02 Jan 2024 06:15:00 +0200", 19724, 15300),
        ("2024-01-02T01:00:00+02:00[Europe/Berlin]", 19723, 82800),
    ],
)
def test_dates_with_offsets_months_by_name_and_weeks_are_dates(
    cell: str, days: int, seconds: int | None, tmp_path: Path
) -> None:
    loaded = table(tmp_path, [cell], times=30)
    wanted = [days] if seconds is None else [days, seconds]
    assert loaded.samples.base[0][0, : len(wanted)].tolist() == wanted
    assert loaded.schema is not None
    assert loaded.schema.columns[0].kind == "date"


@pytest.mark.parametrize(("odd", "why"), [("unknown", "no date written"), ("2024-02-30", "no day of the calendar")])
def test_a_cell_that_is_no_date_among_dates_is_named_by_its_line(odd: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=f"line 9, column 'a': '{odd}' is {why}"):
        table(tmp_path, ["2024-01-31", "2023-12-01"] * 4 + [odd], times=1)


def test_days_with_a_time_in_some_rows_have_midnight_in_the_others(tmp_path: Path) -> None:
    loaded = table(tmp_path, ["2024-01-01", "2024-01-01 10:00"])
    assert loaded.samples.base[0][:2, :2].tolist() == [[19723, 0], [19723, 36000]]


def test_days_that_no_cell_tells_from_months_are_asked_about(tmp_path: Path) -> None:
    cells = ["03/04/2024", "05/01/2024 "]
    with pytest.raises(DataError, match="'03/04/2024', tells whether the day or the month comes first") as asked:
        table(tmp_path, cells)
    assert "data.args.day_first" in str(asked.value.remedy)
    assert table(tmp_path, cells, day_first=True).samples.base[0][0, 0] == 19816, "the third of April"
    assert table(tmp_path, cells, day_first=False).samples.base[0][0, 0] == 19786, "the fourth of March"
    assert table(tmp_path, [*cells, "31/01/2024"]).samples.base[0][0, 0] == 19816, "which the last cell tells"


@pytest.mark.parametrize(("day_first", "last"), [(True, "01/12/2020"), (False, "12/01/2020")])
def test_months_by_which_rows_are_split_are_read_as_the_user_says(day_first: bool, last: str, tmp_path: Path) -> None:
    days = [f"{first:02d}/{second:02d}/2020" for first in range(1, 13) for second in range(1, 13)]
    (tmp_path / "t.csv").write_text("day,x,y\n" + "".join(f"{day},{n},{n % 2}\n" for n, day in enumerate(days)))
    split = SplitSection(by="time", time="day", validation=0.2, test=0.2)
    args = {"path": "t.csv", "target": "y", "features": ["x"]}
    with pytest.raises(DataError, match="whether the day or the month comes first") as asked:
        from_loaded(load_source("csv", args, tmp_path, split), split, source="csv")
    assert "data.args.day_first" in str(asked.value.remedy)
    loaded = load_source("csv", {**args, "day_first": day_first}, tmp_path, split)
    assert isinstance(loaded, Loaded)
    tested = set(np.array(days)[from_loaded(loaded, split, source="csv").samples["test"].rows.numpy()])
    assert last in tested
    assert "01/01/2020" not in tested
    assert ("12/01/2020" in tested) is not day_first


def test_numbers_of_a_type_are_themselves_beside_decimal_commas(tmp_path: Path) -> None:
    rows = [{"a": "1.234,5", "b": 1.125, "y": 2.125 + n % 2} for n in range(40)]
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, rows)))
    loaded = load("jsonl", tmp_path / "t.jsonl", target="y", task="regression")
    assert loaded.samples.base[0][0].tolist() == [1234.5, 1.125]
    assert loaded.samples.base[1][:2].tolist() == [2.125, 3.125]
    served = transform.encode_rows(
        [{"a": cell, "b": 2.125} for cell in (1.125, 12.5, "12,5")], loaded.schema.shipped({})
    )
    assert served.tolist() == [[1.125, 2.125], [12.5, 2.125], [12.5, 2.125]]


@pytest.mark.parametrize(("first", "later"), [("45%", "0.45"), ("45%", "45"), ("12 kg", "12 g"), ("1.5", "1,5")])
def test_a_later_cell_of_another_unit_or_mark_is_named(first: str, later: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=f"line 10001, column 'a': '{later}' is no finite number"):
        table(tmp_path, [first] * 10_000 + [later], times=1)
