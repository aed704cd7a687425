"""Someone with a shell as the same user edits the workspace: the gates refuse, and verify names the edit."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.tools.projects.conftest import Rewrite

from trainwright.tools import projects
from trainwright.tools.training_orchestrator import refresh_run, resume_run, start_run
from trainwright.tools.verification import verify_workspace
from trainwright.tools.workspace import Workspace
from trainwright.trainer.base.canonical import digest_file
from trainwright.trainer.base.errors import GateRefusedError, IntegrityError
from trainwright.trainer.run import RunKind

NAME = "flowers"
At = Callable[[str], Workspace]


def execute(workspace: Workspace, statement: str, *arguments: object) -> None:
    with sqlite3.connect(workspace.path / "workspace.sqlite") as connection:
        connection.execute(statement, arguments)


def newest_run(workspace: Workspace, kind: str) -> str:
    with sqlite3.connect(workspace.path / "workspace.sqlite") as connection:
        rows = connection.execute("SELECT id FROM runs WHERE kind = ? ORDER BY created_at DESC", (kind,))
        return str(rows.fetchone()[0])


def edit_best(workspace: Workspace, run_id: str) -> Path:
    """Write a perfect accuracy into a run's summary."""
    path = workspace.run_directory(NAME, run_id).artifacts / "summary.json"
    summary = json.loads(path.read_text())
    summary["best"]["metrics"]["accuracy"] = 1.0
    path.write_text(json.dumps(summary))
    return path


@pytest.mark.requirement("GATE-1", "GATE-3", "GATE-5")
def test_a_run_is_not_sealed_again_because_its_row_says_it_is_unsealed(at: At) -> None:
    workspace = at("trained")
    run_id = newest_run(workspace, "baseline")
    edit_best(workspace, run_id)
    execute(workspace, "UPDATE runs SET sealed = 0 WHERE id = ?", run_id)
    refresh_run(workspace, run_id)
    with pytest.raises(GateRefusedError, match=r"summary\.json was changed"):
        projects.pass_gate(workspace, NAME, "baseline")
    problems = verify_workspace(workspace.path).problems
    assert any("summary.json was changed" in problem for problem in problems)


@pytest.mark.requirement("GATE-3", "GATE-5")
@pytest.mark.parametrize(
    ("is_signed", "told"),
    [
        (True, "it was sealed otherwise than its worker signed"),
        (False, "end.json does not bear its worker's signature"),
    ],
)
def test_a_record_sealed_anew_with_all_hashes_is_not_what_its_worker_signed(
    at: At, rewrite: Rewrite, is_signed: bool, told: str
) -> None:
    """Whoever rewrites the ledger has no key of the run: its digests differ from the signed ones, or nothing is."""
    workspace = at("trained")
    run = workspace.run_directory(NAME, newest_run(workspace, "baseline"))
    path, end = run.artifacts / "imported.json", run.path / "end.json"
    path.write_text(json.dumps({"packages": ["torch"]}))
    if not is_signed:
        end.write_text(json.dumps(json.loads(end.read_text()) | {"signature": ""}))

    def seal(body: dict[str, Any]) -> None:
        if body.get("run_id") == run.run_id and "digests" in body:
            names = body["digests"].keys() & {"artifacts/imported.json", "end.json"}
            body["digests"] |= {name: digest_file(run.path / name) for name in names}

    rewrite(workspace, "", seal)
    assert [problem for problem in verify_workspace(workspace.path).problems if told in problem] == [
        f"run {run.run_id}: {told}{'' if is_signed else ' any more'}"
    ]


@pytest.mark.requirement("GATE-1", "GATE-3", "GATE-5")
def test_resuming_does_not_make_an_edit_the_runs_own(at: At) -> None:
    workspace = at("trained")
    run_id = newest_run(workspace, "baseline")
    path = workspace.run_directory(NAME, run_id).path / "status.json"
    status = json.loads(path.read_text())
    path.write_text(json.dumps(status | {"state": "stopped", "stop_reason": "requested"}))
    with pytest.raises(IntegrityError, match=r"changed after it ended \(completed\)"):
        resume_run(workspace, run_id)
    assert any("status.json was changed" in problem for problem in verify_workspace(workspace.path).problems)


@pytest.mark.requirement("GATE-1", "GATE-3", "GATE-4", "GATE-5")
@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("goal", json.dumps({"metric": "accuracy", "direction": "maximize", "target": 0.0})),
        ("limits", json.dumps({"trials": 10**6})),
        ("code_root", "/tmp"),
    ],
)
def test_an_edited_project_row_stops_everything_while_it_stands(at: At, column: str, value: str) -> None:
    workspace = at("diagnosed")
    execute(workspace, f"UPDATE projects SET {column} = ?", value)
    for act in (
        lambda: projects.pass_gate(workspace, NAME, "optimization"),
        lambda: projects.project_status(workspace, NAME),
        lambda: start_run(workspace, NAME, RunKind.BASELINE),
    ):
        with pytest.raises(IntegrityError, match=f"{column} was changed in the database"):
            act()
    assert f"project {NAME}: {column} was changed in the database" in verify_workspace(workspace.path).problems


@pytest.mark.requirement("GATE-1", "GATE-3", "GATE-5", "PHASE-8")
def test_an_edited_or_removed_configuration_row_stops_everything(at: At) -> None:
    workspace = at("planned")
    execute(workspace, "UPDATE config_versions SET \"values\" = '{}'")
    with pytest.raises(IntegrityError, match="configuration version 1: values was changed"):
        start_run(workspace, NAME, RunKind.BASELINE)
    workspace = at("planned")
    projects.configure(workspace, NAME, changes={"optimizer.learning_rate": 0.5})
    execute(workspace, "DELETE FROM config_versions WHERE number = 2")
    with pytest.raises(IntegrityError, match="newest configuration was removed"):
        start_run(workspace, NAME, RunKind.BASELINE)


@pytest.mark.requirement("GATE-1", "GATE-3", "GATE-5")
@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("kind", "trial"),
        ("seed", 7),
        ("label", "confirmation"),
        ("config_digest", "x"),
        ("source_run", "y"),
        ("state", "failed"),
    ],
)
def test_an_edited_run_row_fails_the_gate_that_rests_on_the_run_and_is_named(
    at: At, column: str, value: object
) -> None:
    workspace = at("based")
    run_id = newest_run(workspace, "baseline")
    execute(workspace, f"UPDATE runs SET {column} = ? WHERE id = ?", value, run_id)
    status = projects.project_status(workspace, NAME)
    assert isinstance(status, projects.ProjectStatus)
    assert status.phase == "baseline"
    assert f"run {run_id}: {column} was changed in the database" in verify_workspace(workspace.path).problems


@pytest.mark.requirement("GATE-1", "GATE-5")
def test_a_smoke_run_renamed_in_the_database_is_no_baseline(at: At) -> None:
    workspace = at("planned")
    execute(workspace, "UPDATE runs SET kind = 'baseline'")
    with pytest.raises(GateRefusedError):
        projects.pass_gate(workspace, NAME, "baseline")


@pytest.mark.requirement("GATE-3", "GATE-5")
def test_files_added_to_the_final_model_and_an_edited_registry_are_named(at: At) -> None:
    workspace = at("finished")
    (workspace.project_folder(NAME) / "final_model" / "model.pt").write_bytes(b"not ours")
    execute(workspace, "UPDATE registered_models SET metrics = '{\"accuracy\": 1.0}'")
    problems = verify_workspace(workspace.path).problems
    assert f"project {NAME}: final_model/model.pt was added by hand" in problems
    assert any("registered model 1: metrics was changed" in problem for problem in problems)


@pytest.mark.requirement("GATE-3", "GATE-5")
def test_a_removed_append_only_trigger_is_named(at: At) -> None:
    workspace = at("created")
    execute(workspace, "DROP TRIGGER ledger_no_update")
    assert verify_workspace(workspace.path).problems == ["the database's trigger ledger_no_update was removed"]


@pytest.mark.requirement("PHASE-6", "GATE-5")
@pytest.mark.parametrize("kind", [RunKind.EXPORT, RunKind.FINAL])
def test_after_the_last_gate_the_test_split_is_not_looked_at_again(at: At, kind: RunKind) -> None:
    with pytest.raises(GateRefusedError, match="look at the test split again"):
        start_run(at("finished"), NAME, kind)


@pytest.mark.requirement("PHASE-7", "GATE-2")
def test_a_finished_project_says_that_it_is_finished_to_whoever_wants_an_earlier_phases_run(at: At) -> None:
    with pytest.raises(GateRefusedError, match="All gates of flowers have passed") as met:
        start_run(at("finished"), NAME, RunKind.BASELINE)
    assert "configure(project='flowers'" in met.value.remedy


@pytest.mark.requirement("GATE-4")
def test_a_burst_of_starts_does_not_slip_past_the_limit_on_runs_at_once(at: At) -> None:
    from trainwright.tools.training_orchestrator import wait_for_run
    from trainwright.trainer.base.errors import LimitReachedError

    workspace = at("planned")
    path = workspace.path / "settings.yaml"
    path.write_text(path.read_text().replace("runs_at_once: 2", "runs_at_once: 1"))
    run_id = start_run(workspace.refreshed(), NAME, RunKind.BASELINE).run_id
    with pytest.raises(LimitReachedError, match="runs_at_once"):
        start_run(workspace, NAME, RunKind.BASELINE)
    while not wait_for_run(workspace, run_id).is_ended:
        pass


@pytest.mark.requirement("GATE-3", "GATE-5")
@pytest.mark.parametrize(
    ("table", "column", "what"),
    [
        ("projects", "created_at", f"project {NAME}: created_at was changed"),
        ("runs", "created_at", "created_at was changed in the database"),
        ("runs", "ended_at", "ended_at was changed in the database"),
        ("runs", "idempotency_key", "idempotency_key was changed in the database"),
        ("config_versions", "created_at", "configuration version 1: created_at was changed in the database"),
        ("config_versions", "reason", "configuration version 1: reason was changed in the database"),
        ("registered_models", "created_at", "registered model 1: created_at was changed in the database"),
    ],
)
def test_what_no_verdict_rests_on_is_compared_as_well(at: At, table: str, column: str, what: str) -> None:
    workspace = at("finished")
    values = {"created_at": "'2026-01-01 00:00:00.000000'", "ended_at": "'2026-01-01 00:00:00.000000'"}
    first = f"(SELECT min(rowid) FROM {table})"
    execute(workspace, f"UPDATE {table} SET {column} = {values.get(column, repr('another'))} WHERE rowid = {first}")
    problems = verify_workspace(workspace.path).problems
    assert [problem for problem in problems if what in problem], problems
