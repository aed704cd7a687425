"""Copies of held-out rows left out of train, and a file validated without a project."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from trainwright.trainer.base.errors import DataError
from trainwright.trainer.data.leaks.copies import without_copies
from trainwright.trainer.data.sections import SplitSection

SCRIPT = Path(__file__).parents[4] / "skills" / "ml-trainer" / "validation-scripts" / "validate_dataset.py"


@pytest.mark.requirement("PIPE-2")
def test_equal_and_almost_equal_rows_are_left_out_of_train():
    rng = np.random.default_rng(0)
    train, held_out = rng.normal(0, 1, (200, 5)), rng.normal(0, 1, (40, 5))
    train[:10] = held_out[:10]
    train[10:20] = held_out[10:20] + 1e-4
    kept = without_copies(train, held_out)
    assert not kept[:20].any()
    assert kept[20:].all()
    with pytest.raises(DataError, match="Every train row"):
        without_copies(held_out, held_out)


def test_a_split_that_keeps_copies_is_described_as_before():
    assert "drop_copies" not in SplitSection().describe()
    assert SplitSection(drop_copies=True).describe()["drop_copies"] is True


@pytest.mark.requirement("SKILL-7")
def test_the_script_validates_a_file_without_a_project(tmp_path):
    rng = np.random.default_rng(1)
    label = rng.integers(0, 2, 300)
    path = tmp_path / "rows.csv"
    pl.DataFrame({"x": rng.normal(0, 1, 300), "answer": label * 2.0 + 1, "label": label}).write_csv(path)

    def run(*arguments: str) -> tuple[int, dict[str, object]]:
        call = [sys.executable, "-P", str(SCRIPT), *arguments]
        done = subprocess.run(call, capture_output=True, text=True, check=False)
        return done.returncode, json.loads(done.stdout)

    code, answer = run(str(path), "--target", "label", "--strict")
    assert code == 1
    assert "leak_target" in {one["name"] for one in answer["findings"]}
    assert run(str(path), "--target", "nothing")[0] == 2
