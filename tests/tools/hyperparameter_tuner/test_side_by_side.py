"""Real studies of width 2: trained trial after trial, in two parts and killed, and with a trial that hangs."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Any

import pytest

from trainwright.tools.hyperparameter_tuner import StudyView, start_study, stop_study, study_status
from trainwright.tools.hyperparameter_tuner.process import study_folder
from trainwright.tools.hyperparameter_tuner.trials import COMPLETED, FAILED, TrialRecord, trials_of
from trainwright.tools.launchers import read_launch
from trainwright.tools.training_orchestrator.deaths import STALLED
from trainwright.tools.workspace.records import runs_of
from trainwright.trainer.run import RunKind

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from trainwright.tools.workspace import Workspace

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

SEARCH: dict[str, Any] = {
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


def table_of(workspace: Workspace, study_id: str) -> list[TrialRecord]:
    with workspace.session() as session:
        return trials_of(session, study_id)


def told(trials: list[TrialRecord]) -> list[dict[str, Any]]:
    return [{key: value for key, value in vars(trial).items() if key != "run"} for trial in trials]


def kill(folder: Path) -> None:
    launch = read_launch(folder)
    if launch is not None and launch.process is not None and launch.process.is_alive():
        os.kill(launch.process.pid, signal.SIGKILL)


@pytest.mark.requirement("TUNE-3", "TUNE-7", "PHASE-5", "CONF-3")
def test_a_study_in_two_parts_killed_side_by_side_equals_one_trained_trial_after_trial(
    workspace: Workspace, make_project: Callable[..., str]
) -> None:
    make_project(workspace, "turns", training={"epochs": 4}, limits={"runs_at_once": 1})
    make_project(workspace, "parts", training={"epochs": 4})
    alone = start_study(workspace, "turns", search=SEARCH).study_id
    conducted(workspace, alone, SEARCH["trials"])

    part = start_study(workspace, "parts", search=SEARCH | {"trials": FIRST}).study_id
    while None in ((view := study_status(workspace, part, 0.2)).running or {0: None}).values():
        assert not view.is_ended, "its first two trials ran one after the other"
    assert view.running is not None
    assert sorted(view.running) == [0, 1]
    kill(workspace.run_directory("parts", str(view.running[1])).path)
    kill(study_folder(workspace, "parts", part))
    conducted(workspace, part, FIRST)
    whole = start_study(workspace, "parts", search=SEARCH).study_id
    assert whole != part
    conducted(workspace, whole, SEARCH["trials"])

    expected, found = table_of(workspace, alone), table_of(workspace, whole)
    assert told(found) == told(expected)
    assert told(table_of(workspace, part)) == told(expected)[:FIRST]
    assert [trial.run for trial in found[:FIRST]] == [trial.run for trial in table_of(workspace, part)]
    with workspace.session() as session:
        trained = [run for run in runs_of(session, "parts", RunKind.TRIAL) if run.label != "confirmation"]
    assert len(trained) == SEARCH["trials"], "what the first part had trained was not trained again"


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
