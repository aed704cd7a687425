"""Mistakes that teach: smaller work after memory ran out, a data set swapped, jobs launched before one was tried."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import pytest
from tests.worlds.flowers import NAME, finish, train

from trainwright.tools import projects
from trainwright.tools.documents.rendering import render
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.scope import scope_changes
from trainwright.tools.launchers import read_launch
from trainwright.tools.training_orchestrator import start_run, stop_run
from trainwright.tools.workspace import Workspace
from trainwright.trainer.base.errors import ConfigurationError, GateRefusedError
from trainwright.trainer.run import RunKind

At = Callable[[str], Workspace]
TOO_WIDE = 2**44
WHY = "the cluster has no larger machine"


def measured(answer: Any, name: str) -> str:
    return str(next(one.measured for one in answer.checks if one.id == name))


def run_out_of_memory(workspace: Workspace) -> str:
    """Let a smoke run really ask for more than there is; return its id."""
    projects.configure(workspace, NAME, changes={"model.args.width": TOO_WIDE})
    view = finish(workspace, start_run(workspace, NAME, RunKind.SMOKE).run_id)
    assert view.failure is not None
    assert view.failure.category == "out_of_memory", view.failure
    return view.run_id


@pytest.mark.long
@pytest.mark.requirement("ARCH-4", "DIAG-7", "GATE-2")
def test_smaller_work_after_memory_ran_out_is_stated_with_its_reason(at: At) -> None:
    workspace = at("created")
    smaller = {"loader.batch_size": 8, "model.args.width": 16}
    projects.configure(workspace, NAME, changes={"loader.batch_size": 16})  # nobody has to say why before
    run = run_out_of_memory(workspace)
    with pytest.raises(
        ConfigurationError, match=r"samples of an update, .* 16 -> 8; the model, model.args.width"
    ) as told:
        projects.configure(workspace, NAME, changes=smaller)
    assert run in told.value.details["amend"]["reason"]
    same = {"loader.batch_size": 8, "training.accumulation_steps": 2, "training.gradient_checkpointing": None}
    assert projects.configure(workspace, NAME, changes=same).scope_changed is None, "an update is as large as it was"
    told_why = projects.configure(
        workspace, NAME, changes={**smaller, "training.accumulation_steps": 1}, reason=WHY
    ).scope_changed
    assert told_why is not None
    assert len(told_why) == 2
    assert all(line.endswith(f"after {run} ran out of memory ({WHY})") for line in told_why)
    train(workspace, RunKind.SMOKE)
    answer = projects.pass_gate(workspace, NAME, "planning")
    assert answer.outcome == "passed"
    assert all(line in measured(answer, "planning.memory_fits") for line in told_why)
    with workspace.session() as session:
        changes = scope_changes(Evidence(session, workspace, NAME))
    card = render("reports/smaller_work.md.j2", scope_changes=changes)
    assert f"16 -> 8, after {run}: {WHY}" in card
    free = projects.configure(workspace, NAME, changes={"training.epochs": 3, "loader.batch_size": 16})
    assert free.scope_changed is not None
    assert len(free.scope_changed) == 1, "it has completed since: epochs are free, and the batch is what it was"


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.requirement("ARCH-4", "PHASE-6")
def test_the_card_of_a_release_names_the_smaller_work_and_the_changed_data(at: At) -> None:
    workspace = at("smoked")
    table = workspace.path.parent / "code" / "iris.csv"
    table.write_text("\n".join(table.read_text().splitlines()[:-20]) + "\n")
    train(workspace, RunKind.SMOKE)
    run = run_out_of_memory(workspace)
    projects.configure(workspace, NAME, changes={"model.args.width": 8}, reason=WHY)
    for _ in range(20):
        ended = projects.advance(workspace, NAME, 50)
        if ended.ended not in {"wait", "alert"}:
            break
    assert ended.ended == "finished", ended
    card = (workspace.project_folder(NAME) / "final_model" / "README.md").read_text()
    assert f"after {run}: {WHY}" in card
    assert "after v1: the data were changed" in card


@pytest.mark.requirement("PIPE-2", "PHASE-8", "REPRO-4")
def test_a_data_set_swapped_under_a_plan_closes_it_and_is_named_as_another_one(at: At) -> None:
    workspace = at("planned")
    table = workspace.path.parent / "code" / "iris.csv"
    names, *rows = table.read_text().splitlines()
    others = [
        ",".join([f"{float(value) + 0.01:.3f}" for value in row.split(",")[:-1]] + row.split(",")[-1:]) for row in rows
    ]
    table.write_text("\n".join([names, *others]) + "\n")
    with pytest.raises(GateRefusedError, match="data: iris.csv changed"):
        start_run(workspace, NAME, RunKind.BASELINE)
    assert "another data set" in (train(workspace, RunKind.SMOKE).rows or "")
    answer = projects.pass_gate(workspace, NAME, "planning")
    assert "another data set, which compares with no earlier result" in measured(answer, "planning.data_fingerprinted")


@pytest.mark.long
@pytest.mark.requirement("PHASE-2", "GATE-2", "GATE-7")
def test_the_first_run_of_changes_is_tried_before_a_second_is_launched(at: At) -> None:
    workspace = at("diagnosed")
    first = start_run(workspace, NAME, RunKind.ABLATION, changes={"optimizer.learning_rate": 0.05})
    launch = read_launch(workspace.run_directory(NAME, first.run_id).path)
    assert launch is not None
    assert launch.process is not None
    assert launch.process.send_signal(signal.SIGSTOP), "before it has trained a step"
    changes = {"optimizer.learning_rate": 0.1}
    with pytest.raises(GateRefusedError, match="has not trained a step yet") as told:
        start_run(workspace, NAME, RunKind.ABLATION, changes=changes)
    assert told.value.details["next"]["arguments"]["run_id"] == first.run_id
    assert launch.process.send_signal(signal.SIGCONT)
    stop_run(workspace, first.run_id)
    finish(workspace, first.run_id)
    second = start_run(workspace, NAME, RunKind.ABLATION, changes=changes)  # the first has ended: this one is tried
    assert finish(workspace, second.run_id).state == "completed"
