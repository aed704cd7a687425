"""Optimization on a study: what counts as an improvement, and that a forged one does not."""

from __future__ import annotations

import copy
import json
import re
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from sqlalchemy import select
from tests.worlds.records import Script, climbing
from tests.worlds.scripted import scripted

from trainwright.tools import projects
from trainwright.tools.answers import NextCall
from trainwright.tools.documents.rendering import render
from trainwright.tools.gates.checks.optimization import best_configuration
from trainwright.tools.gates.edges import moved
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.phases import Phase
from trainwright.tools.gates.since_release import left_behind
from trainwright.tools.gates.study_check import _against_runs, study_differences
from trainwright.tools.hyperparameter_tuner import start_study, study_status
from trainwright.tools.projects import ProjectStatus
from trainwright.tools.reports.model_card import _tried
from trainwright.tools.training_orchestrator import start_run, wait_for_run
from trainwright.tools.verification import verify_workspace
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.tables import Trial
from trainwright.trainer.base.errors import GateRefusedError
from trainwright.trainer.config import SearchSection, apply_changes
from trainwright.trainer.run import RunKind

pytestmark = pytest.mark.slow

NAME, RATE = "wine", "optimizer.learning_rate"
CONFIG = {
    "model": {"use": "mlp", "args": {"hidden": [8]}},
    "data": {"use": "digits"},
    "optimizer": {"learning_rate": 1e-5},  # hardly learns: any rate of the search is better
    "training": {"epochs": 2},
    "logging": {"tensorboard": False},
}
GOAL = {"metric": "accuracy", "direction": "maximize", "target": 0.99}
SEARCH = {
    "method": "random",
    "trials": 2,
    "space": {"optimizer.learning_rate": {"type": "float", "low": 0.02, "high": 0.03}},
    "pruning": {"name": "none"},
}
RISING = Script(
    curve=lambda plan, epoch: {
        name: (1.0 if name == "accuracy" else -1.0) * (0.2 + 20 * plan.config.optimizer.learning_rate) + value / 100
        for name, value in climbing(plan, epoch).items()
    }
)
"""Better with the learning rate: what the search has found is no noise."""
At = Callable[[], Workspace]
Rewrite = Callable[[Workspace, str, Callable[[dict[str, Any]], None]], None]


EDITS = {
    "state = 'running'": "state",
    "state = 'running', confirmation = json_set(confirmation, '$.improvement_low', 0.9)": "confirmation",
    "base_values = json_set(base_values, '$.training.epochs', 7)": "base_values",
    "base_config_digest = 'blake3:another'": "base_config_digest",
    "objective = json_set(objective, '$.direction', 'minimize')": "objective",
    "failure = '{}'": "failure",
    "idempotency_key = 'mine'": "idempotency_key",
    "created_at = '2026-01-01 00:00:00.000000'": "created_at",
}
"""Of a study's row, and the column that is named."""


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace in optimization, whose study has completed and whose gate has not been asked for."""
    world = tmp_path_factory.mktemp("search") / "world"
    workspace = Workspace.open(world)
    with scripted(RISING):
        projects.create_project(workspace, NAME, intent="", goal=GOAL, config=CONFIG)
        for kind, phase in ((RunKind.SMOKE, "planning"), (RunKind.BASELINE, "baseline")):
            run_id = start_run(workspace, NAME, kind).run_id
            while not (view := wait_for_run(workspace, run_id)).is_ended:
                pass
            assert view.state == "completed", view.failure
            projects.pass_gate(workspace, NAME, phase)
        projects.diagnose(workspace, NAME)
        projects.pass_gate(workspace, NAME, "diagnostics")
        study_id = start_study(workspace, NAME, search=SEARCH).study_id
        while (view := study_status(workspace, study_id, 50)).state in {"running", "confirming"}:
            pass
        assert view.state == "completed", view
    workspace.close()
    return world


@pytest.fixture
def at(searched: Path, tmp_path: Path) -> Iterator[At]:
    """Return a function that opens a private copy of the searched workspace."""
    opened: list[Workspace] = []

    def open_copy() -> Workspace:
        shutil.copytree(searched, tmp_path / "copy")
        (tmp_path / "copy" / "settings.yaml").write_text(f"code_roots: ['{searched.parent}']\n")
        opened.append(Workspace.open(tmp_path / "copy"))
        return opened[-1]

    with scripted(RISING):
        yield open_copy
    for workspace in opened:
        workspace.close()


def confirmation(workspace: Workspace) -> dict[str, list[str]]:
    with sqlite3.connect(workspace.path / "workspace.sqlite") as connection:
        (text,) = connection.execute("SELECT confirmation FROM studies").fetchone()
    return dict(json.loads(text))


@pytest.mark.timeout(600)
@pytest.mark.requirement("PHASE-5", "TUNE-4", "TUNE-5")
def test_a_real_improvement_passes_and_fixes_the_final_configuration(at: At) -> None:
    workspace = at()
    answer = projects.pass_gate(workspace, NAME, "optimization")
    assert answer.outcome == "passed"
    folder = workspace.project_folder(NAME)
    found = confirmation(workspace)
    final = yaml.safe_load((folder / "final_config.yaml").read_text())
    assert final["optimizer"]["learning_rate"] == found["best_parameters"]["optimizer.learning_rate"]
    assert "over 3 seeds" in next(c.measured for c in answer.checks if c.id == "optimization.improvement_validated")
    assert "## Checks" in (folder / "tuning_results.md").read_text()
    assert verify_workspace(workspace.path).problems == []


@pytest.mark.timeout(600)
@pytest.mark.requirement("PHASE-11", "MON-3")
def test_what_a_search_has_shown_is_told_where_its_runs_are_compared_and_a_release_leaves_it_behind(at: At) -> None:
    workspace = at()
    best = confirmation(workspace)["best_parameters"]
    (told,) = [one for one in projects.compare_runs(workspace, project=NAME).notes if "completed, gain" in one]
    assert re.search(r"completed, gain \+.* over 3 seeds, .*, validated, best \{'optimizer.learning_rate': ", told)
    with workspace.session() as session:
        evidence = Evidence(session, workspace, NAME)
        present = evidence.version.values
        assert left_behind(evidence, apply_changes(present, {"training.epochs": 3})) == best
        assert left_behind(evidence, apply_changes(present, {"training.epochs": 3, **best})) == {}
        assert left_behind(evidence, present) == {}, "the same configuration keeps its study"
        card = render("reports/tried.md.j2", tried=_tried(evidence))
    assert "Configurations: 1. Baselines, ablations and final runs: 1. Searches: 1, with 5 runs of trials." in card
    assert ", validated\n" in card


@pytest.mark.timeout(600)
@pytest.mark.requirement("PHASE-5", "PHASE-10")
def test_a_later_search_in_vain_takes_no_validated_improvement_back(at: At) -> None:
    workspace = at()
    space = {"optimizer.weight_decay": {"type": "float", "low": 0.01, "high": 0.0101}}
    study_id = start_study(workspace, NAME, search=SEARCH | {"trials": 1, "space": space}).study_id
    while (view := study_status(workspace, study_id, 50)).state in {"running", "confirming"}:
        pass
    assert view.confirmation
    assert not view.confirmation["validated"]
    assert projects.pass_gate(workspace, NAME, "optimization", conclude=True).outcome == "passed"
    final = yaml.safe_load((workspace.project_folder(NAME) / "final_config.yaml").read_text())
    assert final["optimizer"]["learning_rate"] > 0.01, "the first study's"
    assert verify_workspace(workspace.path).problems == []


@pytest.mark.timeout(600)
@pytest.mark.requirement("GATE-3", "PHASE-5", "PHASE-9")
def test_the_number_of_seeds_is_judged_by_the_checklist_that_held(at: At, rewrite: Rewrite) -> None:
    workspace = at()
    projects.pass_gate(workspace, NAME, "optimization")

    def ask_for_more(body: dict[str, Any]) -> None:
        line = next(x for x in body["circumstances"]["lines"] if x["id"] == "optimization.improvement_validated")
        line["threshold"] = 4.0

    rewrite(workspace, "optimization", ask_for_more)
    found = verify_workspace(workspace.path).problems
    assert any("confirmed on 3 seeds; at least 4 are needed" in what for what in found), found


@pytest.mark.timeout(600)
@pytest.mark.requirement("GATE-1", "PHASE-5", "GATE-3")
@pytest.mark.parametrize(
    ("edit", "named"),
    [
        (
            "UPDATE studies SET confirmation = json_set(confirmation, '$.improvement_low', 0.9)",
            "confirmation",
        ),
        ("UPDATE studies SET search = json_set(search, '$.method', 'tpe')", "search"),
        ("UPDATE studies SET base_values = json_set(base_values, '$.training.epochs', 7)", "base_values"),
        ("UPDATE trials SET value = 0.999 WHERE number = 1", "trial 1: value"),
        (
            "UPDATE trials SET intermediate = json_set(intermediate, '$.1', 0.999) WHERE number = 0",
            "trial 0: intermediate",
        ),
        ("DELETE FROM trials WHERE number = 0", "trial 0"),
    ],
)
def test_rows_edited_for_the_moment_of_the_gate_keep_it_closed(at: At, edit: str, named: str) -> None:
    workspace = at()
    database = workspace.path / "workspace.sqlite"
    with sqlite3.connect(database) as connection:
        connection.execute(edit)
    with pytest.raises(GateRefusedError, match=f"{named} was (changed in|removed from) the database") as refused:
        projects.pass_gate(workspace, NAME, "optimization")
    assert "'seed': 43" in refused.value.remedy, "the same search would find the study that does not hold"


@pytest.mark.timeout(600)
@pytest.mark.requirement("GATE-1", "PHASE-5", "GATE-3")
def test_a_study_recorded_otherwise_than_its_runs_keeps_the_gate_closed(at: At) -> None:
    """The conductor writes down what the rows said when it ended: they could have been edited before."""
    workspace = at()
    with workspace.session() as session:
        evidence = Evidence(session, workspace, NAME)
        assert study_differences(evidence) == []
        recorded = [body for _, body in evidence.entries("study")]
        best = recorded[-1]["best"]
        for edit, named in (
            (lambda body: body["trials"][best].update(value=0.999), f"trial {best}: run .* recorded other values"),
            (lambda body: body["trials"][0]["intermediate"].update({"1": 0.999}), "trial 0: run .* other values"),
            (lambda body: body["trials"][0]["parameters"].update(seed=7), "trial 0: run .* did not train its param"),
            (lambda body: body["trials"][0].update(run="trial-none"), "trial 0: there is no run trial-none"),
            (lambda body: body["confirmation"].update(best_trial=1 - best), "was confirmed, and is not the best one"),
            (lambda body: body["confirmation"].update(baseline_spread=0.5), "confirmation tells baseline_spread other"),
        ):
            bodies = copy.deepcopy(recorded)
            edit(bodies[-1])
            told = _against_runs(evidence, bodies[0] | bodies[-1], bodies[-1]["trials"])
            assert re.search(named, "; ".join(told)), told
        [line] = [line for line in evidence.lines(Phase.OPTIMIZATION) if line.id == "optimization.best_configuration"]
        assert best_configuration(evidence, line).status == "passed"
        edited = session.scalars(select(Trial).where(Trial.number == best)).one()
        edited.value = 0.999
        session.flush()
        refused = best_configuration(Evidence(session, workspace, NAME), line)
        session.rollback()
    assert refused.status == "failed"
    assert f"trial {best}" in str(refused.measured)


@pytest.mark.timeout(600)
@pytest.mark.requirement("GATE-1", "GATE-2", "PHASE-5")
def test_an_edited_repetition_closes_the_gate_and_is_named(at: At) -> None:
    workspace = at()
    run_id = confirmation(workspace)["best_runs"][1]
    path = workspace.run_directory(NAME, run_id).artifacts / "summary.json"
    summary = json.loads(path.read_text())
    summary["best"]["metrics"]["accuracy"] = 1.0
    path.write_text(json.dumps(summary))
    with pytest.raises(GateRefusedError, match=f"{run_id}: artifacts/summary.json was changed"):
        projects.pass_gate(workspace, NAME, "optimization")


@pytest.mark.timeout(600)
@pytest.mark.requirement("PHASE-7")
def test_a_final_run_is_refused_until_the_improvement_has_passed_its_gate(at: At) -> None:
    workspace = at()
    with pytest.raises(GateRefusedError, match="needs the finalization phase"):
        start_run(workspace, NAME, RunKind.FINAL)
    projects.pass_gate(workspace, NAME, "optimization")
    status = projects.project_status(workspace, NAME)
    assert isinstance(status, projects.ProjectStatus)
    assert status.phase == "finalization"


@pytest.mark.timeout(600)
@pytest.mark.requirement("GATE-3", "GATE-5", "PHASE-5")
def test_a_studys_row_is_compared_whatever_its_state_says(at: At) -> None:
    workspace = at()
    database = workspace.path / "workspace.sqlite"
    assert verify_workspace(workspace.path).problems == []
    for edit, named in EDITS.items():
        with sqlite3.connect(database) as connection:
            before = connection.execute("SELECT * FROM studies").fetchall()
            connection.execute(f"UPDATE studies SET {edit}")
            connection.execute("UPDATE trials SET value = 0.999 WHERE number = 1")
        told = "; ".join(verify_workspace(workspace.path).problems)
        assert f": {named} was changed in the database" in told, edit
        assert "trial 1: value was changed in the database" in told, edit
        with sqlite3.connect(database) as connection:
            marks = ", ".join("?" * len(before[0]))
            connection.execute("DELETE FROM studies")
            connection.executemany(f"INSERT INTO studies VALUES ({marks})", before)


def next_of(workspace: Workspace) -> NextCall:
    status = projects.project_status(workspace, NAME)
    assert isinstance(status, ProjectStatus)
    assert status.next is not None
    return status.next


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.requirement("PHASE-10", "GATE-7")
def test_a_search_whose_best_lies_at_an_end_is_followed_by_one_beyond_it_until_the_goal_is_met(at: At) -> None:
    workspace, high = at(), 0.03
    assert projects.advance(workspace, NAME, 0).ended == "decision", "below the goal nothing goes on by itself"
    for _ in range(3):
        call = next_of(workspace)
        if call.tool == "pass_gate":
            break
        asked = call.arguments["search"]["space"]["optimizer.learning_rate"]
        assert asked["high"] > high
        high = asked["high"]
        study_id = start_study(workspace, **call.arguments).study_id
        while study_status(workspace, study_id, 50).state in {"running", "confirming"}:
            pass
    assert high > 0.03
    assert call.arguments == {"project": NAME, "phase": "optimization"}, "0.99 is reached at 0.04"


@pytest.mark.requirement("DIAG-8", "TUNE-5")
def test_a_run_with_the_best_of_a_study_knows_which_of_its_values_were_chosen(at: At) -> None:
    workspace = at()
    best: Any = confirmation(workspace)["best_parameters"]
    for changes, chosen in ((best, ["optimizer.learning_rate"]), ({"optimizer.learning_rate": 0.5}, [])):
        projects.configure(workspace, NAME, changes=changes)
        run_id = start_run(workspace, NAME, RunKind.SMOKE).run_id
        assert workspace.run_directory(NAME, run_id).specification().chosen == chosen


@pytest.mark.timeout(600)
@pytest.mark.requirement("PHASE-10", "GATE-7")
def test_an_improvement_below_the_goal_is_released_by_a_decision_alone(at: At) -> None:
    workspace = at()
    settings = workspace.path / "settings.yaml"
    settings.write_text(settings.read_text() + "limits: {trials: 2}\n")
    workspace.refreshed()
    call = next_of(workspace)
    assert call.arguments == {"project": NAME, "phase": "optimization", "conclude": True}
    assert call.why.startswith("Goal not reached")
    assert projects.advance(workspace, NAME, 5).steps == [], "no step that `advance` makes"
    assert projects.pass_gate(workspace, **call.arguments).outcome == "passed"


@pytest.mark.requirement("TUNE-1")
@pytest.mark.parametrize(
    ("range_", "best", "moved_to"),
    [
        ({"type": "float", "low": 1e-5, "high": 1e-3, "log": True}, 9e-4, (1e-4, 1e-2)),
        ({"type": "float", "low": 1e-5, "high": 1e-3, "log": True}, 1e-5, (1e-6, 1e-4)),
        ({"type": "float", "low": 1e-5, "high": 1e-3, "log": True}, 1e-4, None),
        ({"type": "float", "low": 0.0, "high": 0.5}, 0.49, (0.25, 0.75)),
        ({"type": "float", "low": 0.0, "high": 0.5}, 0.0, None),
        ({"type": "float", "low": 0.0, "high": 0.9}, 0.45, None),
        ({"type": "float", "low": 1e-5, "high": 1e-3, "log": True}, 0.0, None),
        ({"type": "float", "low": 0.5, "high": 0.9}, 0.9, (0.7, 0.95)),
        ({"type": "int", "low": 16, "high": 256, "log": True}, 16, (4, 64)),
    ],
)
def test_a_range_is_moved_towards_a_best_value_near_its_end(
    range_: dict[str, Any], best: float, moved_to: tuple[float, float] | None
) -> None:
    key = "loader.batch_size" if range_["type"] == "int" else "model.args.dropout" if best >= 0.4 else RATE
    search = SearchSection.model_validate({"space": {key: range_}})
    found = moved(search, {key: best}, CONFIG)
    assert found == ({} if moved_to is None else {key: range_ | dict(zip(("low", "high"), moved_to, strict=True))})
