"""Trials whose workers are lost: killed from outside without an end, and by what they do themselves."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.tools.hyperparameter_tuner.conftest import table_of
from tests.worlds.records import Script
from tests.worlds.scripted import Scripted

from trainwright.tools import ledger
from trainwright.tools.hyperparameter_tuner import follow_run, lost_workers, process, start_study, study_status
from trainwright.tools.hyperparameter_tuner.conductor import conduct, next_wave
from trainwright.tools.hyperparameter_tuner.lost_workers import CRASHED, MAX_FAULTS
from trainwright.tools.hyperparameter_tuner.trial_run import carry_out
from trainwright.tools.hyperparameter_tuner.trials import COMPLETED, FAILED, TrialRecord
from trainwright.tools.launchers import Launch, read_launch
from trainwright.tools.training_orchestrator import resume_run
from trainwright.tools.training_orchestrator.observation import Observation
from trainwright.tools.training_orchestrator.resume import ITSELF, OUTSIDE, fault_of
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.tables import Run
from trainwright.trainer.base.exits import EXIT, Exit, read_exit, record_exit
from trainwright.trainer.run import ProcessIdentity, RunState, RunStatus

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

RATE = "optimizer.learning_rate"
SEARCH: dict[str, Any] = {
    "trials": 1,
    "method": "random",
    "space": {RATE: {"type": "float", "low": 1e-4, "high": 1e-3}},
    "pruning": {"name": "none"},
    "present_first": False,
}
FAULTY = """
import ctypes

import torch
from torch import nn


class Faulty(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(64, 10)
        self.register_buffer("seen", torch.zeros(()))  # goes on from a checkpoint, as all that a training depends on

    def forward(self, x):
        if self.training:
            self.seen += 1
            if self.seen > 60:
                ctypes.string_at(0)
        return self.layer(x.flatten(1))
"""


def begun(workspace: Workspace, make_project: Callable[..., str], **config: Any) -> tuple[str, TrialRecord]:
    """Begin a study of one trial, which the test carries out itself."""
    make_project(workspace, training={"epochs": 2}, **config)
    study_id = start_study(workspace, "digits", search=SEARCH).study_id
    (trial,) = next_wave(workspace, study_id)
    return study_id, trial


def deaths(workspace: Workspace) -> list[dict[str, Any]]:
    with workspace.session() as session:
        return [body["died"] for _, body in ledger.entries(session, "digits", "run_resumed") if "died" in body]


def killed(*after: int) -> Script:
    """Kill each of so many workers after these epochs."""
    left = list(after)
    return Script(death=lambda *_: (left.pop(0), -signal.SIGKILL) if left else None)


@pytest.mark.requirement("TUNE-7", "TUNE-5")
def test_a_worker_that_is_killed_from_outside_is_replaced_however_often(
    workspace: Workspace, make_project: Callable[..., str], by_hand: Scripted
) -> None:
    """Twice before it wrote a first record, which raises no attempt, and four times after that."""
    by_hand.script = killed(-1, -1, 0, 0, 1, 1)
    study_id, trial = begun(workspace, make_project)
    carry_out(workspace, study_id, trial)
    (trial,) = table_of(workspace, study_id)
    assert trial.state == COMPLETED, trial.attributes
    assert [death["by"] for death in deaths(workspace)] == [OUTSIDE] * 6
    assert workspace.run_directory("digits", str(trial.run)).status().attempt == 5


@pytest.mark.requirement("TUNE-7", "TUNE-5")
def test_a_trial_that_an_agent_resumes_just_before_the_conductor_does_is_followed(
    workspace: Workspace, make_project: Callable[..., str], by_hand: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_hand.script = killed(0)
    study_id, trial = begun(workspace, make_project)
    require_wanted = follow_run._require_wanted

    def resumed_by_the_agent_too(workspace: Workspace, run: Run) -> None:
        require_wanted(workspace, run)
        resume_run(workspace, run.id)

    monkeypatch.setattr(follow_run, require_wanted.__name__, resumed_by_the_agent_too)
    carry_out(workspace, study_id, trial)
    (trial,) = table_of(workspace, study_id)
    with workspace.session() as session:
        resumed = ledger.entries(session, "digits", "run_resumed")
    assert (trial.state, len(resumed)) == (COMPLETED, 1), trial.attributes


@pytest.mark.long
@pytest.mark.requirement("TUNE-7", "TUNE-5")
def test_a_trial_that_ends_its_own_process_has_failed_after_three_times_at_the_same_checkpoint(
    workspace: Workspace, make_project: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a real worker, whose parent records the signal."""
    (workspace.path.parent / "own.py").write_text(FAULTY)
    monkeypatch.setattr(process, "CONDUCTOR", "this")
    study_id, trial = begun(workspace, make_project, model={"use": "own.py:Faulty"})
    carry_out(workspace, study_id, trial)
    (trial,) = table_of(workspace, study_id)
    cause = trial.attributes["cause"]
    assert (trial.state, cause["category"]) == (FAILED, CRASHED)
    assert "SIGSEGV" in cause["message"]
    died = deaths(workspace)
    assert [death["by"] for death in died] == [ITSELF] * (MAX_FAULTS - 1)
    assert len({death["saved_step"] for death in died}) == 1


@pytest.mark.requirement("TUNE-7", "TUNE-5")
def test_workers_killed_before_they_get_anywhere_halt_the_study_which_goes_on_later(
    workspace: Workspace, make_project: Callable[..., str], by_hand: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_hand.script = killed(0, 0, 0)
    monkeypatch.setattr(lost_workers, "MAX_LOST", 3)
    study_id, _ = begun(workspace, make_project)
    conduct(workspace, study_id)
    view = study_status(workspace, study_id)
    assert (view.state, view.failed) == ("stopped", 0)
    assert view.failure is not None
    assert view.failure["category"] == "interrupted"
    assert "none of which got any further" in view.failure["message"]
    assert view.failure["details"]["next"]["tool"] == "start_tuning"
    assert start_study(workspace, "digits", search=SEARCH).study_id == study_id
    (trial,) = next_wave(workspace, study_id)
    carry_out(workspace, study_id, trial)
    assert [trial.state for trial in table_of(workspace, study_id)] == [COMPLETED]


@pytest.mark.requirement("TUNE-7")
def test_only_what_a_process_does_itself_counts_as_its_fault(tmp_path: Path) -> None:
    faults = {
        Exit(1, -signal.SIGKILL, took_memory=False, at=0.0): None,
        Exit(1, -signal.SIGTERM, took_memory=True, at=0.0): None,
        Exit(1, -signal.SIGKILL, took_memory=True, at=0.0): "for want of memory",
        Exit(1, -signal.SIGABRT, took_memory=False, at=0.0): "SIGABRT",
        Exit(1, 7, took_memory=False, at=0.0): "exit code 7",
        Exit(1, 2, took_memory=False, at=0.0): None,
    }
    for end, said in faults.items():
        found = fault_of(end)
        assert (found is None) if said is None else (found is not None and said in found)
    assert fault_of(None) is None
    record_exit(tmp_path, 5, -11, kills_before=10**9)
    found_end = read_exit(tmp_path)
    assert found_end is not None
    assert found_end[:3] == (5, -11, False)
    (tmp_path / EXIT).write_text("{")
    assert read_exit(tmp_path) is None
    assert read_launch(tmp_path) is None


@pytest.mark.requirement("TUNE-5", "TRAIN-10")
def test_a_worker_that_never_takes_up_its_run_hangs_and_one_that_queues_does_not() -> None:
    status = RunStatus(state=RunState.CREATED)
    mine = Launch(launched_at=1.0, process=ProcessIdentity.of(os.getpid()))
    for launch, hangs in ((mine, True), (Launch(launched_at=1.0), False)):
        watch, seen = follow_run._Watch(0.05), Observation(RunState.CREATED, status, launch)
        assert not watch.hangs(seen)
        time.sleep(0.1)
        assert watch.hangs(seen) is hangs
