"""Data that have grown: what is new and gone, and test rows that would be trained on, in the smoke run's own answer."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.worlds.flowers import NAME, finish

from trainwright.tools import projects
from trainwright.tools.gates.decide import evaluate
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.phases import Phase
from trainwright.tools.gates.rows_moved import validates_on_same_rows
from trainwright.tools.gates.since_release import released_data
from trainwright.tools.reports.markdown import reference_line
from trainwright.tools.training_orchestrator import start_run
from trainwright.tools.workspace import Workspace
from trainwright.trainer.base.errors import IntegrityError
from trainwright.trainer.run import RunKind
from trainwright.trainer.run.evidence import Data
from trainwright.trainer.run.split_rows import FILE, SplitRows

pytestmark = [pytest.mark.slow, pytest.mark.requirement("REPRO-4", "GATE-2")]
NAMES = ["sepal_length", "sepal_width", "petal_length", "petal_width"]
At = Callable[[str], Workspace]


def grow(folder: Path, rows: int) -> None:
    """Append new rows to the table, and take its last one away."""
    path = folder / "iris.csv"
    lines = path.read_text().splitlines()[:-1]
    draw = random.Random(rows)
    for _ in range(rows):
        *cells, kind = draw.choice(lines[1:]).split(",")
        lines.append(",".join([*(f"{float(cell) + draw.uniform(-0.6, 0.6):.3f}" for cell in cells), kind]))
    path.write_text("\n".join(lines) + "\n")


def measured(workspace: Workspace) -> tuple[str, str]:
    """Return the status and the figures of the check on the data."""
    with workspace.session() as session:
        results = evaluate(Evidence(session, workspace, NAME), Phase.PLANNING).checks
    check = next(one for one in results if one.id == "planning.data_fingerprinted")
    return check.status, check.measured


def test_grown_data_say_what_is_new_and_are_divided_anew_until_a_model_was_evaluated(at: At) -> None:
    workspace = at("planned")
    grow(workspace.path.parent / "code", 20)
    view = finish(workspace, start_run(workspace, NAME, RunKind.SMOKE).run_id)
    assert "20 rows new, 1 gone" in view.rows
    assert "now in train" in view.rows
    assert view.planning_closed_by is None


@pytest.mark.timeout(600)
def test_after_a_release_grown_data_keep_their_sides_and_some_new_rows_are_tested_on(at: At) -> None:
    workspace = at("finished")
    first = workspace.run_directory(NAME, smoke_of(workspace))
    projects.configure(workspace, NAME, changes={"training.epochs": 5}, reason="new data", begin_release=True)
    for grown in (20, 30):
        grow(workspace.path.parent / "code", grown)
        again = finish(workspace, start_run(workspace, NAME, RunKind.SMOKE).run_id)
        assert f"{grown} rows new, 1 gone" in again.rows
        assert "of its test rows" not in again.rows
        assert measured(workspace)[0] == "passed"
        assert f"; test rows of {first.run_id}" in measured(workspace)[1]
        assert re.search(r"stay test rows; others .*: [1-9]\d* validation rows of .* in train now", again.rows)
        assert projects.pass_gate(workspace, NAME, "planning").outcome == "passed"
    run = workspace.run_directory(NAME, again.run_id)
    sizes = [one.part(Data).splits["test"].size for one in (first, run)]
    assert sizes[1] > sizes[0] + 3
    with workspace.session() as session:
        evidence = Evidence(session, workspace, NAME)
        assert "on other rows: no comparison" in reference_line(evidence, 0.9)
        released = released_data(evidence)
        assert released is not None
        assert released.number == 1, "the release's, and not that of the plan between"
    (run.artifacts / FILE).write_bytes(b"x" * 24)
    with pytest.raises(IntegrityError, match="not as the run wrote it"):
        run.part(SplitRows).read(run.artifacts)


def smoke_of(workspace: Workspace) -> str:
    """Return the smoke run that the plan depends on."""
    with workspace.session() as session:
        smoke = Evidence(session, workspace, NAME).smoke
        assert smoke is not None
        return smoke.id


def test_another_split_of_the_same_rows_is_not_grown_data(at: At) -> None:
    workspace = at("planned")
    projects.configure(workspace, NAME, changes={"data.split.seed": 7})
    view = finish(workspace, start_run(workspace, NAME, RunKind.SMOKE).run_id)
    assert view.rows.startswith("since ")
    assert "0 rows new, 0 gone, of its test rows" in view.rows
    assert view.planning_closed_by is None


def test_columns_read_in_another_order_make_no_other_validation_rows(at: At) -> None:
    workspace = at("planned")
    first = smoke_of(workspace)
    projects.configure(workspace, NAME, changes={"data.args.features": NAMES[::-1]})
    second = finish(workspace, start_run(workspace, NAME, RunKind.SMOKE).run_id).run_id
    with workspace.session() as session:
        evidence = Evidence(session, workspace, NAME)
        runs = [evidence.run(first), evidence.run(second)]
        prints = {one.data.splits["validation"].fingerprint for one in runs if one is not None}
        assert len(prints) == 2
        assert validates_on_same_rows(evidence, *(one for one in runs if one is not None))
