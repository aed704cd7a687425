"""Every look at the test split is counted, whoever had it and however its export ended."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.worlds.flowers import CONFIG, GOAL, NAME, finish

from trainwright.tools import owner, projects
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.test_set_access import (
    SplitAccess,
    accesses_by_others,
    informative,
    project_accesses,
    shared_samples,
)
from trainwright.tools.training_orchestrator import replay_run, start_run
from trainwright.tools.verification import verify_workspace
from trainwright.tools.workspace import Workspace
from trainwright.trainer.base.errors import ApprovalNeededError
from trainwright.trainer.run import RunDirectory, RunKind
from trainwright.trainer.run.evidence import Code
from trainwright.trainer.run.results import TestSetAccess

At = Callable[[str], Workspace]


def to_the_end(workspace: Workspace, project: str) -> None:
    """Take a project from planning to its last gate."""
    for kind, phase in ((RunKind.SMOKE, "planning"), (RunKind.BASELINE, "baseline")):
        finish(workspace, start_run(workspace, project, kind).run_id)
        projects.pass_gate(workspace, project, phase)
    projects.diagnose(workspace, project)
    projects.pass_gate(workspace, project, "diagnostics")
    projects.pass_gate(workspace, project, "optimization")
    final = finish(workspace, start_run(workspace, project, RunKind.FINAL).run_id)
    finish(workspace, replay_run(workspace, project, run_id=final.run_id).run_id)
    finish(workspace, start_run(workspace, project, RunKind.EXPORT).run_id)
    projects.pass_gate(workspace, project, "finalization")


def looked(workspace: Workspace, project: str) -> tuple[dict[str, Any], str]:
    folder = workspace.project_folder(project) / "final_model"
    return json.loads((folder / "metrics.json").read_text()), (folder / "README.md").read_text()


@pytest.mark.requirement("PHASE-6", "GATE-5")
def test_samples_of_another_draw_or_under_other_targets_are_shared_too() -> None:
    own = TestSetAccess(size=3, fingerprint="a", samples=["1", "2", "3"], inputs=["x", "y", "z"])
    assert shared_samples(own, own) == 3
    assert shared_samples(own, TestSetAccess(size=3, fingerprint="b", samples=["3", "4", "5"])) == 1
    assert shared_samples(own, TestSetAccess(size=2, fingerprint="c", samples=["6", "7"], inputs=["x", "y"])) == 2
    assert shared_samples(own, TestSetAccess(size=1, fingerprint="d")) == 0
    placed = [TestSetAccess(size=3, fingerprint=one, source=file, places=[5, 7, int(one)])
              for one, file in (("1", "x"), ("2", "x"), ("1", "y"))]  # fmt: skip
    assert shared_samples(placed[0], placed[1]) == 2, "of the same file, other columns"
    assert shared_samples(placed[0].model_copy(update={"fingerprint": "e"}), placed[2]) == 0, "of another file"


@pytest.mark.timeout(600)
@pytest.mark.requirement("PHASE-6", "GATE-5")
def test_a_second_export_of_a_checkpoint_is_no_further_look_and_one_of_another_checkpoint_is(at: At) -> None:
    workspace = at("exported")
    again = finish(workspace, start_run(workspace, NAME, RunKind.EXPORT, idempotency_key="on purpose").run_id)
    finish(workspace, start_run(workspace, NAME, RunKind.ABLATION, changes={"optimizer.learning_rate": 1e-5}).run_id)
    projects.pass_gate(workspace, NAME, "finalization")
    metrics, card = looked(workspace, NAME)
    assert (metrics["test_looks"], metrics["test_looked_at_by"][0]["run"]) == (1, again.run_id)
    assert f"looked at for one checkpoint alone, by {again.run_id} and 1 earlier export of it" in card
    assert "may have been chosen by it" not in card
    assert "The best of several attempts was chosen on the validation split." in card, "of the ablation too"
    assert "lean towards" not in (projects.project_status(workspace, NAME).reached or "")
    with workspace.session() as session:
        evidence = Evidence(session, workspace, NAME)
        accesses = project_accesses(evidence)
        assert len(accesses) == 2, "what the ledger knows stays"
        other = accesses[0]._replace(of="final-1")
        assert informative(evidence, [other, *accesses]) == [other, accesses[1]._replace(before=1)]
    assert verify_workspace(workspace.path).problems == []


@pytest.mark.requirement("PHASE-6", "GATE-5")
@pytest.mark.parametrize(
    ("state", "figures", "code", "counts"),
    [
        ("failed", [], {}, False),
        ("failed", ["artifacts/final_model/metrics.json"], {}, True),
        ("failed", [], {"net.py": "a"}, True),
        ("completed", ["artifacts/export.json"], {}, True),
        ("interrupted", [], {}, True),
    ],
)
def test_an_export_that_failed_is_no_look_only_where_nothing_could_have_told_its_figures(
    state: str, figures: list[str], code: dict[str, str], counts: bool, tmp_path: Path
) -> None:
    run = RunDirectory(tmp_path)
    run.artifacts.mkdir()
    run.write_evidence(Code(digest="d", files=code))
    digests = dict.fromkeys(["artifacts/test_look.json", *figures], "sha256:0")
    seal = SimpleNamespace(state=state, digests=digests)
    evidence: Any = SimpleNamespace(
        name=NAME,
        facts=SimpleNamespace(seals={"export-1": seal}, evaluations={}),
        workspace=SimpleNamespace(run_directory=lambda *_: run),
    )
    look = SplitAccess("export-1", "final-1", NAME)
    assert bool(informative(evidence, [look])) is counts
    evidence.facts.evaluations["export-1"] = object()
    assert informative(evidence, [look]), "a clean process evaluated its program"


@pytest.mark.timeout(600)
@pytest.mark.requirement("GATE-5", "GATE-7")
def test_rows_keep_their_sides_when_a_column_is_left_out_after_a_release_and_before_one_they_are_free(at: At) -> None:
    workspace, changes = at("planned"), {"data.args.columns": {"petal_length": "ignore"}, "model": {"use": "mlp"}}
    projects.configure(workspace, NAME, changes=changes)
    early = finish(workspace, start_run(workspace, NAME, RunKind.SMOKE).run_id)
    assert "of its test rows" in early.rows
    assert early.planning_closed_by is None, "nothing was evaluated on them"

    workspace = at("finished")
    projects.configure(workspace, NAME, changes=changes, reason="fewer columns", begin_release=True)
    later = finish(workspace, start_run(workspace, NAME, RunKind.SMOKE).run_id)
    assert later.planning_closed_by is None
    assert "of its test rows" not in later.rows, "moved to train"
    assert "test rows of" in later.rows
    assert projects.pass_gate(workspace, NAME, "planning").outcome == "passed"


@pytest.mark.requirement("PHASE-6", "PHASE-8", "GATE-5")
def test_a_project_on_the_same_rows_is_told_of_looks_whose_records_and_whose_project_are_gone(at: At) -> None:
    workspace = at("finished")
    projects.create_project(workspace, "fresh", intent="the same flowers", goal=GOAL, config=CONFIG)
    with workspace.session() as session:
        export = Evidence(session, workspace, NAME).export
        assert export is not None
        same = export.test_access

    def told() -> list[tuple[str, str, int]]:
        with workspace.session() as session:
            found = accesses_by_others(Evidence(session, workspace, "fresh"), same)
        return [(one.run, one.project, one.shared) for one in found]

    assert told() == (looks := [(export.id, NAME, same.size)])
    for name in ("test_look.json", "export.json"):
        (workspace.run_directory(NAME, export.id).artifacts / name).unlink()
    assert told() == looks, "its records are gone, its fingerprint is not"
    delete(workspace)
    assert told() == looks, "of a project that was deleted"


@pytest.mark.requirement("PHASE-6", "GATE-5")
def test_looks_of_a_project_count_whose_file_has_other_columns_in_another_order(at: At) -> None:
    workspace = at("finished")
    code = workspace.path.parent / "code"
    head, *rows = (code / "iris.csv").read_text().splitlines()
    wider = [f"{number * 7 % 97},{row}" for number, row in enumerate(reversed(rows))]
    (code / "other.csv").write_text("\n".join([f"drawn,{head}", *wider]) + "\n")
    config = CONFIG | {"data": CONFIG["data"] | {"args": {"path": "other.csv", "target": "species"}}}
    config |= {"model": {"use": "mlp"}}
    projects.create_project(workspace, "fresh", intent="the same flowers", goal=GOAL, config=config)
    finish(workspace, start_run(workspace, "fresh", RunKind.SMOKE).run_id)
    with workspace.session() as session:
        evidence = Evidence(session, workspace, "fresh")
        assert evidence.smoke is not None
        split = TestSetAccess(**evidence.smoke.data.test.as_dict())
        (look,) = accesses_by_others(evidence, split)
    assert look.project == NAME
    assert 0 < (look.shared or 0) < split.size, "of a file in another order others are tested on"


def delete(workspace: Workspace) -> None:
    """Delete the project, which the owner has to grant."""
    with pytest.raises(ApprovalNeededError) as caught:
        projects.delete_project(workspace, NAME)
    named = caught.value.details["requests"][0]["request"]
    owner.decide(workspace, named, granted=True, by=owner.Grantor.here("terminal", asked=False))
    projects.delete_project(workspace, NAME)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.requirement("PHASE-6", "PHASE-8", "GATE-5")
def test_looks_are_remembered_over_new_gates_deleted_records_and_projects_and_other_draws_of_the_split(at: At) -> None:
    workspace = at("finished")
    first = looked(workspace, NAME)[0]["test_looked_at_by"][0]["run"]
    for name in ("test_look.json", "export.json"):
        (workspace.run_directory(NAME, first).artifacts / name).unlink()
    changes = {"optimizer.learning_rate": 0.03, "data.split.seed": 7}
    projects.configure(workspace, NAME, changes=changes, reason="after seeing the test", begin_release=True)
    smoke = finish(workspace, start_run(workspace, NAME, RunKind.SMOKE).run_id)
    assert smoke.planning_closed_by is None
    assert "of its test rows" not in (smoke.rows or ""), smoke.rows
    to_the_end(workspace, NAME)
    assert looked(workspace, NAME)[0]["test_looks"] == 2
    projects.create_project(workspace, "fresh", intent="the same flowers", goal=GOAL, config=CONFIG)
    to_the_end(workspace, "fresh")
    metrics, card = looked(workspace, "fresh")
    whole, seen = metrics["test"]["size"], metrics["test_looked_at_by"]
    assert [look["project"] for look in seen] == ["fresh", NAME, NAME]
    assert "looked at 3 times" in card
    assert (seen[1]["run"], seen[1]["shared"]) == (first, whole), "its records are gone, its fingerprint is not"
    assert seen[2]["shared"] == whole
    assert f"project {NAME}, {whole} of its samples" in card
    problems = verify_workspace(workspace.path).problems
    assert any(f"{first}: artifacts/test_look.json was removed" in problem for problem in problems), problems
    delete(workspace)
    with workspace.session() as session:
        evidence = Evidence(session, workspace, "fresh")
        assert evidence.export is not None
        left = accesses_by_others(evidence, evidence.export.test_access)
    assert [(one.run, one.project, one.shared) for one in left] == [
        (look["run"], look["project"], look["shared"]) for look in seen[1:]
    ], "of a project that was deleted"
