"""A diagnosis rests on a sealed run as its worker left it, and `verify` reads the curves again."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from trainwright.tools import projects
from trainwright.tools.ledger import append, entries
from trainwright.tools.training_monitor import DOCUMENTS, diagnostics_digests, load_diagnostics
from trainwright.tools.verification import verify_workspace
from trainwright.tools.workspace import Workspace
from trainwright.trainer.base.errors import IntegrityError
from trainwright.trainer.run.digests import METRICS

NAME = "flowers"
At = Callable[[str], Workspace]


def newest_diagnosis(workspace: Workspace) -> dict[str, object]:
    with workspace.session() as session:
        return entries(session, NAME, "diagnosis")[-1][1]


def baseline(workspace: Workspace) -> Path:
    (run,) = (workspace.project_folder(NAME) / "runs").glob("baseline-*")
    return run


@pytest.mark.requirement("GATE-1", "GATE-3", "PHASE-4")
def test_curves_that_were_edited_are_not_diagnosed_and_nothing_is_recorded(at: At) -> None:
    workspace = at("based")
    path = baseline(workspace) / METRICS
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE metrics SET value = 0.999 WHERE key = 'validation/accuracy'")
    with pytest.raises(IntegrityError, match=r"metrics\.sqlite was changed after it was sealed") as caught:
        projects.diagnose(workspace, NAME)
    assert "kind='baseline'" in caught.value.remedy
    with workspace.session() as session:
        assert entries(session, NAME, "diagnosis") == []
    assert not (workspace.project_folder(NAME) / "diagnostic_report.md").exists()


@pytest.mark.requirement("GATE-3")
def test_every_diagnosis_of_a_project_is_derived_again(at: At) -> None:
    workspace = at("diagnosed")
    projects.diagnose(workspace, NAME)
    report = verify_workspace(workspace.path)
    assert report.findings == []
    assert report.checked["diagnoses"] == 2


@pytest.mark.requirement("GATE-3", "GATE-5")
def test_a_diagnosis_that_does_not_follow_from_its_run_is_named_with_both_values(at: At) -> None:
    workspace = at("diagnosed")
    forged = json.loads(json.dumps(newest_diagnosis(workspace)))
    value = forged["assessment"]["best_value"]
    forged["assessment"]["best_value"] = 0.5
    forged["alerts"].append({"id": "nan_loss", "signal": "non_finite_losses"})
    with workspace.session() as session:
        append(session, NAME, "diagnosis", forged)
    problems = verify_workspace(workspace.path).problems
    assert len(problems) == 2
    assert any(f"best_value: recorded 0.5, derived {value}" in problem for problem in problems)
    assert any("alert nan_loss: recorded {" in problem and "derived None" in problem for problem in problems)


@pytest.mark.requirement("GATE-3", "GATE-5", "PHASE-9")
def test_a_gate_on_a_diagnosis_under_other_documents_is_named(at: At) -> None:
    workspace = at("based")
    projects.diagnose(workspace, NAME)
    loosened = json.loads(json.dumps(newest_diagnosis(workspace)))
    loosened["documents"]["exploding_gradients"] = "blake3:loosened"
    with workspace.session() as session:
        append(session, NAME, "diagnosis", loosened)
    assert verify_workspace(workspace.path).problems == [], "so far nothing was opened by it"
    (finding,) = verify_workspace(workspace.path).findings
    projects.pass_gate(workspace, NAME, "diagnostics")
    (problem,) = verify_workspace(workspace.path).problems
    assert problem == finding.what
    assert problem.endswith("the diagnostic documents have changed since: exploding_gradients")


@pytest.mark.requirement("PHASE-9", "DIAG-8")
def test_the_digest_of_a_document_holds_what_is_enforced_and_not_its_prose(tmp_path: Path) -> None:
    copy = tmp_path / "diagnostics"
    shutil.copytree(DOCUMENTS, copy)
    before = diagnostics_digests(copy)
    assert before == diagnostics_digests()
    assert before.keys() == {diagnostic.id for diagnostic in load_diagnostics()}
    path = copy / "overfitting.md"
    path.write_text(path.read_text() + "\nMore prose.\n")
    assert diagnostics_digests(copy) == before
    path.write_text(path.read_text().replace("severity: warning", "severity: critical", 1))
    after = diagnostics_digests(copy)
    assert [name for name in before if after[name] != before[name]] == ["overfitting"]
