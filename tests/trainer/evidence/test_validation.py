"""Validation of a run's data: checks that cannot be made are a problem with a way out, and never a pass."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from torch.utils.data import TensorDataset

from trainwright.trainer.base.errors import DataError
from trainwright.trainer.config import config_digest, parse_config
from trainwright.trainer.data.assemble import from_loaded
from trainwright.trainer.data.sources import load_source
from trainwright.trainer.data.tensors import TensorSamples
from trainwright.trainer.data.validation.check import Check, Context, Family
from trainwright.trainer.data.validation.families import CHECKS
from trainwright.trainer.evidence.validation import validated, validation_of
from trainwright.trainer.run import RunKind, RunSpecification
from trainwright.trainer.run.validation import Validation

pytestmark = pytest.mark.requirement("PIPE-2")
FRESH = {"columns": {"day": {"not_after": "now"}}}


class Raising(Family):
    """Fails while it asks, in the pass over the rows, or while it reads them: as a check with a fault does."""

    name = "raising"

    def __init__(self, where: str) -> None:
        self.where = where

    def planned(self, context: Context) -> Iterable[Check]:
        """Yield a check whose aggregate cannot be computed."""
        if self.where == "planned":
            raise KeyError("no such thing")
        if self.where == "pass":
            yield Check(
                "x", None, "warning", {"x": pl.col("age").str.to_integer().sum()}, lambda _: pytest.fail("made")
            )

    def found(self, context: Context) -> Iterable[Any]:
        """Yield nothing, or fail."""
        if self.where == "found":
            raise ZeroDivisionError("division by zero")
        return ()


def config(**data: Any) -> Any:
    return parse_config(
        {"model": {"use": "mlp"}, "data": {"use": "csv", "args": {"path": "x.csv", "target": "y"}, **data}}
    )


@pytest.fixture
def root(tmp_path: Path) -> Path:
    rows = "\n".join(f"{20 + row % 40},2024-01-0{1 + row % 9},{row % 2}" for row in range(60))
    (tmp_path / "x.csv").write_text(f"age,day,y\n{rows}\n")
    return tmp_path


@pytest.mark.parametrize("where", ["planned", "pass", "found"])
def test_checks_that_cannot_be_made_are_named_and_nobody_proposes_to_leave_them_out(
    where: str, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(CHECKS, "raising", Raising(where))
    found = validation_of(config(), root, {}, 0)
    assert found.problem is not None
    assert "The checks of 'raising' cannot be made" in found.problem
    assert (found.family, found.is_exempt) == ("raising", False)
    assert "without" not in str(found.remedy)
    again = validation_of(config(expectations={"without": [found.family]}), root, {}, 0)
    assert again.problem is None
    assert len(again.report.checks) > 5
    assert "raising" in {one.what for one in again.report.not_checked}


def test_a_later_run_whose_verdicts_depend_on_the_day_stops_where_they_cannot_be_made(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = config(expectations=FRESH)
    later = RunSpecification(
        run_id="r", project="p", kind=RunKind.BASELINE, config=asked, config_digest=config_digest(asked),
        code_root=str(root), validated_by="smoke-1",
    )  # fmt: skip
    assert validated(later, {}, 0).report.checks
    monkeypatch.setitem(CHECKS, "raising", Raising("found"))
    with pytest.raises(DataError, match="could not be validated: The checks of 'raising'") as refused:
        validated(later, {}, 0)
    assert "without" not in refused.value.remedy


@pytest.mark.parametrize("held", [TensorDataset, TensorSamples])
def test_wide_samples_are_copies_by_their_content_and_not_by_their_summaries(tmp_path: Path, held: Any) -> None:
    words, classes = torch.eye(400), torch.arange(400) % 2
    words[-8:] = words[:8]
    samples = {"train": held(words, classes)}
    own = parse_config({"model": {"use": "mlp"}, "data": {"use": "mine.py:build"}})
    report = validation_of(own, tmp_path, samples, 0).report
    assert [(one.name, one.count, one.rows) for one in report.checks if not one.passed] == [
        ("duplicates", 8, list(range(392, 400)))
    ]


def test_a_process_that_ended_while_it_validated_is_no_exemption() -> None:
    assert not Validation(problem="The process that reads the rows ended without an answer (signal 9).").is_exempt


def test_a_reference_elsewhere_is_refused_before_anything_is_read(root: Path) -> None:
    pytest.importorskip("fsspec")
    import fsspec

    fsspec.filesystem("memory").pipe("/elsewhere/x.csv", (root / "x.csv").read_bytes())
    for reference in ("memory://elsewhere/x.csv", "../x.csv"):
        found = validation_of(config(expectations={"drift": {"reference": reference}}), root, {}, 0)
        assert found.problem is not None
        assert "drift.reference" in found.problem
        assert not found.report.checks


def test_rows_elsewhere_are_validated_as_those_of_a_file(root: Path) -> None:
    import fsspec

    fsspec.filesystem("memory").pipe("/ours/x.csv", (root / "x.csv").read_bytes())
    found = validation_of(config(args={"path": "memory://ours/x.csv", "target": "y"}), root, {}, 0)
    assert found.problem is None
    assert found.report.rows == 60


@pytest.mark.requirement("PIPE-2")
@pytest.mark.parametrize(
    ("split", "features", "leaks"),
    [
        ({"by": "group", "group": "machine"}, None, []),
        ({"by": "group", "group": "machine"}, ["machine", "tone"], ["machine.leak_target"]),
        ({}, None, ["machine.leak_group"]),
    ],
)
def test_the_column_by_which_rows_are_split_gives_no_target_away_unless_it_is_an_input(
    tmp_path: Path, split: dict[str, Any], features: list[str] | None, leaks: list[str]
) -> None:
    draw = np.random.default_rng(0)
    rows = "\n".join(
        f"m{row // 10:02},{draw.normal() + row // 10 % 3:.4f},{'abc'[row // 10 % 3]}" for row in range(600)
    )
    (tmp_path / "x.csv").write_text(f"machine,tone,y\n{rows}\n")
    args = {"path": "x.csv", "target": "y"} | ({} if features is None else {"features": features})
    asked = config(args=args, split=split)
    loaded = load_source("csv", args, tmp_path, asked.data.split)
    found = validation_of(asked, tmp_path, from_loaded(loaded, asked.data.split, source="csv").samples, 0)
    assert found.problem is None
    assert {one.place for one in found.report.checks if not one.passed and "leak" in one.name} == set(leaks)
