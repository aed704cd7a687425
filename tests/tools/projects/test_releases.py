"""Finished is finished: a release stays one whatever changes, and working on begins the next by an explicit call."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.worlds.records import Script
from tests.worlds.scripted import scripted

from trainwright.server.errors import with_call
from trainwright.tools import projects
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.releases import BEGUN
from trainwright.tools.gates.since_release import before
from trainwright.tools.ledger import append
from trainwright.tools.projects import configuration
from trainwright.tools.projects.advancing import advance
from trainwright.tools.training_orchestrator import start_run
from trainwright.tools.verification import verify_workspace
from trainwright.tools.workspace import Workspace
from trainwright.trainer.base.canonical import digest_path
from trainwright.trainer.base.errors import ConfigurationError, ConflictError, GateRefusedError
from trainwright.trainer.run import RunKind

NAME = "flowers"
PHASES = ("planning", "baseline", "diagnostics", "optimization", "finalization")
At = Callable[[str], Workspace]


def status(workspace: Workspace) -> projects.ProjectStatus:
    found = projects.project_status(workspace, NAME)
    assert isinstance(found, projects.ProjectStatus)
    return found


@pytest.fixture
def package_from_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = tmp_path / "surprise-9.9.dist-info"
    record.mkdir()
    (record / "METADATA").write_text("Metadata-Version: 2.1\nName: surprise\nVersion: 9.9\n")
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.requirement("PHASE-11", "PHASE-8")
def test_what_changes_after_the_last_gate_is_a_remark_and_never_unfinishes_the_project(
    at: At, package_from_elsewhere: None
) -> None:
    workspace = at("finished")
    code = workspace.path.parent / "code"
    (code / "iris.csv").write_text("\n".join((code / "iris.csv").read_text().splitlines()[:-1]) + "\n")
    (code / "flower_model.py").unlink()
    manifest = workspace.project_folder(NAME) / "reproducibility_manifest.md"
    manifest.write_text(manifest.read_text() + "edited")
    found = status(workspace)
    assert (found.finished, found.release, found.next) == (True, 1, None)
    assert found.finished_on is not None
    assert set(found.gates.values()) == {"passed", "skipped"}
    assert {"data: iris.csv changed", "code: flower_model.py was removed"} <= set(found.remarks)
    assert f"artifact: {manifest.name} was changed after the gate" in found.remarks
    report = verify_workspace(workspace.path)
    assert report.problems == [f"project {NAME}: artifact {manifest.name} was changed"]
    (told,) = [finding.what for finding in report.findings if finding.where == "release"]
    assert "stays finished (release 1 of " in told
    assert "data: iris.csv changed" in told
    for phase in PHASES:
        with pytest.raises(GateRefusedError, match=r"is finished on \S+ \(release 1\); since then: "):
            projects.pass_gate(workspace, NAME, phase)
    with pytest.raises(GateRefusedError, match="All gates of flowers have passed"):
        start_run(workspace, NAME, RunKind.BASELINE)


@pytest.mark.requirement("PHASE-11")
def test_a_finished_project_is_changed_only_by_a_call_that_begins_its_next_release(at: At) -> None:
    workspace = at("finished")
    changes = {"optimizer.learning_rate": 0.03}
    with pytest.raises(ConflictError, match=r"finished on .* \(release 1\)") as met:
        projects.configure(workspace, NAME, changes=changes, reason="better")
    assert (status(workspace).finished, status(workspace).config_version) == (True, 1)
    call = met.value.details["next"]["arguments"]
    assert call == {"project": NAME, "changes": changes, "reason": "better", "begin_release": True}
    assert f"changes={changes!r}" in met.value.remedy
    answer = projects.configure(workspace, call.pop("project"), **call)
    assert (answer.release_begun, answer.phase) == (2, "planning")
    again = projects.configure(workspace, NAME, changes=changes, begin_release=True)
    assert (again.release_begun, again.changed) == (None, {}), "a repeated call begins nothing more"
    found = status(workspace)
    assert (found.finished, found.release, found.phase) == (False, 2, "planning")
    assert set(found.gates.values()) == {"open", "closed"}
    shown = found.shown()
    assert [one["id"] for one in shown["checks"] if one["status"] == "failed"] == ["planning.smoke_run_passed"]
    assert shown["remarks"][0].startswith("Not measured yet: "), "what waits for the smoke run is a line"
    assert verify_workspace(workspace.path).problems == []


@pytest.mark.requirement("PHASE-11")
def test_a_release_that_begins_without_what_the_search_before_it_found_names_the_call_that_takes_it_over(
    at: At, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which values these are: test_optimization.py."""
    workspace = at("finished")
    monkeypatch.setattr(configuration, "left_behind", lambda *_: {"optimizer.learning_rate": 0.0123})
    changes = {"training.epochs": 5}
    told = projects.configure(workspace, NAME, changes=changes, begin_release=True).taken_as or []
    assert not any("configured as" in one for one in told)
    call = "configure(project='flowers', changes={'optimizer.learning_rate': 0.0123})"
    assert [call in one for one in told if "starts from before the search of " in one] == [True], told


@pytest.mark.requirement("PHASE-11", "GATE-7")
def test_the_call_that_a_refusal_completes_is_accepted_for_the_next_release(at: At) -> None:
    workspace = at("finished")
    asked = {"changes": {"metrics": ["accuracy", "spearmanish"]}, "reason": "to see ranks too"}
    with pytest.raises(ConfigurationError) as met:
        projects.configure(workspace, NAME, **asked)
    call = with_call(met.value, "configure", {"project": NAME, **asked}).details["next"]["arguments"]
    assert call == {
        "project": NAME,
        "changes": {"metrics": ["accuracy"]},
        "begin_release": True,
        "reason": "to see ranks too",
    }
    assert "begin_release=true, for release 1 of" in met.value.remedy
    assert projects.configure(workspace, call.pop("project"), **call).release_begun == 2


@pytest.mark.requirement("PHASE-11", "GATE-7")
def test_the_next_release_takes_what_exists_for_the_same_digests_and_keeps_the_first_beside_it(at: At) -> None:
    workspace = at("finished")
    folder = workspace.project_folder(NAME)
    first = digest_path(folder / "final_model")
    (told,) = projects.configure(workspace, NAME, begin_release=True, reason="once more").taken_as or []
    assert re.match("configured as release 1 of .*: change first what is to differ", told)
    runs = len(list(folder.glob("runs/*")))
    for phase in PHASES:
        answer = projects.pass_gate(workspace, NAME, phase)
    assert answer.now_in == "finished"
    assert status(workspace).release == 2
    assert len(list(folder.glob("runs/*"))) == runs, "every run of the first release is one of these digests"
    assert digest_path(folder / "releases" / "1" / "final_model") == first
    assert "Before it: release 1 of" in (folder / "baseline_results.md").read_text()
    assert "Before it: release 1 of" in (folder / "final_model" / "README.md").read_text()
    assert verify_workspace(workspace.path).findings == []
    (folder / "releases" / "1" / "final_model" / "model.safetensors").write_bytes(b"others")
    (folder / "releases" / "1" / "final_model" / "model.sig").unlink()
    (folder / "releases" / "1" / "note.txt").write_text("mine")
    assert set(verify_workspace(workspace.path).problems) == {
        f"project {NAME}: artifact releases/1/final_model/model.safetensors was changed",
        f"project {NAME}: artifact releases/1/final_model/model.sig was removed",
        f"project {NAME}: releases/1/note.txt was added by hand",
    }


@pytest.mark.long
@pytest.mark.requirement("PHASE-11", "GATE-7")
def test_a_model_no_better_than_the_release_before_looks_at_no_test_row_unasked(at: At) -> None:
    workspace = at("finished")
    projects.configure(workspace, NAME, changes={"optimizer.learning_rate": 0.03}, begin_release=True)
    with workspace.session() as session:
        found = before(Evidence(session, workspace, NAME))
    assert found is not None
    assert found.value is not None
    worse = {"loss": 0.3, "accuracy": found.value - 0.05}
    with scripted(Script(curve=lambda *_: worse)):
        answer = advance(workspace, NAME)
        while answer.next is not None and answer.next.tool == "advance":
            answer = advance(workspace, NAME)
    assert answer.ended == "decision", answer
    assert answer.next is not None
    assert answer.next.tool == "export_model"
    assert f"is no better than {found.release} on the same validation rows" in answer.next.why
    assert not [step for step in answer.steps if step.startswith("export")]
    assert advance(workspace, NAME).next == answer.next, "it is asked until somebody decides"
    with scripted(Script(curve=lambda *_: worse)):
        told = advance(workspace, NAME, is_attended=False)
    assert any("is no better than release 1" in step for step in told.steps), "a pipeline is told, and goes on"
    with workspace.session() as session:
        assert Evidence(session, workspace, NAME).export is not None


@pytest.mark.requirement("PHASE-11", "GATE-3", "GATE-5")
def test_a_beginning_that_no_release_precedes_is_named(at: At) -> None:
    workspace = at("exported")
    with workspace.session() as session:
        append(session, NAME, BEGUN, {"release": 2, "after": 3, "reason": "", "since": []})
    (problem,) = [what for what in verify_workspace(workspace.path).problems if "was begun" in what]
    assert "release 2 of flowers was begun, and release 1 was not finished before it" in problem
