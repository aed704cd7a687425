"""Rows of a labelled file, by what a smoke run recorded: which are known, what is read, what is too large."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from tests.trainer.data.loading import load
from tests.trainer.start_a_run import make_run

from trainwright.tools.registry.labelled import BY_HAND, SAMPLE, WHY, Known, Labelled, read_labelled
from trainwright.trainer.base.errors import DataError
from trainwright.trainer.data.assemble import from_loaded
from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.evidence.split_rows import record_split_rows
from trainwright.trainer.jobs.export.predict import known_categories
from trainwright.trainer.run import RunDirectory
from trainwright.trainer.run.split_rows import SplitRows

pytestmark = pytest.mark.requirement("REG-1")
LABELS = {"y": "yes"}
CONFIG = {"model": {"use": "mlp"}, "data": {"use": "csv", "args": {"path": "t.csv", "target": "left"}}}
NUMBERS: dict[str, Any] = {
    "targets": ["y"], "takes_missing": False, "answer": {"kind": "numbers"}, "target_marks": {"y": {"decimal": "."}},
    "columns": [{"name": "x", "kind": "text", "width": (1 << 13) - 1, "values": {}}],
}  # fmt: skip


class Version:
    """What a smoke run of a table records, and the schema that is exported."""

    def __init__(self, folder: Path, rows: Iterable[str], split: dict[str, Any], **columns: str) -> None:
        path = folder / "t.csv"
        path.write_text("\n".join(["n,plan,by,left", *rows]) + "\n")
        self.section = SplitSection.model_validate(split)
        columns |= {"n": "number", "plan": "category"}
        loaded = load("csv", path, self.section, target="left", labels=LABELS, columns=columns)
        splits = from_loaded(loaded, self.section, source="csv")
        self.run: RunDirectory = make_run(folder / "smoke-1", CONFIG)
        record_split_rows(self.run, splits)
        shipped = loaded.schema.shipped(known_categories(splits.preprocessing))
        self.schema = {**shipped, "answer": {"kind": "classes", "classes": splits.class_names}}

    def known(self, **changes: Any) -> Known:
        kept = self.run.part(SplitRows).model_copy(update=changes)
        return Known.of(kept, self.run.artifacts, self.schema, self.section)

    def read(self, path: Path) -> Labelled:
        return read_labelled(path, self.schema, self.known(), LABELS).new()


def jsonl(path: Path, rows: Iterable[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_a_category_that_only_the_test_split_has_is_known_and_a_new_one_counts(tmp_path: Path) -> None:
    parts = {"train": ("gold", "basic"), "validation": ("gold", "basic"), "test": ("GOLD", "rare")}
    rows = [
        f"{place}{row},{plans[row % 2]},{part},{'yes' if row % 3 else 'no'}"
        for place, (part, plans) in enumerate(parts.items(), start=1)
        for row in range(10, 30)
    ]
    version = Version(tmp_path, rows, {"by": "given", "column": "by"}, by="ignore")
    told = [dict(zip(("n", "plan", "by", "left"), line.split(","), strict=True)) for line in rows]
    assert version.read(jsonl(tmp_path / "again.jsonl", told)).left_out == dict.fromkeys(WHY.values(), 20)
    new = [{"n": 7000.5 + row, "plan": "never met", "left": "y" if row else "no"} for row in range(2)]
    found = version.read(jsonl(tmp_path / "new.jsonl", new))
    assert (found.inputs.tolist(), found.targets.tolist()) == ([[7000.5, -1], [7001.5, -1]], [[0], [1]])
    assert (found.units, found.left_out) == (None, {})


def test_groups_are_known_however_they_are_written_and_times_are_units(tmp_path: Path) -> None:
    rows = [f"{row},{'ab'[row % 2]},{row // 5},{'yes' if row % 3 else 'no'}" for row in range(300)]
    (tmp_path / "groups").mkdir()
    version = Version(tmp_path / "groups", rows, {"by": "group", "group": "by"})
    new = [{"n": 9000 + row, "plan": "a", "by": float(row), "left": "no"} for row in range(60)]
    new += [{"n": 9999 + row, "plan": "a", "by": f" {place} ", "left": "no"} for row, place in enumerate((70, 70, 71))]
    found = version.read(jsonl(tmp_path / "new.jsonl", [*new, {**new[0], "by": None}]))
    groups = 60 - found.left_out["it knows other rows of their by"]
    assert 5 <= groups <= 15, "those of the test split are not known"
    assert found.left_out["their by is empty"] == 1
    assert (len(found.targets), len(set(found.units.tolist()))) == (groups + 3, groups + 2)  # type: ignore[union-attr]

    version = Version(tmp_path, rows, {"by": "time", "time": "by"})
    found = version.read(jsonl(tmp_path / "later.jsonl", new))
    assert (len(found.targets), len(set(found.units.tolist()))) == (63, 62)  # type: ignore[union-attr]
    with pytest.raises(DataError, match=r"No row has the column 'by': the version's split is by it"):
        version.read(
            jsonl(tmp_path / "bare.jsonl", [{name: row[name] for name in ("n", "plan", "left")} for row in new])
        )


@pytest.mark.parametrize(
    ("changes", "what"),
    [({"level": 1}, ", as of large data"), ({"kept": {}}, ", as of large data"), ({"groups": 0}, "")],
)
def test_without_a_record_of_the_rows_the_way_by_hand_is_told(
    tmp_path: Path, changes: dict[str, Any], what: str
) -> None:
    rows = [f"{row},{'ab'[row % 2]},{row // 5},{'yes' if row % 3 else 'no'}" for row in range(60)]
    version = Version(tmp_path, rows, {"by": "group", "group": "by"})
    with pytest.raises(DataError, match=f"this version was trained on is not recorded.*{what}") as met:
        version.known(**changes)
    assert met.value.remedy == BY_HAND


def zeros(path: Path) -> None:
    with gzip.open(path, "wb") as file:
        for _ in range(65):
            file.write(bytes(1 << 20))


@pytest.mark.parametrize(
    ("name", "write", "what"),
    [
        ("packed.csv", zeros, "holds more than 67,108,864 bytes"),
        ("big.json", lambda path: path.write_bytes(b" " * (17 << 20)), "holds more than 16,777,216 bytes"),
        ("many.csv", lambda path: path.write_text("x,y\n" + "a,1\n" * 1025), "has more than 1,024 rows"),
    ],
)
def test_a_file_that_would_fill_the_memory_is_refused(
    tmp_path: Path, name: str, write: Callable[[Path], None], what: str
) -> None:
    write(tmp_path / name)
    with pytest.raises(DataError, match=what) as met:
        read_labelled(tmp_path / name, NUMBERS, Known({}), {})
    assert met.value.remedy == SAMPLE


def test_of_several_labels_each_has_its_own_two_values_and_known_rows_are_known(tmp_path: Path) -> None:
    names, header = ["left", "sick"], "n,left,sick"
    rows = [f"{row}.5,{'yes' if row % 3 else 'no'},{row % 2 == 0}" for row in range(40)]
    (tmp_path / "t.csv").write_text("\n".join([header, *rows]) + "\n")
    section = SplitSection.model_validate({"by": "random"})
    loaded = load("csv", tmp_path / "t.csv", section, target=names, labels=LABELS)
    splits = from_loaded(loaded, section, source="csv")
    run = make_run(tmp_path / "smoke-1", CONFIG)
    record_split_rows(run, splits)
    shipped = loaded.schema.shipped(known_categories(splits.preprocessing))
    schema = {**shipped, "answer": {"kind": "labels", "classes": splits.class_names}}
    known = Known.of(run.part(SplitRows), run.artifacts, schema, section)
    new = ["100,y,False", "101,no,True"]
    (tmp_path / "new.csv").write_text("\n".join([header, *rows, *new, "102,,True"]) + "\n")
    found = read_labelled(tmp_path / "new.csv", schema, known, LABELS)
    assert found.new().targets.tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert (found.known, found.left_out["they have no target"]) == (40, 1)
    (tmp_path / "odd.csv").write_text("\n".join([header, "100,yes,perhaps"]) + "\n")
    with pytest.raises(DataError, match="'perhaps' is no class of this version"):
        read_labelled(tmp_path / "odd.csv", schema, known, LABELS)
    for marks in schema["target_marks"].values():
        del marks["values"]
    with pytest.raises(DataError, match="Which value of 'left' is yes is not in the version's schema.json"):
        read_labelled(tmp_path / "odd.csv", schema, known, LABELS)
