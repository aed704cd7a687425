"""Studies that fail, that are stopped, and that meet bad circumstances: a full disk, a limit, lost conductors."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from typing import Any

import psutil
import pytest
import yaml
from tests.tools.hyperparameter_tuner.conftest import table_of
from tests.worlds.records import Script
from tests.worlds.scripted import Scripted

from trainwright.tools import ledger
from trainwright.tools.hyperparameter_tuner import process, start_study, stop, stop_study, study_status
from trainwright.tools.hyperparameter_tuner.conductor import conduct, next_wave
from trainwright.tools.hyperparameter_tuner.confirmation import confirm
from trainwright.tools.hyperparameter_tuner.process import MAX_LAUNCHES, ensure_conductor, study_folder
from trainwright.tools.hyperparameter_tuner.trial_run import carry_out
from trainwright.tools.hyperparameter_tuner.trials import COMPLETED, side_by_side
from trainwright.tools.launchers import Launch, read_launch, write_launch
from trainwright.tools.launchers.local import Local
from trainwright.tools.limits.reservation import WALL_CLOCK
from trainwright.tools.training_orchestrator import refresh_run, start_run, wait_for_run
from trainwright.tools.verification import verify_workspace
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.records import get_run, runs_of
from trainwright.tools.workspace.tables import Trial
from trainwright.trainer.base.errors import ConflictError
from trainwright.trainer.run import Failure, RunKind, RunState

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


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
    digits: Workspace, launcher: Scripted, ending: tuple[int, int, str]
) -> None:
    trials, tried, said = ending
    launcher.script = Script(failure=lambda _: UNLUCKY)
    study_id = start_study(digits, "digits", search=SEARCH | {"trials": trials}).study_id
    launcher.wait()
    view = study_status(digits, study_id)
    assert (view.state, view.trials_done, view.failed) == ("failed", tried, tried)
    assert view.failure is not None
    assert said in view.failure["message"]
    remedy = UNLUCKY.remedy if tried < trials else f"tuning_status(study_id='{study_id}', detail='full')"
    assert remedy in view.failure["remedy"]


@pytest.mark.long
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
def test_a_stop_between_two_steps_of_the_conductor_holds(digits: Workspace) -> None:
    """Its conductor looked whether the study goes on, and the stop came before it went on to write or order."""
    study_id = start_study(digits, "digits", search=SEARCH).study_id
    (trial,) = next_wave(digits, study_id)
    stop_study(digits, study_id)
    for step in (lambda: confirm(digits, study_id), lambda: carry_out(digits, study_id, trial)):
        with pytest.raises(ConflictError, match=f"Study {study_id} is stopped; nothing more is started for it"):
            step()
    conduct(digits, study_id)
    assert study_status(digits, study_id).state == "stopped"
    with digits.session() as session:
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
    digits: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "CONDUCTOR", "this")
    study_id = start_study(digits, "digits", search=SEARCH).study_id
    folder = study_folder(digits, "digits", study_id)
    first = read_launch(folder)
    assert first is not None
    assert first.process is not None
    while first.process.is_alive():
        pass
    write_launch(folder, Launch(attempt=MAX_LAUNCHES, launched_at=0.0))
    study_status(digits, study_id)
    view = study_status(digits, study_id)
    assert view.state == "stopped"
    assert view.failure is not None
    assert f"lost {MAX_LAUNCHES} conductor processes, and got no further" in view.failure["message"]
    assert "Namespaces are one honking great idea" in view.failure["message"]
    assert [told for told in verify_workspace(digits.path).problems if study_id in told] == []
    with digits.session() as session:
        assert ledger.entries(session, "digits", "study")[-1][1]["failure"] == view.failure
    assert start_study(digits, "digits", search=SEARCH).study_id == study_id


SHORT: dict[str, Any] = {
    "trials": 2,
    "method": "random",
    "seed": 1,
    "space": {"optimizer.learning_rate": {"type": "float", "low": 1e-4, "high": 1e-3}},
    "pruning": {"name": "none"},
    "present_first": False,
}
FULL = Failure(category="storage", message="No space left on device", remedy="Free some.")


@pytest.mark.requirement("TUNE-5", "TUNE-7")
def test_a_disk_that_fills_up_stops_the_study_and_fails_no_trial(
    digits: Workspace, monkeypatch: pytest.MonkeyPatch, by_hand: Scripted
) -> None:
    study_id = start_study(digits, "digits", search=SHORT).study_id
    (trial,) = next_wave(digits, study_id)
    carry_out(digits, study_id, trial)
    by_hand.script = Script(failure=lambda _: FULL)
    conduct(digits, study_id)
    view = study_status(digits, study_id)
    assert (view.state, view.trials_done, view.failed) == ("stopped", 1, 0)
    assert view.failure is not None
    assert view.failure["category"] == "storage"
    assert "had no room on the disk" in view.failure["message"]
    assert view.failure["details"]["next"] == {"tool": "prune_checkpoints", "arguments": {"project": "digits"}}
    assert "start_tuning with the same search goes on" in view.failure["remedy"]
    assert view.next.tool != "prune_checkpoints", "there is room by now"
    room = shutil.disk_usage(digits.path)
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda _path: room._replace(free=1 << 20))
        assert study_status(digits, study_id).next.tool == "prune_checkpoints"
    left = table_of(digits, study_id)[1].run

    by_hand.script = Script()
    assert start_study(digits, "digits", search=SHORT).study_id == study_id
    (trial,) = next_wave(digits, study_id)
    carry_out(digits, study_id, trial)
    table = table_of(digits, study_id)
    assert [trial.state for trial in table] == [COMPLETED, COMPLETED]
    assert table[1].run == left, "its run went on, and none was started beside it"


def allow(workspace: Workspace, owned: dict[str, Any], seconds: float) -> None:
    """Let the owner allow each project so much time."""
    limits = owned.get("limits", {}) | {"project_wall_clock_seconds": seconds}
    (workspace.path / "settings.yaml").write_text(yaml.safe_dump(owned | {"limits": limits}))
    workspace.refreshed()


@pytest.mark.requirement("TUNE-7", "GATE-4")
def test_what_is_left_of_a_limit_decides_no_trial(digits: Workspace, by_hand: Scripted) -> None:
    owned = yaml.safe_load((digits.path / "settings.yaml").read_text())
    allow(digits, owned, 0.01)
    by_hand.script = Script(stop_reason=WALL_CLOCK)
    study_id = start_study(digits, "digits", search=SHORT | {"trials": 1}).study_id
    conduct(digits, study_id)
    view = study_status(digits, study_id)
    assert (view.state, view.failed) == ("stopped", 0), view.failure
    assert view.failure is not None
    assert "project_wall_clock_seconds is used up" in view.failure["message"]
    [trial] = table_of(digits, study_id)
    with digits.session() as session:
        assert (trial.state, get_run(session, str(trial.run)).state) == ("running", "stopped")
    allow(digits, owned, 600.0)
    by_hand.script = Script()
    assert start_study(digits, "digits", search=SHORT | {"trials": 1}).study_id == study_id
    carry_out(digits, study_id, trial)
    [ended] = table_of(digits, study_id)
    assert (ended.state, ended.run, len(ended.intermediate)) == (COMPLETED, trial.run, 3)


@pytest.mark.requirement("TUNE-3", "TUNE-7")
def test_two_searches_at_once_in_one_project_know_nothing_of_each_other(digits: Workspace, by_hand: Scripted) -> None:
    short, longer = (start_study(digits, "digits", search=SHORT | {"trials": trials}).study_id for trials in (1, 2))
    assert short != longer
    waves = [(study_id, next_wave(digits, study_id)) for study_id in (short, longer)]
    side_by_side(2, [partial(carry_out, digits, study_id, trial) for study_id, (trial,) in waves])
    (first,), (other,) = (table_of(digits, study_id) for study_id in (short, longer))
    assert (first.parameters, first.value, first.intermediate) == (other.parameters, other.value, other.intermediate)
    (trial,) = next_wave(digits, longer)
    assert next_wave(digits, short) == []
    carry_out(digits, longer, trial)
    assert [trial.state for trial in table_of(digits, longer)] == [COMPLETED, COMPLETED]
    with digits.session() as session:
        assert len(runs_of(session, "digits", RunKind.TRIAL)) == 3


@pytest.mark.requirement("TUNE-5", "TUNE-7")
def test_conductors_are_counted_from_the_last_that_got_any_further(digits: Workspace, by_hand: Scripted) -> None:
    study_id = start_study(digits, "digits", search=SHORT).study_id
    folder = study_folder(digits, "digits", study_id)
    write_launch(folder, Launch(attempt=MAX_LAUNCHES, launched_at=0.0, reached=0))
    with digits.session() as session:
        session.add(Trial(study=study_id, number=0, parameters={"optimizer.learning_rate": 1e-4}, state="completed",
                          value=0.5, intermediate={"1": 0.5}, attributes={}))  # fmt: skip
    ensure_conductor(digits, "digits", study_id)
    launch = read_launch(folder)
    assert launch is not None
    assert (launch.attempt, launch.reached) == (1, 1)
    assert study_status(digits, study_id).state == "running"
