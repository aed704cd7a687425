"""Replay of one step by anyone who has the run's folder, against digests that the run's worker signed."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.variants import variants
from tests.worlds.warm import warm

from trainwright.server.commands.replay_step import show_replay
from trainwright.tools import ledger
from trainwright.tools.training_orchestrator import launch, resume_run, start_run, stop_run, wait_for_run
from trainwright.tools.verification import verify_workspace
from trainwright.tools.verification.step_replay import replay_step
from trainwright.tools.workspace import Workspace
from trainwright.trainer.base.canonical import digest_path
from trainwright.trainer.base.errors import ConflictError, IntegrityError
from trainwright.trainer.run import RunDirectory, RunKey, RunKind, RunState, write_atomically
from trainwright.trainer.run.commitments import Commitments, Draw, StepState, draw
from trainwright.trainer.run.key import END, end_record

REPLAYED = {"the first step": slice(1), "every step": slice(None)}
CHANGES = {"training.epochs": 4, "model.args.dropout": 0.3, "checkpoints.checkpoint_every_n_epochs": 1}


@pytest.fixture(scope="module", autouse=True)
def warm_runs() -> Iterator[None]:
    """What a run commits to does not depend on how its interpreter is started."""
    with warm():
        yield


def ended(workspace: Workspace, **changes: Any) -> RunDirectory:
    """Return a baseline of the fixture's project that has trained to its end, and was sealed."""
    run_id = start_run(workspace, "digits", RunKind.BASELINE, changes=CHANGES | changes).run_id
    while not (view := wait_for_run(workspace, run_id)).is_ended:
        pass
    assert view.state is RunState.COMPLETED, view.failure
    return workspace.run_directory("digits", run_id)


def told_of(workspace: Workspace, run: RunDirectory) -> list[str]:
    return [str(problem) for problem in verify_workspace(workspace.path).problems if run.run_id in str(problem)]


@pytest.mark.slow
@pytest.mark.requirement("REPRO-5", "GATE-3")
@pytest.mark.parametrize("steps", variants(REPLAYED, quick=["the first step"]))
def test_a_step_of_a_run_is_replayed_by_a_stranger_and_gives_the_state_that_the_run_has_committed_to(
    workspace: Workspace, capsys: pytest.CaptureFixture[str], steps: str
) -> None:
    run = ended(workspace)
    before = digest_path(run.path)
    made = run.part(Commitments)
    assert made.steps
    assert told_of(workspace, run) == []
    for step in [*made.steps][REPLAYED[steps]]:
        done = replay_step(workspace, run.run_id, int(step))
        assert (done.identical, done.causes) == (True, [])
        assert 1 <= done.steps <= int(step)
    assert max(map(int, made.steps)) == made.draws[0].steps[-1]
    assert digest_path(run.path) == before, "nothing was written into the run"
    assert show_replay(workspace.path, run.run_id, int(step), None)
    assert "are those that the run has committed to" in capsys.readouterr().out
    with pytest.raises(ConflictError, match="has not committed to its state around step 1000"):
        replay_step(workspace, run.run_id, 1000)

    summary = run.artifacts / "commitments.json"
    whole = summary.read_text()
    edited = json.loads(whole)
    edited["steps"][next(iter(edited["steps"]))]["after"] = "blake3:0"
    summary.write_text(json.dumps(edited))
    with pytest.raises(IntegrityError, match="is not as it was sealed"):
        replay_step(workspace, run.run_id, int(next(iter(edited["steps"]))))
    assert told_of(workspace, run)
    summary.unlink()
    assert told_of(workspace, run)


@pytest.mark.long
@pytest.mark.requirement("REPRO-5", "TRAIN-10")
def test_a_run_that_was_stopped_and_resumed_commits_in_both_attempts(workspace: Workspace) -> None:
    changes = {"training.epochs": 12, "early_stopping.enabled": False, "logging.tensorboard": False}
    run_id = start_run(workspace, "digits", RunKind.BASELINE, changes=CHANGES | changes).run_id
    run = workspace.run_directory("digits", run_id)
    while run.last_status().step < 30:
        assert not run.status().state.is_ended, run.status()
        time.sleep(0.002)
    stop_run(workspace, run_id)
    while not (view := wait_for_run(workspace, run_id)).is_ended:
        pass
    assert view.state is RunState.STOPPED, "it was stopped in time"
    resume_run(workspace, run_id)
    while not (view := wait_for_run(workspace, run_id)).is_ended:
        pass
    assert (view.state, view.attempt) == (RunState.COMPLETED, 2)
    made = run.part(Commitments)
    assert len(made.draws) == 2
    assert {str(step) for step in made.draws[1].steps} <= made.steps.keys()
    assert made.draws[1].first > 0
    assert told_of(workspace, run) == []
    later = replay_step(workspace, run_id, made.draws[1].steps[-1])
    assert later.identical, later.causes


@pytest.mark.slow
@pytest.mark.requirement("REPRO-5", "GATE-3")
@pytest.mark.parametrize("edit", variants(["digest", "draw", "nothing left"], quick=["digest", "draw"]))
def test_commitments_that_were_edited_and_signed_anew_are_found(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, edit: str
) -> None:
    made: list[RunKey] = []
    new = RunKey.new
    monkeypatch.setattr(launch.RunKey, "new", lambda: made.append(new()) or made[-1])
    sealing: Callable[..., Any] = ledger.digests_to_seal

    def edited(directory: RunDirectory, *arguments: Any) -> Any:
        """Edit what the worker has signed in the moment before it is sealed."""
        path, key = directory.artifacts / "commitments.json", made[0]
        value = json.loads(path.read_text())
        if edit == "digest":
            for state in value["steps"].values():
                state["after"] = state["before"]
        elif edit == "draw":
            value["draws"][0]["proof"] = new().sign("another")
        path.write_text(json.dumps({} if edit == "nothing left" else value))
        write_atomically(
            directory.path / END, end_record(directory, (directory.path / "status.json").read_bytes(), key)
        )
        return sealing(directory, *arguments)

    monkeypatch.setattr(ledger, "digests_to_seal", edited)
    run = ended(workspace, **{"training.epochs": 1})
    if edit != "digest":
        assert any("steps to be replayed were not drawn by its key" in told for told in told_of(workspace, run))
        return
    assert told_of(workspace, run) == [], "only a replay can tell"
    step = int(next(iter(run.part(Commitments).steps)))
    done = replay_step(workspace, run.run_id, step)
    assert not done.identical
    assert done.causes


@pytest.mark.requirement("REPRO-5")
def test_steps_are_drawn_by_the_runs_key_alone_and_one_of_them_is_early() -> None:
    key, other = RunKey.new(), RunKey.new()
    made = draw(key, "run-1", first=0, last=1000)
    assert made.is_of("run-1", key.public)
    assert not made.is_of("run-2", key.public)
    assert not made.is_of("run-1", other.public)
    draws = [draw(RunKey.new(), "run-1", first=0, last=1000).steps for _ in range(100)]
    assert len({tuple(steps) for steps in draws}) > 90
    assert all(1 <= steps[0] <= 100 and steps[-1] <= 1000 for steps in draws)
    assert Draw(proof="x", first=0, last=1).steps == [1]
    assert Draw(proof="x", first=5, last=6).steps == []
    assert min(Draw(proof=str(n), first=5, last=60).steps[0] for n in range(100)) == 7


@pytest.mark.requirement("GATE-3")
def test_commitments_that_leave_out_a_drawn_step_or_a_part_of_the_plan_are_named() -> None:
    key = RunKey.new()
    made = draw(key, "run-1", first=0, last=10)
    states = {str(step): StepState(before="a", after="b") for step in made.steps}
    whole = Commitments(draws=[made], steps=states)
    assert whole.problem("run-1", key.public, 10) is None
    assert Commitments(draws=[made]).problem("run-1", key.public, 0) is None, "it ended before the first of them"
    assert "around step" in str(Commitments(draws=[made]).problem("run-1", key.public, 10))
    assert "were drawn from 10" in str(whole.problem("run-1", key.public, 11))
    assert "not drawn by its key" in str(whole.problem("run-1", RunKey.new().public, 10))
    assert "not drawn by its key" in str(Commitments().problem("run-1", key.public, 10))
