"""Data is validated before every run, its verdicts are evidence, and a loosened expectation reopens planning."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trainwright.tools import projects
from trainwright.tools.gates.checklist import load_checklist
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.outcomes import CHECKS, Outcome
from trainwright.tools.gates.phases import Phase
from trainwright.tools.training_orchestrator import RunView, start_run, wait_for_run
from trainwright.tools.workspace import Workspace
from trainwright.trainer.run import RunKind
from trainwright.trainer.run.artifacts import FixedRows
from trainwright.trainer.run.validation import Validation

NAME = "flowers"
EXPECTATIONS = "columns: {{sepal_length: {{min: 0, max: {most}}}, species: {{one_of: [0, 1, 2]}}}}\n"
At = Callable[[str], Workspace]
pytestmark = [pytest.mark.slow, pytest.mark.requirement("PIPE-2")]


def expect(workspace: Workspace, most: float) -> None:
    (workspace.path.parent / "code" / "expectations.yaml").write_text(EXPECTATIONS.format(most=most))


def ended(workspace: Workspace, kind: RunKind) -> RunView:
    return wait_for_run(workspace, start_run(workspace, NAME, kind).run_id, 120)


def validation_of(workspace: Workspace, run: RunView) -> Validation:
    return workspace.run_directory(NAME, run.run_id).part(Validation)


def check_of(workspace: Workspace) -> Any:
    status = projects.project_status(workspace, NAME)
    assert isinstance(status, projects.ProjectStatus)
    (found,) = (check for check in status.checks if check.id == "planning.data_validated")
    return found


def outcome_of(workspace: Workspace) -> Outcome:
    (line,) = (one for one in load_checklist(Phase.PLANNING).checks if one.id == "planning.data_validated")
    with workspace.session() as session:
        return CHECKS[line.id](Evidence(session, workspace, NAME), line)


@pytest.mark.long
def test_a_broken_expectation_fails_the_run_as_data_and_a_loosened_one_is_named(at: At) -> None:
    workspace = at("created")
    expect(workspace, most=7)
    projects.configure(
        workspace, NAME, changes={"data.expectations": "expectations.yaml"}, reason="what they look like"
    )
    run = ended(workspace, RunKind.SMOKE)
    assert run.failure is not None
    assert run.failure.category == "data"
    broken = validation_of(workspace, run).report.stopping
    assert [one.place for one in broken] == ["sepal_length.max"]
    lines = (workspace.path.parent / "code" / "iris.csv").read_text().splitlines()[1:]
    assert broken[0].rows == [n for n, line in enumerate(lines) if float(line.split(",")[0]) > 7][:20]
    assert "sepal_length.max" in run.failure.message
    assert f"rows {broken[0].rows[0]}" in run.failure.message
    assert "validate_data" in run.failure.remedy
    assert check_of(workspace).status == "failed"

    expect(workspace, most=8)
    passed = ended(workspace, RunKind.SMOKE)
    assert passed.state == "completed"
    check = check_of(workspace)
    assert check.status == "passed"
    assert "expectation sepal_length.max loosened from 7 to 8" in check.measured
    (workspace.run_directory(NAME, passed.run_id).artifacts / "validation.json").unlink()
    assert check_of(workspace).status == "failed"


def test_columns_that_say_the_same_are_told_once_where_planning_passes(at: At) -> None:
    workspace = at("created")
    table = workspace.path.parent / "code" / "iris.csv"
    header, *lines = table.read_text().splitlines()
    twice = [f"{2 * float(line.split(',')[3])},{line}" for line in lines]
    table.write_text("\n".join([f"doubled,{header}", *twice]) + "\n")
    projects.configure(workspace, NAME, changes={"model": {"use": "mlp"}}, reason="a column more")
    assert ended(workspace, RunKind.SMOKE).state == "completed"
    passed = projects.pass_gate(workspace, NAME)
    assert passed.same == ["doubled and petal_width"]
    assert passed.outcome_in_words.endswith("; columns that say the same: doubled and petal_width")


def test_a_run_after_planning_has_its_verdicts_and_a_loosened_expectation_reopens_planning(at: At) -> None:
    workspace = at("created")
    expect(workspace, most=8)
    projects.configure(
        workspace, NAME, changes={"data.expectations": "expectations.yaml"}, reason="what they look like"
    )
    smoke = ended(workspace, RunKind.SMOKE)
    found = validation_of(workspace, smoke)
    assert found.report.rows == found.report.rows_read > 100
    assert workspace.run_directory(NAME, smoke.run_id).part(FixedRows).validation == found.digest()
    assert projects.pass_gate(workspace, NAME, "planning").outcome == "passed"
    baseline = ended(workspace, RunKind.BASELINE)
    assert validation_of(workspace, baseline).known_from == smoke.run_id
    expect(workspace, most=9)
    status = projects.project_status(workspace, NAME)
    assert isinstance(status, projects.ProjectStatus)
    assert status.phase == "planning"
    assert "expectation sepal_length.max loosened from 8 to 9" in status.gates["planning"]
    assert Path("expectations.yaml").name in status.gates["planning"]


def test_data_that_could_not_be_validated_close_planning_and_no_check_is_switched_off_as_a_way_through(at: At) -> None:
    workspace = at("smoked")
    with workspace.session() as session:
        run = Evidence(session, workspace, NAME).smoke
    assert run is not None
    directory = workspace.run_directory(NAME, run.id)
    assert directory.part(Validation).problem is None
    for family in (None, "personal"):
        found = Validation(problem="the checks raised", remedy="correct the cells", family=family)
        directory.write_evidence(found)
        directory.write_evidence(directory.part(FixedRows).model_copy(update={"validation": found.digest()}))
        outcome = outcome_of(workspace)
        assert outcome.status == "failed"
        assert "not validated: the checks raised" in outcome.measured
        assert outcome.next is not None
        assert outcome.next.tool == "validate_data"
