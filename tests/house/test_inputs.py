"""The judgement of `make inputs` and `make fuzz`: what is misread is wrong, a refusal without its cause is unclear."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from trainwright.trainer.base.errors import DataError

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
NAMES = ("case", "verdicts", "at_planning", "running")


@pytest.fixture(scope="module")
def inputs() -> Any:
    """The modules of benchmarks/inputs, as `make inputs` imports them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS / "inputs"))
        yield {name: importlib.import_module(name) for name in NAMES}
        forget()


def forget() -> None:
    """Leave the benchmarks' modules, whose names are short, to nobody else."""
    ours = [name for name, one in sys.modules.items() if str(getattr(one, "__file__", "")).startswith(str(BENCHMARKS))]
    for name in ours:
        sys.modules.pop(name)


def seen(
    inputs: dict[str, ModuleType], folder: Path, *, texts: list[str], refused: str = "", classes: Any = None
) -> Any:
    """What was seen of doses of 10 and 20 in three fixed rows, the second of which became 20 where it was 10."""
    rows = folder / "artifacts" / "rows"
    rows.mkdir(parents=True)
    np.save(rows / "input.npy", np.array([[1.0], [4.0], [7.0]], dtype=np.float32))
    np.save(rows / "target.npy", np.array([10.0, 20.0, 10.0] if classes is None else [0, 1, 0]))
    split = {"inputs": {"input": {"path": "rows/input.npy"}}, "target": {"path": "rows/target.npy"}}
    data = {"splits": {"train": {"size": 3}}, "class_names": classes, "columns": [], "places": {"size": 0}}
    (folder / "artifacts" / "fixed_rows.json").write_text(json.dumps({"splits": {"validation": split}}))
    (folder / "artifacts" / "data.json").write_text(json.dumps(data))
    return inputs["at_planning"].Seen(texts, refused, folder)


def case(inputs: dict[str, ModuleType], **right: Any) -> Any:
    """An input whose target is the doses."""
    made = inputs["case"]
    config = {"data": {"args": {"target": "y"}}}
    return made.Case("one", "kind: one", print, config, {}, made.Right(**right))


def column(inputs: dict[str, ModuleType], *doses: float) -> dict[str, Any]:
    """The target as it was written."""
    return {"y": inputs["case"].Column([str(dose) for dose in doses], doses)}


def test_there_are_enough_inputs_each_with_its_source_and_its_right_understanding(
    inputs: dict[str, ModuleType],
) -> None:
    found = inputs["running"].cases()
    assert len(found) >= 150
    assert all(one.source.startswith("kind: ") or "#" in one.source for one in found)
    assert not [one.name for one in found if one.right.may != "read" and not one.right.words], "which words?"


@pytest.mark.parametrize(
    ("doses", "right", "expected"),
    [
        ((10, 20, 10), {"target": "number", "rows": 3}, "right"),
        ((10, 10, 10), {"target": "number"}, "wrong"),
        ((10, 20, 10), {"target": ["10", "20"]}, "wrong"),
        ((10, 20, 10), {"target": "number", "rows": 4}, "wrong"),
        ((10, 20, 10), {"target": "number", "named": ("doubt",)}, "wrong"),
        ((10, 20, 10), {"may": "refused", "words": ("doubt",)}, "wrong"),
    ],
)
def test_what_was_taken_is_right_only_if_everything_is_as_written(
    inputs: dict[str, ModuleType], tmp_path: Path, doses: tuple[float, ...], right: dict[str, Any], expected: str
) -> None:
    found = seen(inputs, tmp_path, texts=["completed"])
    one = case(inputs, columns=column(inputs, *doses), **right)
    assert inputs["verdicts"].verdict(one, found)[0] == expected


def test_a_number_that_became_a_class_is_wrong(inputs: dict[str, ModuleType], tmp_path: Path) -> None:
    found = seen(inputs, tmp_path, texts=["completed"], classes=["10", "20"])
    one = case(inputs, columns=column(inputs, 10, 20, 10), target="number")
    assert inputs["verdicts"].verdict(one, found) == ("wrong", "the target is classes (2: 10, 20) instead of a number")


@pytest.mark.parametrize(
    ("text", "may", "expected"),
    [
        ("rows.csv is compressed by gzip: unpack it.", "either", "refused_in_words"),
        ("rows.csv is compressed by gzip: unpack it.", "read", "unclear"),
        ("rows.csv has no column 'y'.", "either", "unclear"),
        ("The worker failed: KeyError: 'gzip'", "either", "unclear"),
        ("It is gzip. Name one of its columns: PK", "either", "unclear"),
    ],
)
def test_a_refusal_counts_by_its_words(
    inputs: dict[str, ModuleType], tmp_path: Path, text: str, may: str, expected: str
) -> None:
    one = case(inputs, may=may, words=("gzip",))
    assert inputs["verdicts"].verdict(one, seen(inputs, tmp_path, texts=[text], refused=text))[0] == expected


def test_fuzzing_keeps_the_smallest_input_of_each_crash_and_of_lost_rows(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS / "fuzz"))
        target = importlib.import_module("target")
        forget()
    assert target._fault_of(DataError("Line 3 is torn.", remedy="Correct it.")) == ""
    assert target._fault_of(ValueError("x")).startswith("crash: ValueError")
    (tmp_path / "rows.csv").write_text("a,y\n1,2\n3,4\n")
    assert target._rows_of(tmp_path / "rows.csv") == (2, 2)
    for content in (b"\0\0longer", b"\0\0short"):
        target._keep(tmp_path, "crash: one", content)
    assert [path.read_bytes() for path in tmp_path.glob("*.bin")] == [b"\0\0short"]
