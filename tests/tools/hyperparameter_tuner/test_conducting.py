"""Real studies, killed again and again: one after the other with pruning, and side by side in two parts."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.tools.hyperparameter_tuner.conftest import table_of, told

from trainwright.tools.hyperparameter_tuner import StudyView, process, start_study, stop_study, study_status
from trainwright.tools.hyperparameter_tuner.conductor import next_wave
from trainwright.tools.hyperparameter_tuner.follow_run import start_when_there_is_room
from trainwright.tools.hyperparameter_tuner.process import conductor_lock, study_folder
from trainwright.tools.hyperparameter_tuner.trials import COMPLETED, FAILED, PRUNED, TrialRecord
from trainwright.tools.launchers import read_launch
from trainwright.tools.launchers.jobs import is_held
from trainwright.tools.training_orchestrator import wait_for_run
from trainwright.tools.training_orchestrator.resume import STALLED
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.records import get_study, runs_of
from trainwright.trainer.run import RunKind, RunState

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


SEARCH: dict[str, Any] = {
    "trials": 3,
    "space": {
        "optimizer.learning_rate": {"type": "float", "low": 1e-4, "high": 1.0, "log": True},
        "loader.batch_size": {"type": "categorical", "choices": [16, 32]},
    },
    "pruning": {"name": "median", "startup_trials": 2, "warmup_epochs": 1},
}
EPOCHS = 8


@dataclass
class Broken:
    """What the kills left behind."""

    table: list[dict[str, Any]]
    first_run_attempts: int
    runs: int
    run_on: RunState
    """How the worker of the trial that nobody pruned in time ended."""


@pytest.fixture(scope="module")
def studies(module_workspace: Workspace, make_project: Callable[..., str]) -> tuple[str, Broken]:
    """Both studies at once: the id of the one in peace, and what became of the other; no confirmation is waited for."""
    for name in ("peace", "war"):
        make_project(module_workspace, name, training={"epochs": EPOCHS})
    peaceful = start_study(module_workspace, "peace", search=SEARCH).study_id
    broken = go_through_kills(module_workspace)
    conducted(module_workspace, peaceful, SEARCH["trials"])
    return peaceful, broken


def go_through_kills(workspace: Workspace) -> Broken:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(process, "CONDUCTOR", "this")  # a conductor that died before it began
        study_id = start_study(workspace, "war", search=SEARCH).study_id
    (trial,) = next_wave(workspace, study_id)  # one that died between a trial's row and its run,
    first = start_as_the_conductor_would(workspace, study_id, trial)  # and one between the run and noting it
    until_conducted(workspace, study_id)
    while workspace.run_directory("war", first).last_status().step == 0:
        time.sleep(0.005)
    kill(workspace.run_directory("war", first).path, signal.SIGSTOP)  # it must not end before the conductor has gone
    kill_conductor(workspace, study_id)
    kill(workspace.run_directory("war", first).path)
    third = until_trial_runs(workspace, study_id, 2)
    kill_conductor(workspace, study_id)
    while not (view := wait_for_run(workspace, third)).is_ended:  # nobody is there to prune it in time
        pass
    until_conducted(workspace, study_id)
    while study_status(workspace, study_id, 0.2).trials_done < SEARCH["trials"]:
        pass
    kill_conductor(workspace, study_id)
    with workspace.session() as session:
        runs = runs_of(session, "war", RunKind.TRIAL)
        for run in runs_of(session, "war"):
            kill(workspace.run_directory("war", run.id).path)
    attempts = workspace.run_directory("war", first).status().attempt
    trial_runs = [run for run in runs if run.label != "confirmation"]
    return Broken(told(table_of(workspace, study_id)), attempts, len(trial_runs), view.state)


def start_as_the_conductor_would(workspace: Workspace, study_id: str, trial: TrialRecord) -> str:
    with workspace.session() as session:
        base = get_study(session, study_id).base_values
    return start_when_there_is_room(
        workspace,
        "war",
        RunKind.TRIAL,
        base=base,
        changes=trial.parameters,
        study_id=study_id,
        idempotency_key=f"{study_id}/trial-{trial.number}",
        label=f"trial {trial.number}",
    ).run_id


def until_conducted(workspace: Workspace, study_id: str) -> None:
    while not is_held(conductor_lock(study_folder(workspace, "war", study_id))):
        study_status(workspace, study_id, 0.5)


def until_trial_runs(workspace: Workspace, study_id: str, number: int) -> str:
    while True:
        view = study_status(workspace, study_id, 0.2)
        if view.running_trial == number and view.running_run is not None:
            return view.running_run


def kill_conductor(workspace: Workspace, study_id: str) -> None:
    folder = study_folder(workspace, "war", study_id)
    kill(folder)
    with conductor_lock(folder).acquire(timeout=30):  # the kernel lets it go when the process is gone
        pass


def kill(folder: Path, by: signal.Signals = signal.SIGKILL) -> None:
    """Send a signal to the process of a run's or a study's folder, if it lives."""
    launch = read_launch(folder)
    if launch is not None and launch.process is not None and launch.process.is_alive():
        os.kill(launch.process.pid, by)


@pytest.mark.requirement("TUNE-3", "TUNE-5", "TRAIN-10")
def test_a_study_killed_at_every_turn_has_the_same_trials(
    module_workspace: Workspace, studies: tuple[str, Broken]
) -> None:
    peaceful, broken = studies
    assert broken.table == told(table_of(module_workspace, peaceful))
    assert broken.first_run_attempts >= 2  # its worker was killed in the middle, and resumed
    assert broken.runs == SEARCH["trials"]  # no trial was started twice


@pytest.mark.requirement("TUNE-2")
def test_pruning_cuts_runs_short_and_a_late_one_leaves_no_trace(
    module_workspace: Workspace, studies: tuple[str, Broken]
) -> None:
    peaceful, broken = studies
    table = table_of(module_workspace, peaceful)
    assert [trial.state for trial in table[:2]] == [COMPLETED, COMPLETED]
    assert table[2].state == PRUNED
    assert len(table[2].intermediate) < EPOCHS
    assert broken.run_on is RunState.COMPLETED  # it ran all its epochs, and the table shows it as pruned all the same
    status = module_workspace.run_directory("peace", str(table[2].run)).status()
    assert (status.state, status.stop_reason) == (RunState.STOPPED, "pruned")
    assert status.epoch < EPOCHS


WIDE: dict[str, Any] = {
    "trials": 4,
    "width": 2,
    "space": {"optimizer.learning_rate": {"type": "float", "low": 1e-4, "high": 1.0, "log": True}},
    "pruning": {"name": "median", "startup_trials": 2, "warmup_epochs": 1},
}
FIRST = 3
"""Trials of the first part: its last wave is not a whole one."""
HANGS = """
import time

from torch import nn


class Hanging(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.width, self.layer = width, nn.Linear(64, 10)

    def forward(self, x):
        while self.width == 13 and self.training:
            time.sleep(0.1)
        return self.layer(x.flatten(1))


def build(width):
    return Hanging(width)
"""


def conducted(workspace: Workspace, study_id: str, trials: int) -> StudyView:
    """Follow a study until its trials are done, and stop it: its confirmation is another test's matter."""
    while (view := study_status(workspace, study_id, 0.3)).trials_done < trials and not view.is_ended:
        pass
    assert view.failure is None
    return view if view.is_ended else stop_study(workspace, study_id)


@pytest.mark.long
@pytest.mark.requirement("TUNE-3", "TUNE-7", "PHASE-5", "CONF-3")
def test_a_study_in_two_parts_killed_side_by_side_equals_one_trained_trial_after_trial(
    workspace: Workspace, make_project: Callable[..., str]
) -> None:
    make_project(workspace, "turns", training={"epochs": 4}, limits={"runs_at_once": 1})
    make_project(workspace, "parts", training={"epochs": 4})
    alone = start_study(workspace, "turns", search=WIDE).study_id
    conducted(workspace, alone, WIDE["trials"])

    part = start_study(workspace, "parts", search=WIDE | {"trials": FIRST}).study_id
    while None in ((view := study_status(workspace, part, 0.2)).running or {0: None}).values():
        assert not view.is_ended, "its first two trials ran one after the other"
    assert view.running is not None
    assert sorted(view.running) == [0, 1]
    kill(workspace.run_directory("parts", str(view.running[1])).path)
    kill(study_folder(workspace, "parts", part))
    conducted(workspace, part, FIRST)
    whole = start_study(workspace, "parts", search=WIDE).study_id
    assert whole != part
    conducted(workspace, whole, WIDE["trials"])

    expected, found = table_of(workspace, alone), table_of(workspace, whole)
    assert told(found) == told(expected)
    assert told(table_of(workspace, part)) == told(expected)[:FIRST]
    assert [trial.run for trial in found[:FIRST]] == [trial.run for trial in table_of(workspace, part)]
    with workspace.session() as session:
        trained = [run for run in runs_of(session, "parts", RunKind.TRIAL) if run.label != "confirmation"]
    assert len(trained) == WIDE["trials"], "what the first part had trained was not trained again"


@pytest.mark.long
@pytest.mark.requirement("TUNE-5", "TUNE-3")
def test_a_trial_that_hangs_is_resumed_once_and_then_fails_and_the_study_goes_on(
    workspace: Workspace, make_project: Callable[..., str]
) -> None:
    (workspace.path.parent / "hanging.py").write_text(HANGS)
    make_project(workspace, model={"use": "hanging.py:build", "args": {"width": 8}}, training={"epochs": 1})
    widths = {"type": "categorical", "choices": [8, 13]}
    search = {
        "trials": 2, "width": 2, "seed": 1, "method": "random", "space": {"model.args.width": widths},
        "present_first": False, "stalled_seconds": 15.0, "pruning": {"name": "none"},
    }  # fmt: skip
    study_id = start_study(workspace, "digits", search=search).study_id
    conducted(workspace, study_id, 2)
    trials = table_of(workspace, study_id)
    assert [trial.state for trial in trials] == [
        FAILED if trial.parameters["model.args.width"] == 13 else COMPLETED for trial in trials
    ]
    hanging = next(trial for trial in trials if trial.state == FAILED)
    assert hanging.attributes["cause"]["category"] == STALLED
    assert "made no step for 15 s" in hanging.attributes["cause"]["message"]
    assert workspace.run_directory("digits", str(hanging.run)).status().attempt == 2
