"""Groups of fixed rows: where rows are split by them, so that intervals are of groups."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trainwright.trainer.clean_room.rows import open_split
from trainwright.trainer.jobs.data_worker import fix_rows
from trainwright.trainer.run import RunDirectory, RunKind
from trainwright.trainer.run.artifacts import Array, FixedRows
from trainwright.trainer.supervision.stop import StopRequest

pytestmark = [pytest.mark.slow, pytest.mark.requirement("GATE-6")]


def values_of(run: RunDirectory, array: Array | None) -> np.ndarray[Any, Any]:
    assert array is not None
    found: np.ndarray[Any, Any] = np.load(run.artifacts / array.path, allow_pickle=False)
    return found


@pytest.mark.parametrize("split", [{"by": "group", "group": "machine"}, {}])
def test_rows_that_are_split_by_groups_keep_the_number_of_theirs(prepared: Any, tmp_path: Path, split: Any) -> None:
    rows = "".join(f"m{row // 10:02},{row}.5,{row % 10}.5,{row % 2}\n" for row in range(300))
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "rows.csv").write_text(f"machine,x,z,y\n{rows}")
    data = {"use": "csv", "args": {"path": "rows.csv", "target": "y", "features": ["x", "z"]}, "split": split}
    run: RunDirectory = prepared("", {"model": {"use": "mlp"}, "data": data}, kind=RunKind.SMOKE)
    fix_rows(run, run.specification(), 1, StopRequest(run.stop_reason))
    found = run.part(FixedRows).splits["validation"]
    if not split:
        assert found.groups is None
        return
    machines = values_of(run, found.inputs["input"])[:, 0] // 10
    assert values_of(run, found.groups).tolist() == machines.astype(int).tolist()
    record = run.part(FixedRows).model_dump(mode="json")
    opened = open_split(run.artifacts, record, "validation")
    assert opened.groups is not None
    assert len(np.unique(opened.groups)) == len(np.unique(machines)) > 1


def test_of_too_many_rows_whole_groups_are_drawn(prepared: Any, tmp_path: Path) -> None:
    rows = "".join(f"m{row // 10:02},{row}.5,{row % 10}.5,{row % 2}\n" for row in range(900))
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "rows.csv").write_text(f"machine,x,z,y\n{rows}")
    data = {"use": "csv", "args": {"path": "rows.csv", "target": "y", "features": ["x", "z"]}}
    data |= {"split": {"by": "group", "group": "machine", "validation": 0.4}}
    values = {"model": {"use": "mlp"}, "data": data}
    run: RunDirectory = prepared("", values, kind=RunKind.SMOKE, evaluation_rows_bytes=4000)
    fix_rows(run, run.specification(), 1, StopRequest(run.stop_reason))
    opened = open_split(run.artifacts, run.part(FixedRows).model_dump(mode="json"), "validation")
    assert opened.is_sample
    assert 50 <= opened.rows < opened.size == 360
    assert opened.ranked is not None
    assert {*np.unique(opened.ranked, return_counts=True)[1]} == {10}
    assert opened.resampling.groups is opened.groups
