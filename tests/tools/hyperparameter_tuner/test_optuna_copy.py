"""A study's copy in Optuna's storage, read back by plain Optuna."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import optuna
import pytest
from typer.testing import CliRunner

from trainwright.server.cli import app
from trainwright.tools.hyperparameter_tuner.optuna_copy import copy_to_optuna
from trainwright.tools.workspace.tables import Study, Trial, now
from trainwright.trainer.base.errors import ConflictError, StorageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from trainwright.tools.workspace import Workspace

pytestmark = pytest.mark.requirement("TUNE-4")
SPACE: dict[str, Any] = {
    "optimizer.learning_rate": {"type": "float", "low": 1e-4, "high": 1.0, "log": True},
    "optimizer.name": {"type": "categorical", "choices": ["adamw", "sgd"]},
}
TRIALS: list[dict[str, Any]] = [
    {"state": "completed", "value": 0.5, "intermediate": {"1": 0.3, "2": 0.5}, "attributes": {}},
    {"state": "pruned", "intermediate": {"1": 0.1}, "attributes": {}},
    {"state": "failed", "attributes": {"cause": {"category": "divergence", "message": "NaN"}}},
    {"state": "running", "attributes": {}},
]


@pytest.fixture
def study(workspace: Workspace, make_project: Callable[..., str]) -> str:
    make_project(workspace)
    with workspace.session() as session:
        session.add(
            Study(
                id="study-digits-1", project="digits", state="running", search={"space": SPACE, "trials": 4},
                objective={"metric": "accuracy", "direction": "maximize"}, base_config_digest="", base_values={},
                created_at=now(),
            )
        )  # fmt: skip
        session.flush()
        for number, given in enumerate(TRIALS):
            rate = {"optimizer.learning_rate": 10.0**-number, "optimizer.name": "sgd"}
            session.add(Trial(study="study-digits-1", number=number, parameters=rate, **{"intermediate": {}, **given}))
    return "study-digits-1"


def test_every_trial_is_read_back_by_plain_optuna(workspace: Workspace, study: str, tmp_path: Path) -> None:
    name, count = copy_to_optuna(workspace, study, tmp_path / "copy.sqlite3")
    copy = optuna.load_study(study_name=name, storage=f"sqlite:///{tmp_path / 'copy.sqlite3'}")
    assert count == len(copy.trials) == len(TRIALS)
    assert [trial.state.name for trial in copy.trials] == ["COMPLETE", "PRUNED", "FAIL", "RUNNING"]
    assert [trial.params["optimizer.learning_rate"] for trial in copy.trials] == [1.0, 0.1, 0.01, 0.001]
    assert copy.trials[0].params["optimizer.name"] == '"sgd"', "choices are written as JSON"
    assert copy.best_value == 0.5
    assert copy.trials[1].intermediate_values == {1: 0.1}
    assert copy.trials[2].user_attrs["cause"] == "divergence: NaN"
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".optuna-")] == []


def test_a_file_that_exists_or_cannot_be_written_is_refused(workspace: Workspace, study: str, tmp_path: Path) -> None:
    there = tmp_path / "mine.sqlite3"
    there.write_text("something of the user's")
    with pytest.raises(ConflictError):
        copy_to_optuna(workspace, study, there)
    assert there.read_text() == "something of the user's"
    with pytest.raises(StorageError):
        copy_to_optuna(workspace, study, tmp_path / "no folder" / "copy.sqlite3")


def test_the_command_lists_the_trials_and_names_the_dashboard(workspace: Workspace, study: str, tmp_path: Path) -> None:
    run = CliRunner().invoke
    listed = run(app, ["study", study, "-w", str(workspace.path)])
    assert listed.exit_code == 0, listed.output
    standing, *lines = listed.output.splitlines()
    assert "running, 3 of" in standing
    assert [line.split()[1] for line in lines if line[:4].strip()] == ["completed", "pruned", "failed", "running"]
    copied = run(app, ["study", study, "--optuna", str(tmp_path / "a.sqlite3"), "-w", str(workspace.path)])
    assert copied.exit_code == 0, copied.output
    assert (tmp_path / "a.sqlite3").is_file()
    assert "optuna-dashboard sqlite:///" in copied.output.replace("\n", "")
