"""`verify` derives every verdict again from the evidence: a chain that was rewritten to the last hash does not help."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import trainwright
from trainwright.tools import projects
from trainwright.tools.gates.artifacts import digests_of, new_drafts
from trainwright.tools.gates.decide import dependencies_of, evaluate, record
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.outcomes import CHECKS, passed
from trainwright.tools.gates.phases import Phase
from trainwright.tools.ledger import append
from trainwright.tools.training_orchestrator import start_run, wait_for_run
from trainwright.tools.verification import verify_workspace
from trainwright.tools.verification.rows import verify_times
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.signing import VARIABLE, new_key, public_path
from trainwright.trainer.base.errors import GateRefusedError, IntegrityError
from trainwright.trainer.run import RunKind

NAME = "flowers"
At = Callable[[str], Workspace]
Rewrite = Callable[[Workspace, str, Callable[[dict[str, Any]], None]], None]


def check_of(body: dict[str, Any], name: str) -> dict[str, Any]:
    return next(check for check in body["checks"] if check["id"] == name)


def verdicts(workspace: Workspace) -> list[str]:
    return [finding.what for finding in verify_workspace(workspace.path).findings if finding.where == "verdict"]


@pytest.mark.requirement("GATE-3")
def test_every_verdict_of_a_whole_project_is_derived_again_to_the_letter(at: At) -> None:
    report = verify_workspace(at("finished").path)
    assert report.findings == []
    assert report.checked["verdicts"] == 5
    assert report.checked["times"] > 5


def test_an_entry_that_is_dated_before_the_one_it_follows_is_named() -> None:
    times = ["2026-11-27T10:00:00+00:00", "2026-11-27T09:59:30+00:00", "2026-11-24T10:00:00+00:00"]
    entries = [SimpleNamespace(sequence=number, time=time) for number, time in enumerate(times, 1)]
    count, (finding,) = verify_times(SimpleNamespace(entries=entries))  # type: ignore[arg-type]
    assert count == 3
    assert finding.what.startswith("ledger entry 3 is dated 2026-11-24T10:00:00+00:00, before entry 2")
    assert not finding.counts, "a clock that was wrong may have been set right"


@pytest.mark.requirement("GATE-3", "GATE-5")
def test_a_measured_value_rewritten_with_all_hashes_is_named_with_both_values(at: At, rewrite: Rewrite) -> None:
    workspace = at("based")

    def flatter(body: dict[str, Any]) -> None:
        check_of(body, "baseline.within_budget")["measured"] = "99.9 minutes"

    rewrite(workspace, "baseline", flatter)
    (what,) = verdicts(workspace)
    assert "decision on baseline" in what
    assert "baseline.within_budget: measured recorded 99.9 minutes, derived " in what


@pytest.mark.requirement("GATE-1", "GATE-3", "GATE-5")
def test_a_refusal_rewritten_as_a_pass_is_named(at: At, rewrite: Rewrite) -> None:
    workspace = at("planned")
    with pytest.raises(GateRefusedError):
        projects.pass_gate(workspace, NAME, "baseline")

    def accept(body: dict[str, Any]) -> None:
        body["outcome"] = "passed"
        for check in body["checks"]:
            check["status"] = "passed"

    rewrite(workspace, "baseline", accept)
    found = verdicts(workspace)
    counted = verify_workspace(workspace.path).problems
    assert any("baseline.run_completed: status recorded passed, derived failed" in what for what in counted)
    assert any("outcome recorded passed, derived refused" in what for what in found)


@pytest.mark.requirement("GATE-3", "GATE-5")
def test_a_decision_made_to_rest_on_another_run_is_named(at: At, rewrite: Rewrite) -> None:
    workspace = at("based")
    rewrite(workspace, "baseline", lambda body: body["rested_on"].update(runs=body["rested_on"]["runs"] * 2))
    assert any("depends on runs: recorded" in what for what in verdicts(workspace))


@pytest.mark.requirement("GATE-3", "GATE-5", "PHASE-9")
def test_a_gate_passed_under_an_edited_checklist_is_named(at: At, rewrite: Rewrite) -> None:
    workspace = at("planned")

    def loosen(body: dict[str, Any]) -> None:
        body["circumstances"]["checklist"] = "blake3:edited"
        line = next(line for line in body["circumstances"]["lines"] if line["id"] == "planning.smoke_run_passed")
        line["threshold"] = 1
        check_of(body, line["id"])["required"] = "a completed smoke run of at least 1 steps"

    rewrite(workspace, "planning", loosen)
    (finding,) = verify_workspace(workspace.path).findings
    assert finding.where == "checklist"
    assert "phases/01_planning/checklist.md has changed since, in its checks" in finding.what
    assert finding.counts


@pytest.mark.requirement("GATE-3", "GATE-5", "PHASE-9")
def test_looser_lines_under_the_present_checklists_digest_are_named(at: At, rewrite: Rewrite) -> None:
    workspace = at("planned")

    def loosen(body: dict[str, Any]) -> None:
        line = next(line for line in body["circumstances"]["lines"] if line["id"] == "planning.smoke_run_passed")
        line["threshold"] = 1
        check_of(body, line["id"])["required"] = "a completed smoke run of at least 1 steps"

    rewrite(workspace, "planning", loosen)
    (what,) = verify_workspace(workspace.path).problems
    assert "phases/01_planning/checklist.md has changed since, in its checks" in what


@pytest.mark.requirement("GATE-3", "GATE-5")
@pytest.mark.parametrize("measured", ["99.9 minutes", "hardly any"])
def test_a_version_written_into_a_decision_excuses_no_figure_and_no_words_in_place_of_one(
    at: At, rewrite: Rewrite, measured: str
) -> None:
    workspace = at("based")

    def flatter(body: dict[str, Any]) -> None:
        body["circumstances"]["version"] = "0.0.1"
        check_of(body, "baseline.within_budget")["measured"] = measured

    rewrite(workspace, "baseline", flatter)
    (what,) = verify_workspace(workspace.path).problems
    assert f"measured recorded {measured}, derived " in what
    assert f"recorded as made by version 0.0.1, compared by {trainwright.__version__}" in what


@pytest.mark.requirement("GATE-1", "GATE-3", "GATE-5")
def test_a_refusal_passed_off_as_a_pass_under_an_older_checklist_is_named(at: At, rewrite: Rewrite) -> None:
    workspace = at("planned")
    with pytest.raises(GateRefusedError):
        projects.pass_gate(workspace, NAME, "baseline")
    with workspace.session() as session:
        rested_on = dependencies_of(Evidence(session, workspace, NAME), Phase.BASELINE)

    def forge(body: dict[str, Any]) -> None:
        body["circumstances"]["version"] = "0.0.1"
        body["checks"] = [check for check in body["checks"] if check["status"] != "failed"]
        kept = {check["id"] for check in body["checks"]}
        body["circumstances"]["lines"] = [line for line in body["circumstances"]["lines"] if line["id"] in kept]
        body |= {"outcome": "passed", "rested_on": rested_on}

    rewrite(workspace, "baseline", forge)
    (what,) = verify_workspace(workspace.path).problems
    assert "in its checks; the present ones are not met: baseline.run_completed" in what


@pytest.mark.requirement("GATE-3", "PHASE-9")
def test_an_older_versions_shorter_checklist_is_told_where_the_evidence_passes_the_present_one(
    at: At, rewrite: Rewrite
) -> None:
    workspace = at("based")

    def without_a_check(body: dict[str, Any]) -> None:
        body["circumstances"] |= {"version": "0.0.1", "checklist": "blake3:older"}
        for kept in (body["checks"], body["circumstances"]["lines"]):
            kept.remove(next(one for one in kept if one["id"] == "baseline.within_budget"))

    rewrite(workspace, "baseline", without_a_check)
    report = verify_workspace(workspace.path)
    assert report.problems == []
    assert "phases/02_baseline/checklist.md has changed since, in its checks; the present ones are met too" in (
        report.findings[0].what
    )


@pytest.mark.requirement("GATE-3", "GATE-5")
def test_a_check_that_is_none_any_more_and_a_decision_without_its_checklist_are_named(at: At, rewrite: Rewrite) -> None:
    workspace = at("based")
    rewrite(workspace, "planning", lambda body: body["circumstances"].pop("lines"))
    gone = {"id": "baseline.gone", "text": "", "required": False}
    rewrite(workspace, "baseline", lambda body: body["circumstances"]["lines"].append(gone))
    found = verify_workspace(workspace.path).problems
    assert any("decision on planning" in what and "does not record the checklist" in what for what in found)
    assert any("decision on baseline" in what and "baseline.gone is no check any more" in what for what in found)


@pytest.mark.requirement("GATE-3")
def test_the_wording_of_another_version_is_told_as_such_and_its_figures_are_explained_by_a_signature_alone(
    at: At, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new_key(tmp_path / "owner.key")
    monkeypatch.setenv(VARIABLE, str(tmp_path / "owner.key"))
    workspace = at("smoked")
    with monkeypatch.context() as older:  # a release before this one, which told the same in other words
        older.setattr(trainwright, "__version__", "0.0.1")
        older.setitem(CHECKS, "planning.determinism_probed", lambda *_: passed("yes", "on"))
        older.setitem(CHECKS, "planning.data_volume", lambda *_: passed("7 samples", "enough"))
        projects.pass_gate(workspace, NAME, "planning")
    report = verify_workspace(workspace.path)
    (problem,) = report.problems
    assert "planning.data_volume: measured recorded 7 samples" in problem
    (told,) = [finding for finding in report.findings if finding.where == "version"]
    assert "derived differently by this version; recorded by 0.0.1" in told.what
    assert "planning.determinism_probed: measured recorded yes" in told.what
    assert report.of_other_versions == 1
    attested = verify_workspace(workspace.path, public_path(tmp_path / "owner.key"))
    assert attested.problems == []
    assert any("planning.data_volume: measured recorded 7 samples" in finding.what for finding in attested.findings)


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


@pytest.mark.requirement("GATE-1", "GATE-3")
def test_a_decision_sees_one_state_of_the_settings_whatever_another_call_reads_meanwhile(at: At) -> None:
    workspace = at("smoked")
    path = workspace.path / "settings.yaml"

    def demand_git() -> None:
        path.write_text(path.read_text().replace("require_git: false", "require_git: true"))
        workspace.refreshed()

    with workspace.session() as session:
        evidence = Evidence(session, workspace, NAME)
        demand_git()
        report = evaluate(evidence, Phase.PLANNING)
        assert evidence.settings.require_git is False
        assert report.outcome == "passed"
        record(evidence, report, {})
    assert verdicts(workspace) == []
    with workspace.session() as session:
        report = evaluate(Evidence(session, workspace, NAME), Phase.PLANNING)
    assert [result.id for result in report.blocking] == ["planning.code_captured"]


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


@pytest.mark.requirement("GATE-3")
def test_a_report_on_another_run_replaces_the_one_that_the_gate_named(at: At) -> None:
    workspace = at("diagnosed")
    folder = workspace.project_folder(NAME)
    with workspace.session() as session:
        drafts = new_drafts(session, folder)
        (drafts / "diagnostic_report.md").write_text("of another run")
        append(session, NAME, "diagnosis", {"run_id": "another", "artifacts": digests_of(drafts)})
    found = verify_workspace(workspace.path).findings  # and publishes it
    assert [finding.what for finding in found if finding.where == "artifact"] == []
    (folder / "diagnostic_report.md").write_text("edited")
    assert f"project {NAME}: artifact diagnostic_report.md was changed" in verify_workspace(workspace.path).problems


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
        connection.execute("DELETE FROM ledger WHERE sequence = ?", (last,))
    with pytest.raises(IntegrityError, match=f"entry {last} of ledger.jsonl is not in the database's ledger"):
        projects.pass_gate(workspace, NAME, "baseline")
    found = [finding.what for finding in verify_workspace(workspace.path).findings if finding.where == "ledger"]
    assert len(found) == 1
    assert found[0].startswith(f"ledger entry {last} was removed from the database")


@pytest.mark.requirement("GATE-3", "GATE-5")
@pytest.mark.parametrize(
    ("edit", "told"),
    [
        ("UPDATE projects SET created_at = 'yesterday'", "projects cannot be read"),
        ("UPDATE config_versions SET \"values\" = 'none'", "configurations cannot be read"),
        ("UPDATE runs SET project = 'other'", "project was changed in the database"),
        ("UPDATE runs SET summary = '{'", "sealed runs cannot be read"),
        ("UPDATE ledger SET body = '[]' WHERE kind = 'run_started'", "was changed after it was written"),
        ("UPDATE ledger SET project = '[]' WHERE kind = 'gate'", "plain copies cannot be read"),
    ],
)
def test_values_that_no_server_writes_are_named_and_stop_nothing(at: At, edit: str, told: str) -> None:
    workspace = at("planned")
    with sqlite3.connect(workspace.path / "workspace.sqlite") as connection:
        connection.execute("DROP TRIGGER ledger_no_update")
        connection.execute(edit)
    problems = verify_workspace(workspace.path).problems
    assert any(told in problem for problem in problems), problems
    assert "the database's trigger ledger_no_update was removed" in problems


@pytest.mark.requirement("GATE-3", "CKPT-6")
def test_a_registered_model_that_points_to_another_run_is_named(at: At) -> None:
    workspace = at("finished")
    with sqlite3.connect(workspace.path / "workspace.sqlite") as connection:
        connection.execute("UPDATE registered_models SET run = (SELECT id FROM runs WHERE kind = 'baseline')")
    assert verify_workspace(workspace.path).problems == [
        "project flowers: registered model 1: run was changed in the database"
    ]


@pytest.mark.requirement("GATE-3", "GATE-5")
def test_files_nested_too_deep_are_named(at: At) -> None:
    workspace = at("planned")
    deep = "[" * 100_000
    for path in (
        *workspace.path.glob("projects/*/runs/*/checkpoints/*.json"),
        workspace.project_folder(NAME) / "ledger.jsonl",
    ):
        path.write_text(deep)
        assert verify_workspace(workspace.path).problems, path
