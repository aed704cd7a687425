"""Real studies: one left in peace, and one whose conductor and workers are killed again and again, with pruning."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from trainwright.tools.hyperparameter_tuner import process, start_study, stop_study, study_status
from trainwright.tools.hyperparameter_tuner.conductor import next_wave
from trainwright.tools.hyperparameter_tuner.follow_run import start_when_there_is_room
from trainwright.tools.hyperparameter_tuner.process import conductor_lock, study_folder
from trainwright.tools.hyperparameter_tuner.trials import COMPLETED, PRUNED, TrialRecord, trials_of
from trainwright.tools.launchers import read_launch
from trainwright.tools.training_orchestrator import wait_for_run
from trainwright.tools.workspace.records import get_study, runs_of
from trainwright.trainer.run import RunKind, RunState

if TYPE_CHECKING:
    from collections.abc import Callable

    from trainwright.tools.workspace import Workspace

SEARCH: dict[str, Any] = {
    "trials": 3,
    "space": {
        "optimizer.learning_rate": {"type": "float", "low": 1e-4, "high": 1.0, "log": True},
        "loader.batch_size": {"type": "categorical", "choices": [16, 32]},
    },
    "pruning": {"name": "median", "startup_trials": 2, "warmup_epochs": 1},
}
EPOCHS = 8

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]  # the fixture trains a dozen times


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
    until_tried(module_workspace, peaceful)
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
    kill_worker(workspace, first, signal.SIGSTOP)  # it must not end before the conductor has gone
    kill_conductor(workspace, study_id)
    kill_worker(workspace, first)
    third = until_trial_runs(workspace, study_id, 2)
    kill_conductor(workspace, study_id)
    while not (view := wait_for_run(workspace, third)).is_ended:  # nobody is there to prune it in time
        pass
    until_conducted(workspace, study_id)
    until_tried(workspace, study_id, stop=False)
    kill_conductor(workspace, study_id)
    with workspace.session() as session:
        runs = runs_of(session, "war", RunKind.TRIAL)
        for run in runs_of(session, "war"):
            kill_worker(workspace, run.id)
    attempts = workspace.run_directory("war", first).status().attempt
    trial_runs = [run for run in runs if run.label != "confirmation"]
    return Broken(table_of(workspace, study_id), attempts, len(trial_runs), view.state)


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
    while not process.is_conducted(study_folder(workspace, "war", study_id)):
        study_status(workspace, study_id, 0.5)


def until_tried(workspace: Workspace, study_id: str, *, stop: bool = True) -> None:
    """Wait for a study's trials."""
    while not (view := study_status(workspace, study_id, 0.2)).is_ended and view.trials_done < SEARCH["trials"]:
        pass
    if stop and not study_status(workspace, study_id).is_ended:
        stop_study(workspace, study_id)


def until_trial_runs(workspace: Workspace, study_id: str, number: int) -> str:
    while True:
        view = study_status(workspace, study_id, 0.2)
        if view.running_trial == number and view.running_run is not None:
            return view.running_run


def kill_conductor(workspace: Workspace, study_id: str) -> None:
    folder = study_folder(workspace, "war", study_id)
    launch = read_launch(folder)
    assert launch is not None
    assert launch.process is not None
    assert launch.process.send_signal(signal.SIGKILL)
    with conductor_lock(folder).acquire(timeout=30):  # the kernel lets it go when the process is gone
        pass


def kill_worker(workspace: Workspace, run_id: str, by: signal.Signals = signal.SIGKILL) -> None:
    directory = workspace.run_directory("war", run_id)
    launch = read_launch(directory.path)
    if launch is not None and launch.process is not None and launch.process.is_alive():
        os.kill(launch.process.pid, by)


def table_of(workspace: Workspace, study_id: str) -> list[dict[str, Any]]:
    with workspace.session() as session:
        trials = trials_of(session, study_id)
    return [{key: value for key, value in vars(trial).items() if key != "run"} for trial in trials]


@pytest.mark.requirement("TUNE-3", "TUNE-5", "TRAIN-10")
def test_a_study_killed_at_every_turn_has_the_same_trials(
    module_workspace: Workspace, studies: tuple[str, Broken]
) -> None:
    peaceful, broken = studies
    assert broken.table == table_of(module_workspace, peaceful)
    assert broken.first_run_attempts >= 2  # its worker was killed in the middle, and resumed
    assert broken.runs == SEARCH["trials"]  # no trial was started twice


@pytest.mark.requirement("TUNE-2")
def test_pruning_cuts_runs_short_and_a_late_one_leaves_no_trace(
    module_workspace: Workspace, studies: tuple[str, Broken]
) -> None:
    peaceful, broken = studies
    table = table_of(module_workspace, peaceful)
    assert [trial["state"] for trial in table[:2]] == [COMPLETED, COMPLETED]
    assert table[2]["state"] == PRUNED
    assert len(table[2]["intermediate"]) < EPOCHS
    assert broken.run_on is RunState.COMPLETED  # it ran all its epochs, and the table shows it as pruned all the same
    with module_workspace.session() as session:
        run_id = trials_of(session, peaceful)[2].run
    assert run_id is not None
    status = module_workspace.run_directory("peace", run_id).status()
    assert (status.state, status.stop_reason) == (RunState.STOPPED, "pruned")
    assert status.epoch < EPOCHS
