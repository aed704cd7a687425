"""`verify` derives every verdict again from the evidence: a chain that was rewritten to the last hash does not help."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from typing import Any

import pytest

from trainwright.tools import projects
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.keeper import evaluate, record
from trainwright.tools.gates.phases import Phase
from trainwright.tools.ledger import copy_all_forward
from trainwright.tools.ledger.verification import verify_workspace
from trainwright.tools.training_orchestrator import start_run, wait_for_run
from trainwright.tools.workspace import Workspace
from trainwright.trainer.canonical import canonical_json, digest_json
from trainwright.trainer.errors import GateRefusedError, IntegrityError
from trainwright.trainer.run import RunKind

NAME = "flowers"
At = Callable[[str], Workspace]


def rewrite(workspace: Workspace, phase: str, edit: Callable[[dict[str, Any]], None]) -> None:
    """Edit a gate decision as someone with the file and our source would: every hash, row and copy computed anew."""
    with sqlite3.connect(workspace.path / "workspace.sqlite") as connection:
        triggers = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            connection.execute(f"DROP TRIGGER {name}")
        rows = connection.execute("SELECT sequence, time, project, kind, body FROM ledger ORDER BY sequence").fetchall()
        previous = "genesis"
        for sequence, time, project, kind, text in rows:
            body = json.loads(text)
            if kind == "gate" and body["phase"] == phase:
                edit(body)
                report = json.dumps({"outcome": body["outcome"], "checks": body["checks"]})
                values = (report, json.dumps(body["rested_on"]), body["outcome"] != "refused", sequence)
                connection.execute(
                    "UPDATE gate_decisions SET report = ?, rested_on = ?, passed = ? WHERE ledger_sequence = ?", values
                )
            content = [sequence, time, project, kind, canonical_json(body), previous]
            digest = digest_json(content)
            connection.execute(
                "UPDATE ledger SET body = ?, previous = ?, digest = ? WHERE sequence = ?",
                (canonical_json(body), previous, digest, sequence),
            )
            previous = digest
        for _, sql in triggers:
            connection.execute(sql)
    (workspace.project_folder(NAME) / "ledger.jsonl").unlink()
    copy_all_forward(workspace)


def check_of(body: dict[str, Any], name: str) -> dict[str, Any]:
    return next(check for check in body["checks"] if check["id"] == name)


def verdicts(workspace: Workspace) -> list[str]:
    return [finding.what for finding in verify_workspace(workspace.path).findings if finding.where == "verdict"]


@pytest.mark.requirement("GATE-3")
def test_every_verdict_of_a_whole_project_is_derived_again_to_the_letter(at: At) -> None:
    report = verify_workspace(at("finished").path)
    assert report.findings == []
    assert report.checked["verdicts"] == 5


@pytest.mark.requirement("GATE-3", "GATE-5")
def test_a_measured_value_rewritten_with_all_hashes_is_named_with_both_values(at: At) -> None:
    workspace = at("based")

    def flatter(body: dict[str, Any]) -> None:
        check_of(body, "baseline.within_budget")["measured"] = "0.7 minutes"

    rewrite(workspace, "baseline", flatter)
    (what,) = verdicts(workspace)
    assert "decision on baseline" in what
    assert "baseline.within_budget: measured recorded 0.7 minutes, derived 0.0 minutes" in what


@pytest.mark.requirement("GATE-1", "GATE-3", "GATE-5")
def test_a_refusal_rewritten_as_a_pass_is_named(at: At) -> None:
    workspace = at("planned")
    with pytest.raises(GateRefusedError):
        projects.pass_gate(workspace, NAME, "baseline")

    def accept(body: dict[str, Any]) -> None:
        body["outcome"] = "passed"
        for check in body["checks"]:
            check["status"] = "passed"

    rewrite(workspace, "baseline", accept)
    found = verdicts(workspace)
    assert any("baseline.run_completed: status recorded passed, derived failed" in what for what in found)
    assert any("outcome recorded passed, derived refused" in what for what in found)


@pytest.mark.requirement("GATE-3", "GATE-5")
def test_a_decision_made_to_rest_on_another_run_is_named(at: At) -> None:
    workspace = at("based")
    rewrite(workspace, "baseline", lambda body: body["rested_on"].update(runs=body["rested_on"]["runs"] * 2))
    assert any("rests on runs: recorded" in what for what in verdicts(workspace))


@pytest.mark.requirement("GATE-3", "GATE-5", "PHASE-9")
def test_a_gate_passed_under_an_edited_checklist_is_named(at: At) -> None:
    workspace = at("planned")

    def loosen(body: dict[str, Any]) -> None:
        body["circumstances"]["checklist"] = "blake3:edited"
        line = next(line for line in body["circumstances"]["lines"] if line["id"] == "planning.smoke_run_passed")
        line["threshold"] = 1
        check_of(body, line["id"])["required"] = "a completed smoke run of at least 1 steps"

    rewrite(workspace, "planning", loosen)
    (finding,) = verify_workspace(workspace.path).findings
    assert finding.where == "checklist"
    assert "phases/planning/checklist.md has changed since, in its checks" in finding.what
    assert finding.counts


@pytest.mark.requirement("GATE-3", "PHASE-8")
def test_what_rightly_changes_after_a_gate_is_no_difference(at: At) -> None:
    workspace = at("tuned")
    projects.configure(workspace, NAME, changes={"optimizer.learning_rate": 0.5}, reason="later")
    for name in ("flower_model.py", "iris.csv"):
        path = workspace.path.parent / "code" / name
        path.write_text(path.read_text() + "\n")
    settings = workspace.path / "settings.yaml"
    settings.write_text(settings.read_text().replace("trials: 200", "trials: 3"))
    with pytest.raises(GateRefusedError):  # this refusal says what differs in code and data, and is derived again too
        projects.pass_gate(workspace.refreshed(), NAME, "planning")
    assert verify_workspace(workspace.path).findings == []


@pytest.mark.requirement("GATE-3")
def test_a_refusal_during_a_run_is_no_difference_once_the_run_has_ended(at: At) -> None:
    workspace = at("planned")
    run_id = start_run(workspace, NAME, RunKind.BASELINE).run_id
    with pytest.raises(GateRefusedError):
        projects.pass_gate(workspace, NAME, "baseline")
    while not wait_for_run(workspace, run_id).is_ended:
        pass
    report = verify_workspace(workspace.path)
    assert report.findings == []
    assert report.checked["verdicts"] == 2


@pytest.mark.requirement("GATE-3")
def test_a_report_written_anew_does_not_contradict_the_gate_before(at: At) -> None:
    workspace = at("diagnosed")
    projects.diagnose(workspace, NAME)
    assert verdicts(workspace) == []


@pytest.mark.requirement("GATE-1", "GATE-3", "GATE-5")
def test_a_decision_written_with_the_servers_own_functions_is_named(at: At) -> None:
    workspace = at("planned")
    with workspace.session() as session:
        evidence = Evidence(session, workspace, NAME)
        report = evaluate(evidence, Phase.BASELINE)
        assert report.outcome == "refused"
        record(evidence, report.model_copy(update={"outcome": "passed"}), {})
    assert any("outcome recorded passed, derived refused" in what for what in verdicts(workspace))


@pytest.mark.requirement("GATE-3", "GATE-5")
def test_a_decision_cut_off_from_the_ledgers_end_stops_the_project_and_is_named(at: At) -> None:
    workspace = at("based")
    with sqlite3.connect(workspace.path / "workspace.sqlite") as connection:
        (last,) = connection.execute("SELECT MAX(sequence) FROM ledger").fetchone()
        connection.execute("DROP TRIGGER ledger_no_delete")
        connection.execute("DELETE FROM gate_decisions WHERE ledger_sequence = ?", (last,))
        connection.execute("DELETE FROM ledger WHERE sequence = ?", (last,))
    with pytest.raises(IntegrityError, match=f"entry {last} of ledger.jsonl is not in the database's ledger"):
        projects.pass_gate(workspace, NAME, "baseline")
    found = [finding.what for finding in verify_workspace(workspace.path).findings if finding.where == "ledger"]
    assert len(found) == 1
    assert found[0].startswith(f"ledger entry {last} was removed from the database")
