"""A smoke run that is stopped before it has fixed the rows is made anew: a second attempt has no key to sign them."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from tests.worlds.flowers import NAME, finish

from trainwright.tools import projects
from trainwright.tools.projects import project_status
from trainwright.tools.training_orchestrator import resume_run, start_run, stop_and_follow
from trainwright.tools.workspace import Workspace
from trainwright.trainer.run import RunKind, RunState

pytestmark = [pytest.mark.slow, pytest.mark.requirement("GATE-7")]
At = Callable[[str], Workspace]


def stopped_early(workspace: Workspace) -> str:
    """Stop a smoke run at its first sign of life, before it has read the data; return its id."""
    run_id = start_run(workspace, NAME, RunKind.SMOKE).run_id
    directory = workspace.run_directory(NAME, run_id)
    until = time.monotonic() + 60
    while not directory.events("started") and time.monotonic() < until:
        time.sleep(0.001)
    stop_and_follow(workspace, run_id, project=NAME)
    assert directory.status().state is RunState.STOPPED
    assert directory.evidence("fixed_rows") is None, "it was too late to stop it early"
    return run_id


def test_the_next_call_starts_it_anew_and_not_again(at: At) -> None:
    workspace = at("created")
    stopped_early(workspace)
    call = project_status(workspace, NAME).next
    assert (call.tool, call.arguments["kind"]) == ("start_training", "smoke")
    assert "fixed the rows" in call.why


@pytest.mark.long
def test_one_that_was_resumed_all_the_same_is_repeated_and_the_gate_opens(at: At) -> None:
    workspace = at("created")
    run_id = stopped_early(workspace)
    resume_run(workspace, run_id, project=NAME)
    assert finish(workspace, run_id).state is RunState.COMPLETED
    call = project_status(workspace, NAME).next
    assert (call.tool, call.arguments["kind"]) == ("start_training", "smoke")
    again = start_run(workspace, NAME, RunKind.SMOKE).run_id
    assert again != run_id
    finish(workspace, again)
    assert projects.pass_gate(workspace, NAME, "planning").outcome == "passed"
