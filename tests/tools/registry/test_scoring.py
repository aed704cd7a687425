"""A version on a labelled file: rows that it knows are left out, and the figures are of its own answers (Q160)."""

from __future__ import annotations

import csv
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.worlds.flowers import NAME

from trainwright.tools.registry import model_folder
from trainwright.tools.registry.scoring import score_model
from trainwright.tools.workspace import Workspace
from trainwright.trainer.base.errors import DataError

pytestmark = [pytest.mark.slow, pytest.mark.requirement("REG-1")]
NEW = 40
SHARED = "share the inputs of rows that it was trained, chosen or tested on"


def measured_again(lines: list[str]) -> list[str]:
    """Known flowers, measured again by a rougher hand."""
    draw, found = random.Random(3), []
    for line in draw.sample(lines, NEW):
        *values, species = line.split(",")
        found.append(",".join([*(f"{float(value) + draw.gauss(0, 0.4):.3f}" for value in values), species]))
    return found


def answers(folder: Path, file: Path) -> list[str]:
    command = [sys.executable, "-B", str(folder / "predict.py"), str(file)]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    return [row["predicted_species"] for row in csv.DictReader(ended.stdout.splitlines())]


def test_a_version_is_scored_on_the_rows_of_a_file_that_it_was_not_trained_on(at: Callable[[str], Workspace]) -> None:
    workspace = at("finished")
    code = workspace.path.parent / "code"
    header, *known = (code / "iris.csv").read_text().splitlines()
    new = measured_again(known)
    (code / "new.csv").write_text("\n".join([header, *new]) + "\n")
    found = score_model(workspace, NAME, "new.csv", "v1")
    assert (found.version, found.rows, found.left_out, found.notes) == ("v1", NEW, {}, [])
    told = answers(model_folder(workspace, NAME, "v1"), code / "new.csv")
    right = sum(label == line.rsplit(",", 1)[1] for label, line in zip(told, new, strict=True))
    assert found.metrics["accuracy"] == pytest.approx(right / NEW)
    assert found.intervals["accuracy"][0] <= right / NEW <= found.intervals["accuracy"][1]
    assert sum(int(one.split(" of ")[0]) for one in found.by_class.values()) == right
    (code / "both.csv").write_text("\n".join([header, *known, *new, new[0].rsplit(",", 1)[0] + ","]) + "\n")
    both = score_model(workspace, NAME, "both.csv")
    assert both.left_out == {
        "the same cells as rows that it was trained on": 89,
        "the same cells as rows that its epoch was chosen by": 30,
        "the same cells as rows that it was tested on: its card has their figure": 30,
        "they have no target": 1,
    }
    assert both.rows == NEW
    assert both.metrics == found.metrics
    told = answers(model_folder(workspace, NAME, "v1"), code / "both.csv")[:-1]  # the last row has no target
    right = sum(label == line.rsplit(",", 1)[1] for label, line in zip(told, [*known, *new], strict=True))
    share = f"accuracy {right / len(told):.4g} on all {len(told)} rows ({right} right)"
    assert (both.known, both.whole_file) == (149, f"{share}: no evidence, since 149 of them {SHARED}")
    assert (found.known, found.whole_file) == (0, "")
    (code / "odd.csv").write_text("\n".join([header, new[0].rsplit(",", 1)[0] + ",rose"]) + "\n")
    with pytest.raises(DataError, match=r"'rose' is no class of this version"):
        score_model(workspace, NAME, "odd.csv")
