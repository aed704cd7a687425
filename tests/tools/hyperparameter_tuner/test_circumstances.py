"""Bad circumstances of a search: no room on the disk, nothing left of a limit, two at once, lost conductors."""

from __future__ import annotations

import shutil
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from tests.worlds.records import Script

from trainwright.tools.hyperparameter_tuner import start_study, study_status
from trainwright.tools.hyperparameter_tuner.conductor import conduct, next_wave
from trainwright.tools.hyperparameter_tuner.process import MOST_LAUNCHES, ensure_conductor, study_folder
from trainwright.tools.hyperparameter_tuner.trial_run import carry_out
from trainwright.tools.hyperparameter_tuner.trials import COMPLETED, TrialRecord, trials_of
from trainwright.tools.hyperparameter_tuner.waves import side_by_side
from trainwright.tools.launchers import Launch, read_launch, write_launch
from trainwright.tools.limits.reservation import WALL_CLOCK
from trainwright.tools.workspace.records import get_run, runs_of
from trainwright.tools.workspace.tables import Trial
from trainwright.trainer.run import Failure, RunKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.worlds.scripted import Scripted

    from trainwright.tools.workspace import Workspace

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

SEARCH: dict[str, Any] = {
    "trials": 2,
    "method": "random",
    "seed": 1,
    "space": {"optimizer.learning_rate": {"type": "float", "low": 1e-4, "high": 1e-3}},
    "pruning": {"name": "none"},
    "present_first": False,
}
FULL = Failure(category="storage", message="No space left on device", remedy="Free some.")


@pytest.fixture(autouse=True)
def launcher(by_hand: Scripted, workspace: Workspace, make_project: Callable[..., str]) -> Scripted:
    """The launcher of a project whose searches the test conducts itself."""
    make_project(workspace, training={"epochs": 2})
    return by_hand


def table_of(workspace: Workspace, study_id: str) -> list[TrialRecord]:
    with workspace.session() as session:
        return trials_of(session, study_id)


@pytest.mark.requirement("TUNE-5", "TUNE-7")
def test_a_disk_that_fills_up_stops_the_study_and_fails_no_trial(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, launcher: Scripted
) -> None:
    study_id = start_study(workspace, "digits", search=SEARCH).study_id
    (trial,) = next_wave(workspace, study_id)
    carry_out(workspace, study_id, trial)
    launcher.script = Script(failure=lambda _: FULL)
    conduct(workspace, study_id)
    view = study_status(workspace, study_id)
    assert (view.state, view.trials_done, view.failed) == ("stopped", 1, 0)
    assert view.failure is not None
    assert view.failure["category"] == "storage"
    assert "had no room on the disk" in view.failure["message"]
    assert view.failure["details"]["next"] == {"tool": "prune_checkpoints", "arguments": {"project": "digits"}}
    assert "start_tuning with the same search goes on" in view.failure["remedy"]
    assert view.next.tool != "prune_checkpoints", "there is room by now"
    room = shutil.disk_usage(workspace.path)
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda _path: room._replace(free=1 << 20))
        assert study_status(workspace, study_id).next.tool == "prune_checkpoints"
    left = table_of(workspace, study_id)[1].run

    launcher.script = Script()
    assert start_study(workspace, "digits", search=SEARCH).study_id == study_id
    (trial,) = next_wave(workspace, study_id)
    carry_out(workspace, study_id, trial)
    table = table_of(workspace, study_id)
    assert [trial.state for trial in table] == [COMPLETED, COMPLETED]
    assert table[1].run == left, "its run went on, and none was started beside it"


def allow(workspace: Workspace, owned: dict[str, Any], seconds: float) -> None:
    """Let the owner allow each project so much time."""
    limits = owned.get("limits", {}) | {"project_wall_clock_seconds": seconds}
    (workspace.path / "settings.yaml").write_text(yaml.safe_dump(owned | {"limits": limits}))
    workspace.refreshed()


@pytest.mark.requirement("TUNE-7", "GATE-4")
def test_what_is_left_of_a_limit_decides_no_trial(workspace: Workspace, launcher: Scripted) -> None:
    owned = yaml.safe_load((workspace.path / "settings.yaml").read_text())
    allow(workspace, owned, 0.01)
    launcher.script = Script(stop_reason=WALL_CLOCK)
    study_id = start_study(workspace, "digits", search=SEARCH | {"trials": 1}).study_id
    conduct(workspace, study_id)
    view = study_status(workspace, study_id)
    assert (view.state, view.failed) == ("stopped", 0), view.failure
    assert view.failure is not None
    assert "project_wall_clock_seconds is used up" in view.failure["message"]
    [trial] = table_of(workspace, study_id)
    with workspace.session() as session:
        assert (trial.state, get_run(session, str(trial.run)).state) == ("running", "stopped")
    allow(workspace, owned, 600.0)
    launcher.script = Script()
    assert start_study(workspace, "digits", search=SEARCH | {"trials": 1}).study_id == study_id
    carry_out(workspace, study_id, trial)
    [ended] = table_of(workspace, study_id)
    assert (ended.state, ended.run, len(ended.intermediate)) == (COMPLETED, trial.run, 2)


@pytest.mark.requirement("TUNE-3", "TUNE-7")
def test_two_searches_at_once_in_one_project_know_nothing_of_each_other(workspace: Workspace) -> None:
    short, longer = (start_study(workspace, "digits", search=SEARCH | {"trials": trials}).study_id for trials in (1, 2))
    assert short != longer
    waves = [(study_id, next_wave(workspace, study_id)) for study_id in (short, longer)]
    side_by_side(2, [partial(carry_out, workspace, study_id, trial) for study_id, (trial,) in waves])
    (first,), (other,) = (table_of(workspace, study_id) for study_id in (short, longer))
    assert (first.parameters, first.value, first.intermediate) == (other.parameters, other.value, other.intermediate)
    (trial,) = next_wave(workspace, longer)
    assert next_wave(workspace, short) == []
    carry_out(workspace, longer, trial)
    assert [trial.state for trial in table_of(workspace, longer)] == [COMPLETED, COMPLETED]
    with workspace.session() as session:
        assert len(runs_of(session, "digits", RunKind.TRIAL)) == 3


@pytest.mark.requirement("TUNE-5", "TUNE-7")
def test_conductors_are_counted_from_the_last_that_got_any_further(workspace: Workspace) -> None:
    study_id = start_study(workspace, "digits", search=SEARCH).study_id
    folder = study_folder(workspace, "digits", study_id)
    write_launch(folder, Launch(attempt=MOST_LAUNCHES, launched_at=0.0, reached=0))
    with workspace.session() as session:
        session.add(Trial(study=study_id, number=0, parameters={"optimizer.learning_rate": 1e-4}, state="completed",
                          value=0.5, intermediate={"1": 0.5}, attributes={}))  # fmt: skip
    ensure_conductor(workspace, "digits", study_id)
    launch = read_launch(folder)
    assert launch is not None
    assert (launch.attempt, launch.reached) == (1, 1)
    assert study_status(workspace, study_id).state == "running"
