"""A version of grouped rows, whose target is written with marks, on a labelled file: what it knows is left out."""

from __future__ import annotations

import csv
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.worlds.blank_pictures import blank_pictures
from tests.worlds.flowers import STAGES, advance

from trainwright.tools import projects, registry
from trainwright.tools.ledger import ProjectFacts, entries
from trainwright.tools.ledger.events import ModelRegistered
from trainwright.tools.registry import model_folder
from trainwright.tools.registry.scoring import score_model
from trainwright.tools.workspace import Workspace
from trainwright.trainer.base.errors import DataError
from trainwright.trainer.run.directory import RunDirectory
from trainwright.trainer.run.evidence import Data

pytestmark = [pytest.mark.slow, pytest.mark.requirement("REG-1")]
NAME, STREETS = "rents", 40
CONFIG: dict[str, Any] = {
    "code_root": "code",
    "model": {"use": "mlp", "args": {"hidden": [16]}},
    "data": {
        "use": "csv",
        "args": {"path": "rents.csv", "target": "rent"},
        "split": {"by": "group", "group": "street", "validation": 0.2, "test": 0.2},
        "expectations": {"without": ["label_errors", "leaks"]},
    },
    "loss": "mse",
    "target_scaling": "standardize",
    "metrics": ["r2"],
    "selection": {"metric": "r2", "direction": "maximize"},
    "optimizer": {"learning_rate": 0.02},
    "training": {"epochs": 12},
    "logging": {"tensorboard": False},
}
HEADER = "street;size;kind;rent"


def written(number: float) -> str:
    """As a German spreadsheet has it."""
    return f"{number:,.2f}".translate(str.maketrans(",.", ".,"))


def lines(draw: random.Random, streets: list[str], each: int) -> list[str]:
    """Flats of streets; of every ninth the size is not known."""
    found = []
    for street in streets:
        for _ in range(each):
            size, kind = round(draw.uniform(30, 150), 1), draw.choice(("flat", "house", "loft"))
            rent = 15 * size + 300 * (kind == "house") + draw.gauss(0, 60)
            shown = "" if draw.random() < 1 / 9 else written(size)
            found.append(f"{street};{shown};{kind};{written(rent)} €")
    return found


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Workspace, Path]]:
    base = tmp_path_factory.mktemp("rents")
    code, workspace = base / "code", Workspace.open(base / "workspace")
    code.mkdir()
    known = lines(random.Random(1), [f"s{number}" for number in range(STREETS)], 8)
    write(code / "rents.csv", known)
    goal = {"metric": "r2", "direction": "maximize", "target": 0.1}
    with blank_pictures():
        for stage in STAGES:
            advance(workspace, stage, NAME, intent="estimate rents", goal=goal, config=CONFIG)
    yield workspace, code
    workspace.close()


def write(path: Path, rows: list[str], header: str = HEADER) -> None:
    path.write_text("\n".join([header, *rows]) + "\n")


def answered(folder: Path, file: Path) -> tuple[list[float], list[float]]:
    """What predict.py answers, and the targets, of the rows that have one."""
    command = [sys.executable, "-B", str(folder / "predict.py"), str(file)]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    rows = [row for row in csv.DictReader(ended.stdout.splitlines()) if row["rent"]]
    rents = [row["rent"].removesuffix(" €").replace(".", "").replace(",", ".") for row in rows]
    return [float(row["predicted_rent"]) for row in rows], [float(rent) for rent in rents]


def test_rows_of_known_groups_are_left_out_and_targets_read_as_training_has_them(
    released: tuple[Workspace, Path],
) -> None:
    workspace, code = released
    data = smoke_of(workspace).part(Data)
    groups = data.split["groups"]
    new = [*lines(random.Random(2), [f"n{number}" for number in range(12)], 4), "n0;70,0;castle;1.500,00 €"]
    folder = model_folder(workspace, NAME, "v1")
    write(code / "new.csv", [*new, "n3;50,0;flat;"])
    found = score_model(workspace, NAME, "new.csv", "v1")
    told, rents = answered(folder, code / "new.csv")
    assert (found.rows, found.left_out) == (len(new), {"they have no target": 1})
    spread = np.square(np.array(rents) - np.mean(rents)).sum()
    assert found.metrics["r2"] == pytest.approx(1 - np.square(np.subtract(told, rents)).sum() / spread, abs=1e-4)
    assert found.notes == ["intervals are over whole values of 'street', of which the rows have 12"]
    low, high = found.intervals["r2"]
    assert low < found.metrics["r2"] < high

    known = (code / "rents.csv").read_text().splitlines()[1:]
    again = lines(random.Random(3), [f"s{number}" for number in range(STREETS)], 1)
    write(code / "all.csv", [*known, *again, *new])
    both = score_model(workspace, NAME, "all.csv", "v1")
    assert both.left_out == {
        "the same cells as rows that it was trained on": data.splits["train"].size,
        "the same cells as rows that its epoch was chosen by": data.splits["validation"].size,
        "the same cells as rows that it was tested on: its card has their figure": data.splits["test"].size,
        "it knows other rows of their street": groups["train"] + groups["validation"],
    }
    assert both.rows == len(new) + groups["test"]
    assert "share the inputs or the street of rows that it was trained, chosen or tested on" in both.whole_file


def test_what_cannot_be_told_of_a_file_is_refused(released: tuple[Workspace, Path]) -> None:
    workspace, code = released
    new = lines(random.Random(4), ["n1"], 3)
    write(code / "bare.csv", [one.partition(";")[2] for one in new], HEADER.partition(";")[2])
    with pytest.raises(DataError, match=r"No row has the column 'street'.*kept each one's rows together") as met:
        score_model(workspace, NAME, "bare.csv")
    assert met.value.remedy == "Keep 'street' in the file, as the version's own data have it."
    write(code / "plain.csv", [*new, "n2;50,0;flat;1234.50"])
    with pytest.raises(DataError, match=r"Row 4: the target '1234.50' is no finite number") as met:
        score_model(workspace, NAME, "plain.csv")
    assert "with the decimal mark ','" in met.value.remedy
    write(code / "known.csv", (code / "rents.csv").read_text().splitlines()[1:])
    with pytest.raises(DataError, match=r"No row of known.csv is new to v1 and has a target \(\d+: the same cells as"):
        score_model(workspace, NAME, "known.csv")


@pytest.mark.long
def test_a_version_that_met_no_empty_cell_and_fewer_kinds_is_compared_by_the_columns_of_the_file(
    released: tuple[Workspace, Path],
) -> None:
    workspace, code = released
    more = lines(random.Random(5), [f"m{number}" for number in range(20)], 6)
    changed = [one.replace(";flat;", ";;").replace(";loft;", ";castle;") for one in more]
    with (code / "rents.csv").open("a") as file:
        file.write("\n".join(changed) + "\n")
    projects.configure(workspace, NAME, changes={"training.epochs": 8}, begin_release=True, reason="more flats")
    with blank_pictures():
        for stage in STAGES[STAGES.index("smoked") :]:
            advance(workspace, stage, NAME)
    compared = registry.compare_models(workspace, NAME, "v1", "v2")
    assert compared.not_compared is None
    before, after = (sides(model_folder(workspace, NAME, name)) for name in ("v1", "v2"))
    rows = (code / "rents.csv").read_text().splitlines()[1:]
    kept = [place for place, side in enumerate(after) if side == "test" and [*before, *[""] * 999][place] != "train"]
    write(code / "kept.csv", [rows[place] for place in kept])
    assert any(";castle;" in rows[place] or ";;" in rows[place] for place in kept)
    test = compared.splits["test"]
    assert test.rows == len(kept)
    for name, found in (("v1", test.first), ("v2", test.second)):
        told, rents = answered(model_folder(workspace, NAME, name), code / "kept.csv")
        spread = np.square(np.array(rents) - np.mean(rents)).sum()
        assert found["r2"] == pytest.approx(1 - np.square(np.subtract(told, rents)).sum() / spread, abs=1e-4)
    listed = registry.list_models(workspace, NAME).next
    assert listed is not None
    assert listed.arguments == {"project": NAME, "compare": ["v1", "v2"]}


def sides(folder: Path) -> list[str]:
    with (folder / "rows.csv").open() as file:
        found = {int(row["row"]): row["split"] for row in csv.DictReader(file)}
    return [found[place] for place in range(len(found))]


def smoke_of(workspace: Workspace) -> RunDirectory:
    with workspace.snapshot() as session:
        (released,) = (body["run_id"] for _, body in entries(session, NAME, ModelRegistered.name))
        return workspace.run_directory(NAME, str(ProjectFacts(session, NAME).rows_run(released)))
