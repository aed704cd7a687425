"""Record of the rows that each split holds: what grown data change, of few rows and of many."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from trainwright.trainer.data.assemble import from_loaded, from_user
from trainwright.trainer.data.cells import cell_of
from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.data.sources import load_source
from trainwright.trainer.data.sources.source import Loaded
from trainwright.trainer.data.splits import Splits
from trainwright.trainer.data.tensors import TensorSamples
from trainwright.trainer.evidence import split_rows as recording
from trainwright.trainer.evidence.split_rows import record_split_rows
from trainwright.trainer.run.split_rows import (
    Became,
    RowsMoved,
    SplitRows,
    Unseen,
    rows_moved,
    rows_tested_by_both,
    rows_unseen,
)

pytestmark = pytest.mark.requirement("REPRO-4")
DIGITS = {"model": {"use": "mlp"}, "data": {"use": "digits"}}
HELD_OUT = ("validation", "test")


def table(first: int, last: int, by: str = "hash", names: list[str] | None = None) -> Splits:
    """Return splits of the rows first to last, class "b" or "c" each."""
    numbers = torch.arange(first, last, dtype=torch.float32)
    labels = (numbers.long() % 2) + (0 if names is None else 1)
    inputs = torch.stack([numbers, numbers.sin()], 1)
    loaded = Loaded(TensorSamples(inputs, labels), names or ["b", "c"])
    return from_loaded(loaded, SplitSection.model_validate({"by": by}), source="csv")


def recorded(splits: Splits, folder: Path, make_run: Any, values: dict[str, Any] = DIGITS) -> tuple[SplitRows, Path]:
    run = make_run(folder, values)
    record_split_rows(run, splits)
    return run.part(SplitRows), run.artifacts


def compare(before: Splits, after: Splits, folder: Path, make_run: Any, values: dict[str, Any] = DIGITS) -> RowsMoved:
    found = [recorded(one, folder / f"run{n}", make_run, values) for n, one in enumerate((before, after))]
    moved = rows_moved(*found[0], *found[1])
    assert moved is not None
    return moved


def test_new_and_gone_rows_are_counted_whatever_the_order_and_the_classes(tmp_path: Path, make_run: Any) -> None:
    moved = compare(table(0, 300), table(50, 400, names=["a", "b", "c"]), tmp_path, make_run)
    assert moved == RowsMoved(100, 50, 0, 0, estimated=False, same=250, by="inputs")
    moved = compare(table(0, 300, "random"), table(0, 310, "random"), tmp_path / "random", make_run)
    assert moved.new == 10
    assert moved.test_in_train > 20
    assert moved.validation_in_train > 20
    same = compare(table(0, 300), table(0, 300), tmp_path / "same", make_run)
    assert same == RowsMoved(0, 0, 0, 0, estimated=False, same=300, by="inputs")


@pytest.mark.parametrize("kind", ["tensors", "pairs", "mappings"])
def test_rows_under_other_targets_are_the_same_rows(kind: str, tmp_path: Path, make_run: Any) -> None:
    def splits(scale: float) -> Splits:
        inputs = torch.arange(300, dtype=torch.float32)[:, None]
        targets = scale * inputs.sin()
        if kind == "tensors":
            return from_loaded(Loaded(TensorSamples(inputs, targets)), SplitSection(), source="npz")
        pairs = zip(inputs, targets, strict=True)
        own = [pair if kind == "pairs" else {"x": pair[0], "target": pair[1]} for pair in pairs]
        return from_user(own, SplitSection(), source="a.py:d", seed=0)

    moved = compare(splits(1.0), splits(2.0), tmp_path, make_run)
    assert moved == RowsMoved(0, 0, 0, 0, estimated=False, changed=299, same=300, by="inputs"), (
        "the sine of 0 is 0 under every scale"
    )


def test_rows_of_the_same_file_are_known_by_their_place_whichever_columns_are_read(
    tmp_path: Path, make_run: Any
) -> None:
    lines = "".join(f"{row % 7},{row % 11},{row / 3:.3f},{row % 2}\n" for row in range(300))
    (tmp_path / "rows.csv").write_text(f"a,b,c,y\n{lines}")

    def splits(**args: Any) -> Splits:
        loaded = load_source("csv", {"path": "rows.csv", "target": "y", **args}, tmp_path, SplitSection())
        return from_loaded(loaded, SplitSection(), source="csv")

    of_csv = {"model": {"use": "mlp"}, "data": {"use": "csv", "args": {"path": "rows.csv", "target": "y"}}}
    moved = compare(splits(), splits(columns={"c": "ignore"}), tmp_path / "one", make_run, of_csv)
    assert (moved.new, moved.gone, moved.by, moved.changed) == (0, 0, "place", 300)
    assert moved.changes == "300 with other values"
    assert moved.test_in_train > 0, "rows that are equal now are dealt together, and all are dealt anew"
    known, other = (recorded(splits(), tmp_path / name, make_run, of_csv) for name in ("two", "three"))
    (tmp_path / "rows.csv").write_text(f"a,b,c,y\n{lines}8,9,9.5,1\n")
    grown = rows_moved(*known, *recorded(splits(), tmp_path / "four", make_run, of_csv))
    assert grown is not None
    assert (grown.by, grown.new, grown.gone, grown.gone_by_target) == ("inputs", 1, 0, {})
    (tmp_path / "rows.csv").write_text("a,b,c,y\n" + "\n".join(lines.splitlines()[3:]) + "\n")
    fewer = rows_moved(*known, *recorded(splits(), tmp_path / "fewer", make_run, of_csv))
    assert fewer is not None
    assert fewer.gone_by_target == {cell_of("0"): (2, 150), cell_of("1"): (1, 150)}
    wider = "".join(f"{line},{row * 7 % 5}\n" for row, line in enumerate(lines.splitlines()))
    (tmp_path / "rows.csv").write_text(f"a,b,c,y,d\n{wider}")
    added = rows_moved(*known, *recorded(splits(), tmp_path / "five", make_run, of_csv))
    assert added is not None
    assert (added.by, added.new, added.gone, added.changed) == ("cells", 0, 0, 300)
    assert rows_moved(*known, *other) == RowsMoved(
        0, 0, 0, 0, estimated=False, same=300, by="place", same_validation=True
    )


def test_test_rows_are_shared_by_projects_whose_tables_have_other_columns_beside_them(
    tmp_path: Path, make_run: Any
) -> None:
    numbers = [(row, row * 37 % 101 / 8, row * 53 % 97 / 4) for row in range(300)]

    def plan(name: str, rows: list[tuple[Any, ...]], header: str) -> tuple[SplitRows, Path]:
        lines = [",".join(map(str, [*row, row[0] % 2])) for row in rows]
        (tmp_path / f"{name}.csv").write_text("\n".join([f"{header},y", *lines]) + "\n")
        args = {"path": f"{name}.csv", "target": "y", "columns": dict.fromkeys(header.split(","), "number")}
        splits = from_loaded(load_source("csv", args, tmp_path, SplitSection()), SplitSection(), source="csv")
        return recorded(
            splits, tmp_path / name, make_run, {"model": {"use": "mlp"}, "data": {"use": "csv", "args": args}}
        )

    first = plan("first", numbers, "id,a,b")
    tested = first[0].kept["test"]
    assert rows_tested_by_both(*first, *first) == tested
    wider = plan("wider", [(*row, row[0] % 7) for row in reversed(numbers)], "id,a,b,thrown_away")
    assert 0 < rows_tested_by_both(*first, *wider) < tested, "of a file in another order others are tested on"
    numbered = plan("numbered", [(row, row**2 % 89 + 200) for row in range(300)], "id,c")
    assert rows_tested_by_both(*first, *numbered) == 0, "a running number says of no row which one it is"
    few = plan("few", [(row % 3, row % 11) for row in range(300)], "a,b")
    assert rows_tested_by_both(*few, *plan("others", [(row % 3, row % 13) for row in range(300)], "a,b")) == 0, (
        "by nature"
    )


def test_rows_that_only_their_targets_tell_apart_were_not_moved_where_they_are_in_two_splits(
    tmp_path: Path, make_run: Any
) -> None:
    inputs = torch.arange(300, dtype=torch.float32)[:, None]
    twins = torch.cat([inputs, inputs[:2]])
    targets = torch.cat([torch.zeros(300), torch.ones(2)])[:, None]

    def splits(extra: int) -> Splits:
        rows = torch.cat([twins, 1000 + torch.arange(extra, dtype=torch.float32)[:, None]])
        pairs = list(zip(rows, torch.cat([targets, torch.zeros(extra, 1)]), strict=True))
        parts = {"train": pairs[:200] + pairs[302:], "validation": pairs[200:250], "test": pairs[250:302]}
        return from_user(parts, None, source="a.py:d", seed=0)

    moved = compare(splits(0), splits(1), tmp_path, make_run)
    assert (moved.new, moved.gone, moved.test_in_train, moved.changed, moved.by) == (1, 0, 0, 0, "inputs")


def test_rows_of_few_different_inputs_are_known_by_all_they_hold(tmp_path: Path, make_run: Any) -> None:
    def splits(first: int) -> Splits:
        pairs = [(torch.tensor([number % 3]), float(number)) for number in range(first, first + 300)]
        return from_user(pairs, SplitSection(), source="a.py:d", seed=0)

    moved = compare(splits(0), splits(30), tmp_path, make_run)
    assert (moved.new, moved.gone, moved.changed, moved.by) == (30, 30, 0, "content")


def test_of_many_rows_the_same_ones_are_drawn_at_every_level(
    tmp_path: Path, make_run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "MAX_ROWS", 1000)
    moved = compare(table(0, 3900), table(0, 8200), tmp_path, make_run)
    assert moved.estimated
    assert moved.gone == moved.test_in_train == 0
    assert abs(moved.new - 4300) < 800


def test_samples_of_user_code_are_recorded_while_they_are_read_one_by_one(tmp_path: Path, make_run: Any) -> None:
    samples = [(torch.tensor([float(n)]), n % 2) for n in range(200)]
    first, second = (from_user(samples[start:], SplitSection(by="hash"), source="a.py:d", seed=0) for start in (0, 40))
    assert compare(first, second, tmp_path, make_run) == RowsMoved(0, 40, 0, 0, estimated=False, same=160, by="inputs")


def unseen_values(before: Splits, after: Splits, folder: Path, make_run: Any) -> tuple[set[float], set[float], Unseen]:
    """The rows that are to be compared on, what `after` holds out and `before` trained on, by their first number."""
    found = [recorded(one, folder / f"run{n}", make_run) for n, one in enumerate((before, after))]
    unseen = rows_unseen(*found[0], *found[1])
    assert unseen is not None
    held = {name: [float(after.samples[name][at][0][0]) for at in range(len(after.samples[name]))] for name in HELD_OUT}
    left = {held[name][at] for name, places in unseen.indices.items() for at in places}
    trained = {float(before.samples["train"][at][0][0]) for at in range(len(before.samples["train"]))}
    return left, {one for values in held.values() for one in values} & trained, unseen


def test_rows_that_an_earlier_plan_trained_on_are_left_out_by_their_index(tmp_path: Path, make_run: Any) -> None:
    before, after = table(0, 300, "random"), table(0, 310, "random")
    left, trained, unseen = unseen_values(before, after, tmp_path, make_run)
    held = sum(len(after.samples[name]) for name in HELD_OUT)
    assert len(trained) > 20
    assert not left & trained
    assert len(left) == held - len(trained)
    assert sum(unseen.seen.values()) == len(trained)
    tests = [
        {float(one.samples["test"][at][0][0]) for at in range(len(one.samples["test"]))} for one in (before, after)
    ]
    same = len(tests[0] & tests[1])
    assert unseen.tested == Became(same=same, moved=len(tests[0]) - same)
    assert unseen.tested.moved > 0
    assert {float(after.samples["test"][at][0][0]) for at in unseen.kept} == tests[0] & tests[1]
    held = table(0, 300)
    size = len(held.samples["test"])
    assert unseen_values(held, held, tmp_path / "same", make_run)[2] == Unseen(
        {}, {"validation": 0, "test": 0}, Became(same=size), kept=tuple(range(size))
    )


def test_it_is_told_what_became_of_the_rows_that_tested_an_earlier_plan(tmp_path: Path, make_run: Any) -> None:
    of_csv = {"model": {"use": "mlp"}, "data": {"use": "csv", "args": {"path": "rows.csv", "target": "y"}}}
    rows = [[f"{row / 7:.4f}", f"{row % 11 + 3}.5", f"{row % 2}"] for row in range(300)]

    def became(changed: list[list[str]], name: str) -> Became:
        found = []
        for part, lines in enumerate((rows, changed)):
            (tmp_path / "rows.csv").write_text("a,b,y\n" + "".join(f"{','.join(line)}\n" for line in lines))
            args = {"path": "rows.csv", "target": "y"}
            splits = from_loaded(load_source("csv", args, tmp_path, SplitSection()), SplitSection(), source="csv")
            found.append(recorded(splits, tmp_path / f"{name}{part}", make_run, of_csv))
        unseen = rows_unseen(*found[0], *found[1])
        assert unseen is not None
        assert len(unseen.kept) == unseen.tested.same
        return unseen.tested

    grown = became([*rows, ["99", "1", "0"]], "grown")
    size = grown.same + grown.moved
    assert grown.all == size > 20
    scaled = [[a, f"{float(b) * 1.15:.6f}", y] for a, b, y in rows]
    assert became(scaled, "scaled") == Became(changed=size, columns=("b",))
    turned = [[a, b, str(1 - int(y))] for a, b, y in scaled]
    assert became(turned, "turned") == Became(relabelled=size)
    gone = became(scaled[150:], "gone")
    assert gone.gone + gone.changed == size
    assert min(gone.gone, gone.changed) > 0
    rows = [[f"{row % 150 / 7:.4f}", f"{row % 150 % 11}", f"{row // 150}"] for row in range(300)]  # two of each input
    shifted = became([[f"{float(a) + 0.05:.4f}", b, y] for a, b, y in rows], "shifted")
    assert shifted.unknown > 20, "by what is left, a row is as others are"
    assert (shifted.same, shifted.moved) == (0, 0)


def test_a_test_row_with_another_target_is_no_test_row_still(tmp_path: Path, make_run: Any) -> None:
    def pairs(shift: int) -> list[Any]:
        return [(torch.tensor([float(n)]), (n + shift * (n < 100)) % 2) for n in range(300) for _ in (1, 2)]

    before, after = (from_user(pairs(shift), SplitSection(), source="a.py:d", seed=0) for shift in (0, 1))
    *_, unseen = unseen_values(before, after, tmp_path, make_run)
    tests = [{float(row[0][0]) for row in (one.samples["test"][at] for at in range(len(one.samples["test"])))}
             for one in (before, after)]  # fmt: skip
    assert unseen.tested.all == len(tests[0])
    still = {one for one in tests[0] & tests[1] if one >= 100}
    assert unseen.tested.same == len(still) < len(tests[0] & tests[1])
    assert unseen.tested.relabelled == len({one for one in tests[0] if one < 100})
    assert sorted(float(after.samples["test"][at][0][0]) for at in unseen.kept) == sorted(still), "of equal rows one"


def test_of_many_rows_those_that_are_recorded_are_compared_on_and_none_where_no_row_is_found_again(
    tmp_path: Path, make_run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "MAX_ROWS", 1000)
    before, after = table(0, 3900, "random"), table(0, 4300, "random")
    left, trained, unseen = unseen_values(before, after, tmp_path, make_run)
    assert 30 < len(left) < 200
    assert not left & trained
    assert abs(sum(unseen.seen.values()) - len(trained)) < 200
    found = [recorded(one, tmp_path / f"other{n}", make_run) for n, one in enumerate((before, table(5000, 9000)))]
    assert rows_unseen(*found[0], *found[1]) is None
