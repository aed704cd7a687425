"""Disk comes back: weights go by a plan that was shown first, their record stays, and `verify` stays whole (CKPT-4)."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.tools.killed_server import call_and_die, die
from tests.worlds.flowers import CONFIG, GOAL, NAME, World, finish, train
from typer.testing import CliRunner

from trainwright.server.cli import app
from trainwright.server.context import AppContext
from trainwright.tools import projects
from trainwright.tools.checkpoint_manager import pruning
from trainwright.tools.checkpoint_manager.pruning import prune
from trainwright.tools.ledger import append
from trainwright.tools.training_orchestrator import replay_run, start_run
from trainwright.tools.verification import verify_workspace
from trainwright.tools.workspace import RetentionPolicy, Workspace
from trainwright.trainer.base.errors import ConflictError
from trainwright.trainer.checkpoints.index import WEIGHTS, has_weights, list_checkpoints
from trainwright.trainer.run import RunKind

pytestmark = pytest.mark.requirement("CKPT-4")
Open = Callable[[str], Workspace]


def weights(workspace: Workspace) -> dict[str, list[str]]:
    """Checkpoints that have their weights, by run."""
    folder = workspace.project_folder(NAME) / "runs"
    runs = sorted(path.name for path in folder.iterdir())
    found = {run: list_checkpoints(workspace.run_directory(NAME, run)) for run in runs}
    return {run: [one.name for one in records if has_weights(one.path)] for run, records in found.items()}


@pytest.fixture(scope="module", autouse=True)
def superseded_stage(flowers: World) -> None:
    """Make a stage of its own, once: a baseline whose configuration was replaced, with a baseline of the new one."""
    flowers.set_back("based")
    workspace = Workspace.open(flowers.workspace)
    projects.configure(workspace, NAME, changes={"optimizer.learning_rate": 0.05})
    train(workspace, RunKind.SMOKE)
    projects.pass_gate(workspace, NAME, "planning")
    train(workspace, RunKind.BASELINE)
    projects.pass_gate(workspace, NAME, "baseline")
    workspace.close()
    flowers.keep("superseded")


def confirmed(workspace: Workspace, policy: RetentionPolicy | None = None) -> pruning.PruneAnswer:
    return prune(workspace, NAME, policy, confirm=prune(workspace, NAME, policy).plan)


def test_a_dry_run_deletes_nothing_and_names_the_call_that_does(at: Open) -> None:
    workspace = at("superseded")
    before = weights(workspace)
    shown = prune(workspace, NAME)
    assert weights(workspace) == before
    assert not shown.deleted
    assert shown.checkpoints > 0
    assert shown.next is not None
    assert (shown.next.tool, shown.next.arguments["confirm"]) == ("prune_checkpoints", shown.plan)


def test_superseded_weights_go_and_verify_stays_whole(at: Open) -> None:
    workspace = at("superseded")
    before = sum(path.stat().st_size for path in workspace.path.rglob("*.safetensors"))
    done = confirmed(workspace)
    after = sum(path.stat().st_size for path in workspace.path.rglob("*.safetensors"))
    assert before - after == done.freed_bytes > 0
    assert after == done.kept_bytes
    assert verify_workspace(workspace.path).problems == []
    assert projects.project_status(workspace, NAME).phase == "diagnostics"  # type: ignore[union-attr]
    assert prune(workspace, NAME).checkpoints == 0


def test_what_gates_and_releases_depend_on_is_never_offered(at: Open) -> None:
    workspace = at("finished")
    before = {run: records for run, records in weights(workspace).items() if records}
    tagged = {
        run: [r.name for r in list_checkpoints(workspace.run_directory(NAME, run)) if {"best", "last"} & set(r.tags)]
        for run in before
        if run.startswith(("baseline", "final", "replay"))
    }
    confirmed(workspace)
    after = weights(workspace)
    assert tagged
    assert all(set(names) <= set(after[run]) for run, names in tagged.items())
    assert verify_workspace(workspace.path).problems == []
    assert projects.project_status(workspace, NAME).finished  # type: ignore[union-attr]


def test_a_run_that_another_project_begins_from_is_never_offered(at: Open) -> None:
    workspace = at("superseded")
    run_id = prune(workspace, NAME).runs[0].run_id
    code = workspace.path.parent / "code"
    (code / "runs").symlink_to(workspace.project_folder(NAME) / "runs")
    weights_of = next((code / "runs" / run_id).rglob("model.safetensors")).relative_to(code)
    teacher = {"weights": str(weights_of), "use": "flower_model.py:Net", "args": {"width": 16}}
    pupil = {**CONFIG, "objective": {"name": "distillation", "teacher": teacher}}
    projects.create_project(workspace, "pupil", intent="", goal=GOAL, config=pupil)
    assert run_id not in {line.run_id for line in prune(workspace, NAME).runs}


def test_the_policy_keeps_the_last_the_best_and_every_nth(at: Open) -> None:
    workspace = at("superseded")
    everything = prune(workspace, NAME).checkpoints
    kept_last = prune(workspace, NAME, RetentionPolicy(keep_last=1)).checkpoints
    kept_all = prune(workspace, NAME, RetentionPolicy(keep_last=99)).checkpoints
    every_fifth = prune(workspace, NAME, RetentionPolicy(keep_every_n_epochs=5)).checkpoints
    kept_best = prune(workspace, NAME, RetentionPolicy(keep_best=1)).checkpoints
    assert kept_all == 0
    assert max(kept_last, every_fifth, kept_best) < everything


def test_a_budget_prunes_no_further_than_needed(at: Open) -> None:
    workspace = at("superseded")
    whole = prune(workspace, NAME)
    present = whole.freed_bytes + whole.kept_bytes
    assert prune(workspace, NAME, RetentionPolicy(budget_bytes=present)).checkpoints == 0
    little = prune(workspace, NAME, RetentionPolicy(budget_bytes=present - 1))
    assert little.checkpoints == 1 < whole.checkpoints


def test_an_agent_keeps_at_least_what_the_owner_keeps() -> None:
    owner = RetentionPolicy(keep_last=2, keep_every_n_epochs=5)
    assert RetentionPolicy(keep_best=1).at_least(owner) == RetentionPolicy(
        keep_last=2, keep_best=1, keep_every_n_epochs=5
    )


def test_another_plan_than_the_one_that_was_shown_is_not_carried_out(at: Open) -> None:
    workspace = at("superseded")
    before = weights(workspace)
    with pytest.raises(ConflictError, match="is not what would be deleted now"):
        prune(workspace, NAME, confirm="plan-0123456789ab")
    assert weights(workspace) == before


def test_a_damaged_checkpoint_stays_and_is_named(at: Open) -> None:
    workspace = at("superseded")
    shown = prune(workspace, NAME)
    records = list_checkpoints(workspace.run_directory(NAME, shown.runs[0].run_id))
    path = next(record.path for record in records if has_weights(record.path)) / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"\0")
    done = confirmed(workspace)
    assert path.exists()
    assert done.damaged
    assert any(path.parent.name in problem for problem in verify_workspace(workspace.path).problems)


def test_a_pruned_run_is_neither_repeated_nor_taken_for_a_baseline(at: Open) -> None:
    workspace = at("superseded")
    old = next(line.run_id for line in prune(workspace, NAME).runs if line.kind == "baseline")
    confirmed(workspace)
    with pytest.raises(ConflictError, match="were pruned"):
        replay_run(workspace, NAME, run_id=old)


def test_a_tombstone_of_what_a_gate_depends_on_is_named(at: Open) -> None:
    workspace = at("finished")
    run = next(run for run in weights(workspace) if run.startswith("baseline"))
    record = list_checkpoints(workspace.run_directory(NAME, run))[-1]
    for name in WEIGHTS:
        (record.path / name).unlink()
    stone = {"run_id": run, "name": record.name, "step": record.step, "digest": record.digest, "files": {}, "why": ""}
    with workspace.session() as session:
        append(session, NAME, "pruned", {"plan": "", "policy": {}, "checkpoints": [stone]})
    assert any("which a gate depends on" in problem for problem in verify_workspace(workspace.path).problems)


def test_weights_deleted_without_a_tombstone_are_named(at: Open) -> None:
    workspace = at("superseded")
    confirmed(workspace, RetentionPolicy(keep_last=1))
    run, names = next((run, names) for run, names in weights(workspace).items() if names)
    (workspace.run_directory(NAME, run).checkpoints / names[-1] / "model.safetensors").unlink()
    assert any("model.safetensors cannot be read" in problem for problem in verify_workspace(workspace.path).problems)


def dies_before_deleting(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(pruning, "_delete", die)


def test_a_server_killed_between_tombstone_and_deletion_is_finished_by_the_next(at: Open) -> None:
    workspace = at("superseded")
    plan = prune(workspace, NAME)
    path = workspace.path
    call_and_die(dies_before_deleting, lambda: prune(Workspace.open(path), NAME, confirm=plan.plan))
    assert verify_workspace(path).problems == []
    app = AppContext(path)
    app.workspace()
    app.close()
    assert sum(map(len, weights(workspace).values())) > 0
    assert prune(workspace, NAME).checkpoints == 0
    assert verify_workspace(path).problems == []


def test_the_owner_sees_a_plan_first_on_the_command_line(at: Open) -> None:
    workspace = at("superseded")
    before = weights(workspace)
    shown = CliRunner().invoke(app, ["prune", "--workspace", str(workspace.path)])
    assert shown.exit_code == 0, shown.output
    assert "Nothing was deleted" in shown.output
    assert weights(workspace) == before
    done = CliRunner().invoke(app, ["prune", NAME, "--workspace", str(workspace.path), "--yes"])
    assert done.exit_code == 0, done.output
    assert "deleted" in done.output
    assert weights(workspace) != before


def test_a_run_that_met_a_full_disk_leads_to_pruning_and_then_goes_on(
    at: Open,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    workspace = at("created")
    code = workspace.path.parent / "code" / "flower_model.py"
    code.write_text(code.read_text().replace("import torch\n", LIMITED, 1))
    projects.configure(workspace, NAME, changes={"model.args.width": 20_000})
    failed = finish(workspace, start_run(workspace, NAME, RunKind.SMOKE).run_id)
    assert failed.failure.category == "storage", failed.failure
    status = projects.project_status(workspace, NAME)
    free = shutil.disk_usage(workspace.path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: free._replace(free=0))
    full = projects.project_status(workspace, NAME)
    assert status.next is not None  # type: ignore[union-attr]
    assert full.next is not None  # type: ignore[union-attr]
    assert full.next.tool == "prune_checkpoints"  # type: ignore[union-attr]
    assert "MiB that it takes to go on" in full.next.why  # type: ignore[union-attr]
    assert status.next.tool == "resume_training"  # type: ignore[union-attr]


LIMITED = """
import resource
import signal

import torch

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, resource.RLIM_INFINITY))
"""
"""Files over 400 kB cannot be written: what a worker meets on a full disk, without filling this one."""


def test_the_settings_hold_a_retention_policy(at: Open, tmp_path: Path) -> None:
    workspace = at("based")
    settings = workspace.path / "settings.yaml"
    settings.write_text(settings.read_text() + "retention: {keep_last: 2}\n")
    assert workspace.refreshed().settings.retention == RetentionPolicy(keep_last=2)
