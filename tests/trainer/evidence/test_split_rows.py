"""Record of the rows that each split holds: what grown data change, of few rows and of many."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from trainwright.trainer.data.assemble import from_loaded, from_user
from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.data.sources.source import Loaded
from trainwright.trainer.data.splits import Splits
from trainwright.trainer.data.tensors import TensorSamples
from trainwright.trainer.evidence import split_rows as recording
from trainwright.trainer.evidence.split_rows import record_split_rows
from trainwright.trainer.run.split_rows import RowsMoved, SplitRows, rows_moved

pytestmark = pytest.mark.requirement("REPRO-4")
DIGITS = {"model": {"use": "mlp"}, "data": {"use": "digits"}}


def table(first: int, last: int, by: str = "hash", names: list[str] | None = None) -> Splits:
    """Return splits of the rows first to last, class "b" or "c" each."""
    numbers = torch.arange(first, last, dtype=torch.float32)
    labels = (numbers.long() % 2) + (0 if names is None else 1)
    inputs = torch.stack([numbers, numbers.sin()], 1)
    loaded = Loaded(TensorSamples(inputs, labels), names or ["b", "c"])
    return from_loaded(loaded, SplitSection.model_validate({"by": by}), source="csv")


def recorded(splits: Splits, folder: Path, make_run: Any) -> tuple[SplitRows, Path]:
    run = make_run(folder, DIGITS)
    record_split_rows(run, splits)
    return run.part(SplitRows), run.artifacts


def compare(before: Splits, after: Splits, folder: Path, make_run: Any) -> RowsMoved:
    found = [recorded(one, folder / f"run{n}", make_run) for n, one in enumerate((before, after))]
    moved = rows_moved(*found[0], *found[1])
    assert moved is not None
    return moved


def test_new_and_gone_rows_are_counted_whatever_the_order_and_the_classes(tmp_path: Path, make_run: Any) -> None:
    moved = compare(table(0, 300), table(50, 400, names=["a", "b", "c"]), tmp_path, make_run)
    assert moved == RowsMoved(100, 50, 0, 0, estimated=False)
    moved = compare(table(0, 300, "random"), table(0, 310, "random"), tmp_path / "random", make_run)
    assert moved.new == 10
    assert moved.test_in_train > 20
    assert compare(table(0, 300), table(0, 300), tmp_path / "same", make_run) == RowsMoved(0, 0, 0, 0, estimated=False)


def test_of_many_rows_the_same_ones_are_drawn_at_every_level(
    tmp_path: Path, make_run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "MOST_ROWS", 1000)
    moved = compare(table(0, 3900), table(0, 8200), tmp_path, make_run)
    assert moved.estimated
    assert moved.gone == moved.test_in_train == 0
    assert abs(moved.new - 4300) < 800


def test_samples_of_user_code_are_recorded_while_they_are_read_one_by_one(tmp_path: Path, make_run: Any) -> None:
    samples = [(torch.tensor([float(n)]), n % 2) for n in range(200)]
    first, second = (from_user(samples[start:], SplitSection(by="hash"), source="a.py:d", seed=0) for start in (0, 40))
    assert compare(first, second, tmp_path, make_run) == RowsMoved(0, 40, 0, 0, estimated=False)
