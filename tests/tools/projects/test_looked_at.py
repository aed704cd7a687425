"""Reports say what plain predictors score, which files were opened, and which projects use the same rows."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.worlds.flowers import CONFIG, GOAL, train

from trainwright.tools import projects
from trainwright.tools.documents.rendering import render
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.reports.looked_at import (
    UNLIKE,
    _alike_text,
    _line,
    configurations_beside,
    looked_at_values,
    opened_lines,
)
from trainwright.tools.workspace import Workspace
from trainwright.trainer.run import RunKind
from trainwright.trainer.run.evidence import AlikeSamples
from trainwright.trainer.run.looked_at import LookedAt, OpenedFile, SplitLook

At = Callable[[str], Workspace]
pytestmark = pytest.mark.requirement("GATE-6")


def section(path: Path) -> str:
    """Return the report's section on what was looked at."""
    return path.read_text(encoding="utf-8").partition("## What was looked at\n")[2].partition("\n## ")[0]


def test_rows_that_are_alike_by_chance_are_told_as_such_and_not_as_none() -> None:
    pairs = AlikeSamples(splits=("train", "test"), alike=91, first=37758, second=8091)
    shown = {
        "look": LookedAt(),
        "split_lines": [_line("test", SplitLook(), False, ())],
        "transformations": ["so"],
    }
    found = render("reports/looked_at.md.j2", **shown, by_chance=[_alike_text(pairs)])
    assert "than chance explains, whatever their targets: 91 of 37758 train rows almost equal test rows. " in found
    assert "No train row" not in found
    assert "No train row" not in render("reports/looked_at.md.j2", **shown, copies=["90 held-out rows are copies."])
    assert "No train row" in render("reports/looked_at.md.j2", **shown)


def test_the_manifest_shows_plain_scores_of_validation_and_of_test_its_size_alone(at: At) -> None:
    workspace = at("planned")
    found = section(workspace.project_folder("flowers") / "reproducibility_manifest.md")
    assert "| validation | 30 | 0: 10" in found
    assert "accuracy 0.3" in found
    assert "| test | 30 | shown with the release |" in found
    assert "No train row resembles a held-out row more than chance explains" in found
    assert "opened no files but its code and its data's sources" in found
    assert "No other project of this workspace was planned on these rows." in found


def test_no_error_in_a_unit_is_pooled_over_several_targets() -> None:
    look = SplitLook(size=3, constant={"r2": 0.0, "mae": 5.0, "mse": 40.0})
    assert _line("validation", look, with_test=False, pooled=UNLIKE).constant == "r2 0"
    assert _line("validation", look, with_test=False, pooled=()).constant == "r2 0, mae 5, mse 40"


def test_many_opened_files_of_a_kind_are_one_line() -> None:
    files = {f"imgs/{place}.png": OpenedFile(bytes=10, digest="d") for place in range(11)}
    lines = opened_lines({"words.txt": OpenedFile(bytes=5, digest="w"), **files})
    assert lines == {"words.txt": (1, 5, "w"), "imgs/*.png": (11, 110, "11 files")}


@pytest.mark.slow
def test_the_card_shows_the_test_splits_too_and_the_improved_configuration_beside_the_baselines(at: At) -> None:
    workspace = at("finished")
    folder = workspace.project_folder("flowers") / "final_model"
    found = section(folder / "README.md")
    assert "| test | 30 | 0: 10" in found
    with workspace.session() as session:
        rows = configurations_beside(Evidence(session, workspace, "flowers"))
    beside = {key: (before, after) for key, before, after in rows}
    assert beside["optimizer.learning_rate"][0] == 0.02
    assert ("## The baseline's configuration" in (folder / "README.md").read_text()) == any(
        before != after for before, after in beside.values()
    )


@pytest.mark.long
def test_a_project_planned_on_the_same_rows_is_named(at: At) -> None:
    workspace = at("planned")
    projects.create_project(workspace, "second", intent="again", goal=GOAL, config=CONFIG)
    train(workspace, RunKind.SMOKE, "second")
    other: dict[str, Any] = {"use": "csv", "args": {"path": "iris.csv", "target": "species"}, "split": {"seed": 5}}
    projects.create_project(workspace, "third", intent="other rows", goal=GOAL, config=CONFIG | {"data": other})
    train(workspace, RunKind.SMOKE, "third")
    code = workspace.path.parent / "code"
    header, *lines = (code / "iris.csv").read_text().splitlines()
    renamed = [f"{line.rpartition(',')[0]},{'no' if number % 2 else 'yes'}" for number, line in enumerate(lines)]
    (code / "other.csv").write_text("\n".join([header, *renamed]))
    relabelled = CONFIG["data"] | {"args": {"path": "other.csv", "target": "species"}}
    projects.create_project(workspace, "fourth", intent="targets", goal=GOAL, config=CONFIG | {"data": relabelled})
    train(workspace, RunKind.SMOKE, "fourth")
    with workspace.session() as session:
        second, third, fourth = (
            looked_at_values(Evidence(session, workspace, name), None) for name in ("second", "third", "fourth")
        )
    assert fourth["others"] == [("flowers", ["149 of 149 rows, 149 with another target"])]
    assert second["others"] == [("flowers", ["the validation rows", "the test rows", "the file iris.csv"])]
    assert third["others"] == [("flowers", ["the file iris.csv"])]


@pytest.mark.slow
def test_copies_of_test_rows_are_named_in_the_manifest_with_an_example(at: At) -> None:
    workspace = at("empty")
    code = workspace.path.parent / "code"
    rows = np.random.default_rng(0).standard_normal((300, 6)).astype(np.float32)
    copies = 3 * rows[240:] + 1
    labels = np.arange(360) % 2
    np.savez(
        code / "rows.npz",
        train_x=np.concatenate([rows[:180], copies]),
        train_y=labels[:240],
        validation_x=rows[180:240],
        validation_y=labels[180:240],
        test_x=rows[240:],
        test_y=labels[240:300],
    )
    (code / "copied.py").write_text(
        "import numpy as np, torch\nfrom pathlib import Path\n"
        "def build():\n"
        "    held = np.load(Path(__file__).parent / 'rows.npz')\n"
        "    part = lambda name: torch.utils.data.TensorDataset(\n"
        "        torch.from_numpy(held[name + '_x']), torch.from_numpy(held[name + '_y']))\n"
        "    return {name: part(name) for name in ('train', 'validation', 'test')}\n"
    )
    config = CONFIG | {"model": {"use": "mlp"}, "data": {"use": "copied.py:build"}}
    projects.create_project(workspace, "copied", intent="scaled copies", goal=GOAL, config=config)
    train(workspace, RunKind.SMOKE, "copied")
    projects.pass_gate(workspace, "copied", "planning")
    found = section(workspace.project_folder("copied") / "reproducibility_manifest.md")
    assert "- 60 of 240 train rows resemble test rows scaled and offset" in found
    example = re.search(r"\(samples (\d+) and (\d+)", found)
    assert example is not None
    assert int(example[1]) == int(example[2]) + 180
    assert "| rows.npz | " in found
