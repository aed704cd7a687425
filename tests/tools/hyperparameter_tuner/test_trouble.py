"""Studies that fail, and studies that are stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psutil
import pytest

from trainwright.tools import ledger
from trainwright.tools.hyperparameter_tuner import process, start_study, stop, stop_study, study_status
from trainwright.tools.hyperparameter_tuner.conductor import conduct, next_wave
from trainwright.tools.hyperparameter_tuner.confirmation import confirm
from trainwright.tools.hyperparameter_tuner.process import MOST_LAUNCHES, study_folder
from trainwright.tools.hyperparameter_tuner.trial_run import carry_out
from trainwright.tools.hyperparameter_tuner.trials import COMPLETED, FAILED, trials_of
from trainwright.tools.launchers import Launch, read_launch, write_launch
from trainwright.tools.launchers.local import Local
from trainwright.tools.training_orchestrator import refresh_run, start_run, wait_for_run
from trainwright.tools.verification import verify_workspace
from trainwright.tools.workspace.records import runs_of
from trainwright.trainer.base.errors import ConflictError
from trainwright.trainer.run import RunKind, RunState

if TYPE_CHECKING:
    from collections.abc import Callable

    from trainwright.tools.workspace import Workspace

pytestmark = pytest.mark.slow

RATE = {"type": "float", "low": 1e-3, "high": 1e-2, "log": True}
SEARCH: dict[str, Any] = {"trials": 4, "space": {"optimizer.learning_rate": RATE}, "pruning": {"name": "none"}}
MODEL = """
from torch import nn


def build(width):
    if width in {13, 26}:
        raise ValueError("thirteen is unlucky")
    return nn.Sequential(nn.Flatten(), nn.Linear(64, width), nn.ReLU(), nn.Linear(width, 10))
"""


def make_unlucky_project(workspace: Workspace, make_project: Callable[..., str]) -> None:
    (workspace.path.parent / "unlucky.py").write_text(MODEL)
    model = {"use": "unlucky.py:build", "args": {"width": 8}}
    make_project(workspace, model=model, training={"epochs": 1})


@pytest.mark.requirement("TUNE-5")
def test_a_failed_trial_counts_and_the_study_goes_on(workspace: Workspace, make_project: Callable[..., str]) -> None:
    make_unlucky_project(workspace, make_project)
    widths = {"type": "categorical", "choices": [8, 13]}
    search = SEARCH | {
        "trials": 2,
        "seed": 1,
        "method": "random",
        "present_first": False,
        "space": {"model.args.width": widths},
    }
    study_id = start_study(workspace, "digits", search=search).study_id
    while (view := study_status(workspace, study_id, 0.5)).state == "running":
        pass
    if view.state == "confirming":
        view = stop_study(workspace, study_id)
    with workspace.session() as session:
        trials = trials_of(session, study_id)
    states = [trial.state for trial in trials]
    assert states == [FAILED if trial.parameters["model.args.width"] == 13 else COMPLETED for trial in trials]
    assert set(states) == {FAILED, COMPLETED}
    cause = next(trial for trial in trials if trial.state == FAILED).attributes["cause"]
    assert cause["category"] == "user_code"
    assert "thirteen is unlucky" in cause["message"]


@pytest.mark.requirement("TUNE-5")
def test_a_study_whose_first_trials_all_fail_alike_ends_with_the_cause(
    workspace: Workspace, make_project: Callable[..., str]
) -> None:
    make_unlucky_project(workspace, make_project)
    widths = {"type": "categorical", "choices": [13, 26]}
    study_id = start_study(
        workspace, "digits", search=SEARCH | {"trials": 9, "space": {"model.args.width": widths}}
    ).study_id
    while not (view := study_status(workspace, study_id, 50)).is_ended:
        pass
    assert (view.state, view.trials_done, view.failed) == ("failed", 3, 3)
    assert view.failure is not None
    assert "thirteen is unlucky" in view.failure["message"]


@pytest.mark.requirement("TUNE-5", "TRAIN-10")
def test_a_stopped_study_goes_on_with_the_run_it_left(workspace: Workspace, make_project: Callable[..., str]) -> None:
    make_project(workspace, training={"epochs": 60})
    study_id = start_study(workspace, "digits", search=SEARCH).study_id
    while (run_id := study_status(workspace, study_id, 0.2).running_run) is None:
        pass
    while wait_for_run(workspace, run_id, after_step=0).step == 0:
        pass
    assert stop_study(workspace, study_id).state == "stopped"
    while not (left := wait_for_run(workspace, run_id)).is_ended:
        pass
    assert (left.state, left.stop_reason) == (RunState.STOPPED, "study_stopped")
    last = read_launch(study_folder(workspace, "digits", study_id))
    assert last is not None
    assert last.process is not None
    psutil.wait_procs([psutil.Process(last.process.pid)] if last.process.is_alive() else [])
    with pytest.raises(ConflictError, match="nothing to stop"):
        stop_study(workspace, study_id)

    again = start_study(workspace, "digits", search=SEARCH)
    assert (again.study_id, again.state) == (study_id, "running")
    while refresh_run(workspace, run_id).step <= left.step:
        study_status(workspace, study_id, 0.2)
    assert refresh_run(workspace, run_id).attempt == 2
    stop_study(workspace, study_id)
    while not wait_for_run(workspace, run_id).is_ended:
        pass


@pytest.mark.requirement("TUNE-5", "GATE-4")
def test_a_stop_between_two_steps_of_the_conductor_holds(
    workspace: Workspace, make_project: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its conductor looked whether the study goes on, and the stop came before it went on to write or order."""
    monkeypatch.setattr(process, "CONDUCTOR", "this")
    make_project(workspace)
    study_id = start_study(workspace, "digits", search=SEARCH).study_id
    (trial,) = next_wave(workspace, study_id)
    stop_study(workspace, study_id)
    for step in (lambda: confirm(workspace, study_id), lambda: carry_out(workspace, study_id, trial)):
        with pytest.raises(ConflictError, match=f"Study {study_id} is stopped; nothing more is started for it"):
            step()
    conduct(workspace, study_id)
    assert study_status(workspace, study_id).state == "stopped"
    with workspace.session() as session:
        assert runs_of(session, "digits") == []
        states = [body["state"] for _, body in ledger.entries(session, "digits", "study")]
    assert states == ["running", "stopped"]


@pytest.mark.requirement("TUNE-5", "GATE-4")
def test_a_trial_ordered_just_before_the_stop_is_stopped_too(
    workspace: Workspace, make_project: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "CONDUCTOR", "this")
    make_project(workspace, training={"epochs": 60})
    study_id = start_study(workspace, "digits", search=SEARCH).study_id
    held: list[Callable[[], Any]] = []
    start = Local.start
    monkeypatch.setattr(Local, start.__name__, lambda *order: held.append(lambda: start(*order)))
    run_id = start_run(workspace, "digits", RunKind.TRIAL, study_id=study_id).run_id
    monkeypatch.setattr(stop.time, "sleep", lambda seconds: held.pop()() if held else None)
    assert stop_study(workspace, study_id).state == "stopped"
    assert not held, "its process began only after it had been asked to stop"
    monkeypatch.undo()
    while not wait_for_run(workspace, run_id).is_ended:
        pass
    assert refresh_run(workspace, run_id).state in {RunState.STOPPED, RunState.INTERRUPTED}


def test_a_study_that_keeps_losing_its_conductor_is_stopped_with_what_it_said(
    workspace: Workspace, make_project: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "CONDUCTOR", "this")
    make_project(workspace)
    study_id = start_study(workspace, "digits", search=SEARCH).study_id
    folder = study_folder(workspace, "digits", study_id)
    first = read_launch(folder)
    assert first is not None
    assert first.process is not None
    while first.process.is_alive():
        pass
    write_launch(folder, Launch(attempt=MOST_LAUNCHES, launched_at=0.0))
    study_status(workspace, study_id)
    view = study_status(workspace, study_id)
    assert view.state == "stopped"
    assert view.failure is not None
    assert f"lost {MOST_LAUNCHES} conductor processes, and got no further" in view.failure["message"]
    assert "Namespaces are one honking great idea" in view.failure["message"]
    assert [told for told in verify_workspace(workspace.path).problems if study_id in told] == []
    with workspace.session() as session:
        assert ledger.entries(session, "digits", "study")[-1][1]["failure"] == view.failure
    assert start_study(workspace, "digits", search=SEARCH).study_id == study_id
