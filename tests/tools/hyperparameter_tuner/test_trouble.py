"""Studies that fail, and studies that are stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psutil
import pytest
from tests.worlds.records import Script

from trainwright.tools import ledger
from trainwright.tools.hyperparameter_tuner import process, start_study, stop, stop_study, study_status
from trainwright.tools.hyperparameter_tuner.conductor import conduct, next_wave
from trainwright.tools.hyperparameter_tuner.confirmation import confirm
from trainwright.tools.hyperparameter_tuner.process import MOST_LAUNCHES, study_folder
from trainwright.tools.hyperparameter_tuner.trial_run import carry_out
from trainwright.tools.launchers import Launch, read_launch, write_launch
from trainwright.tools.launchers.local import Local
from trainwright.tools.training_orchestrator import refresh_run, start_run, wait_for_run
from trainwright.tools.verification import verify_workspace
from trainwright.tools.workspace.records import runs_of
from trainwright.trainer.base.errors import ConflictError
from trainwright.trainer.run import Failure, RunKind, RunState

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.worlds.scripted import Scripted

    from trainwright.tools.workspace import Workspace

pytestmark = pytest.mark.slow

RATE = {"type": "float", "low": 1e-3, "high": 1e-2, "log": True}
SEARCH: dict[str, Any] = {"trials": 4, "space": {"optimizer.learning_rate": RATE}, "pruning": {"name": "none"}}
UNLUCKY = Failure(category="user_code", message="thirteen is unlucky", remedy="Take another.")


@pytest.mark.requirement("TUNE-5")
@pytest.mark.parametrize(
    "ending",
    [
        (2, 2, "None of the study's 2 trials completed, so there is no best configuration. The last one: thirteen is"),
        (9, 3, "The first 3 trials all failed for the same cause (user_code): thirteen is unlucky"),
    ],
)
def test_a_study_whose_trials_all_fail_ends_with_the_cause_and_one_whose_first_fail_alike_ends_there(
    workspace: Workspace, make_project: Callable[..., str], launcher: Scripted, ending: tuple[int, int, str]
) -> None:
    trials, tried, said = ending
    launcher.script = Script(failure=lambda _: UNLUCKY)
    make_project(workspace)
    study_id = start_study(workspace, "digits", search=SEARCH | {"trials": trials}).study_id
    launcher.wait()
    view = study_status(workspace, study_id)
    assert (view.state, view.trials_done, view.failed) == ("failed", tried, tried)
    assert view.failure is not None
    assert said in view.failure["message"]
    remedy = UNLUCKY.remedy if tried < trials else f"tuning_status(study_id='{study_id}', detail='full')"
    assert remedy in view.failure["remedy"]


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
@pytest.mark.usefixtures("by_hand")
def test_a_stop_between_two_steps_of_the_conductor_holds(
    workspace: Workspace, make_project: Callable[..., str]
) -> None:
    """Its conductor looked whether the study goes on, and the stop came before it went on to write or order."""
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
