"""Trials whose workers are lost: killed from outside without an end, and by what they do themselves."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING, Any

import pytest

from trainwright.tools import ledger
from trainwright.tools.hyperparameter_tuner import follow_run, lost_workers, process, start_study, study_status
from trainwright.tools.hyperparameter_tuner.conductor import conduct, next_wave
from trainwright.tools.hyperparameter_tuner.lost_workers import CRASHED, MOST_FAULTS
from trainwright.tools.hyperparameter_tuner.trial_run import carry_out
from trainwright.tools.hyperparameter_tuner.trials import COMPLETED, FAILED, TrialRecord, trials_of
from trainwright.tools.launchers import Launch, read_launch
from trainwright.tools.launchers.local import Local
from trainwright.tools.training_orchestrator import resume_run
from trainwright.tools.training_orchestrator.deaths import ITSELF, OUTSIDE, fault_of
from trainwright.tools.training_orchestrator.observation import Observation
from trainwright.trainer.base.exits import EXIT, Exit, read_exit, record_exit
from trainwright.trainer.run import ProcessIdentity, RunState, RunStatus

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from trainwright.tools.workspace import Workspace
    from trainwright.tools.workspace.tables import Run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

SEARCH: dict[str, Any] = {
    "trials": 2,
    "method": "random",
    "seed": 1,
    "space": {"model.args.width": {"type": "categorical", "choices": [8, 13]}},
    "pruning": {"name": "none"},
    "present_first": False,
}
FAULTY = """
import ctypes

import torch
from torch import nn


class Faulty(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.width, self.layer = width, nn.Linear(64, 10)
        self.register_buffer("seen", torch.zeros(()))  # goes on from a checkpoint, as all that a training depends on

    def forward(self, x):
        if self.training:
            self.seen += 1
            if self.width == 13 and self.seen > 60:
                ctypes.string_at(0)
        return self.layer(x.flatten(1))


def build(width):
    return Faulty(width)
"""
KILLED = """
import os
import signal
from pathlib import Path

from torch import nn


def build(width):
    kills = Path(__file__).with_name("kills")
    left = int(kills.read_text())
    if left:
        kills.write_text(str(left - 1))
        os.kill(os.getpid(), signal.SIGKILL)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, width), nn.ReLU(), nn.Linear(width, 10))
"""


@pytest.fixture
def begun(
    workspace: Workspace, make_project: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[str, list[TrialRecord]]]:
    """Begin a study of a model's code, whose trials the test carries out itself."""

    def begin(code: str, **search: Any) -> tuple[str, list[TrialRecord]]:
        (workspace.path.parent / "own.py").write_text(code)
        monkeypatch.setattr(process, "CONDUCTOR", "this")
        make_project(workspace, model={"use": "own.py:build", "args": {"width": 8}}, training={"epochs": 2})
        study_id = start_study(workspace, "digits", search=SEARCH | search).study_id
        return study_id, next_wave(workspace, study_id)

    return begin


def deaths(workspace: Workspace) -> list[dict[str, Any]]:
    with workspace.session() as session:
        return [body["died"] for _, body in ledger.entries(session, "digits", "run_resumed") if "died" in body]


@pytest.mark.requirement("TUNE-7", "TUNE-5")
def test_a_worker_that_is_killed_from_outside_is_replaced_however_often(
    workspace: Workspace, begun: Callable[..., tuple[str, list[TrialRecord]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twice before it wrote a first record, which raises no attempt, and four times after that."""
    (workspace.path.parent / "kills").write_text("4")
    start, sooner = Local.start, [True, True]

    def start_and_kill(own: Local, *order: Any) -> Any:
        launch = start(own, *order)
        if sooner:
            sooner.pop()
            os.kill(launch.process.pid, signal.SIGKILL)
        return launch

    study_id, trials = begun(KILLED, width=2)
    monkeypatch.setattr(Local, start.__name__, start_and_kill)
    carry_out(workspace, study_id, trials[0])
    with workspace.session() as session:
        trial = trials_of(session, study_id)[0]
    assert trial.state == COMPLETED, trial.attributes
    found = deaths(workspace)
    assert len(found) == 6
    assert {death["by"] for death in found} == {OUTSIDE}
    assert workspace.run_directory("digits", str(trial.run)).status().attempt == 5


@pytest.mark.requirement("TUNE-7", "TUNE-5")
def test_a_trial_that_an_agent_resumes_just_before_the_conductor_does_is_followed(
    workspace: Workspace, begun: Callable[..., tuple[str, list[TrialRecord]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    (workspace.path.parent / "kills").write_text("1")
    study_id, (trial, *_) = begun(KILLED)
    require_wanted = follow_run._require_wanted

    def resumed_by_the_agent_too(workspace: Workspace, run: Run) -> None:
        require_wanted(workspace, run)
        resume_run(workspace, run.id)

    monkeypatch.setattr(follow_run, require_wanted.__name__, resumed_by_the_agent_too)
    carry_out(workspace, study_id, trial)
    with workspace.session() as session:
        (trial,) = trials_of(session, study_id)
        resumed = ledger.entries(session, "digits", "run_resumed")
    assert (trial.state, len(resumed)) == (COMPLETED, 1), trial.attributes


@pytest.mark.requirement("TUNE-7", "TUNE-5")
def test_a_trial_that_ends_its_own_process_has_failed_after_three_times_at_the_same_checkpoint(
    workspace: Workspace, begun: Callable[..., tuple[str, list[TrialRecord]]]
) -> None:
    study_id, trials = begun(FAULTY, width=2)
    for trial in trials:
        carry_out(workspace, study_id, trial)
    with workspace.session() as session:
        table = trials_of(session, study_id)
    states = [FAILED if trial.parameters["model.args.width"] == 13 else COMPLETED for trial in table]
    assert [trial.state for trial in table] == states
    assert FAILED in states
    faulty = table[states.index(FAILED)]
    cause = faulty.attributes["cause"]
    assert cause["category"] == CRASHED
    assert "SIGSEGV" in cause["message"]
    died = [death for death in deaths(workspace) if death["by"] == ITSELF]
    assert len(died) == MOST_FAULTS - 1
    assert len({death["saved_step"] for death in died}) == 1


@pytest.mark.requirement("TUNE-7", "TUNE-5")
def test_workers_killed_before_they_get_anywhere_halt_the_study_which_goes_on_later(
    workspace: Workspace, begun: Callable[..., tuple[str, list[TrialRecord]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    (workspace.path.parent / "kills").write_text("3")
    monkeypatch.setattr(lost_workers, "MOST_LOST", 3)
    study_id, _ = begun(KILLED, trials=1)
    conduct(workspace, study_id)
    view = study_status(workspace, study_id)
    assert (view.state, view.failed) == ("stopped", 0)
    assert view.failure is not None
    assert view.failure["category"] == "interrupted"
    assert "none of which got any further" in view.failure["message"]
    assert view.failure["details"]["next"]["tool"] == "start_tuning"
    assert start_study(workspace, "digits", search=SEARCH | {"trials": 1}).study_id == study_id
    (trial,) = next_wave(workspace, study_id)
    carry_out(workspace, study_id, trial)
    with workspace.session() as session:
        (trial,) = trials_of(session, study_id)
    assert trial.state == COMPLETED


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
