"""A search whose best trial is the present configuration: the baseline's run is its trial, and nothing is validated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.worlds.records import Script
from tests.worlds.scripted import scripted

from trainwright.tools import projects
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.study_check import study_differences
from trainwright.tools.hyperparameter_tuner import start_study, study_status, tuning_report
from trainwright.tools.hyperparameter_tuner.space import require_reported
from trainwright.tools.hyperparameter_tuner.trials import trials_of
from trainwright.tools.training_orchestrator import start_run
from trainwright.tools.verification import verify_workspace
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.records import get_study
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.config import parse_config
from trainwright.trainer.run import RunKind, RunSpecification

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

NAME = "digits"
CONFIG: dict[str, Any] = {
    "model": {"use": "mlp", "args": {"hidden": [8]}},
    "data": {"use": "digits"},
    "optimizer": {"learning_rate": 0.01},
    "training": {"epochs": 3},
    "logging": {"tensorboard": False},
}
GOAL = {"metric": "accuracy", "direction": "maximize", "target": 0.999}
SPACE = {"optimizer.learning_rate": {"type": "categorical", "choices": [1e-7, 0.01]}}


def curve(plan: RunSpecification, _: int) -> dict[str, float]:
    value = 0.8 if plan.config.optimizer.learning_rate == 0.01 else 0.3
    return {"loss": 1 - value, "accuracy": value}


@pytest.mark.requirement("TUNE-1", "PHASE-5", "TUNE-5")
def test_the_present_configuration_is_not_trained_again_and_improves_on_itself_by_nothing(tmp_path: Path) -> None:
    workspace = Workspace.open(tmp_path / "world")
    with scripted(Script(curve=curve)) as launcher:
        projects.create_project(workspace, NAME, intent="", goal=GOAL, config=CONFIG)
        runs = {}
        for kind, phase in ((RunKind.SMOKE, "planning"), (RunKind.BASELINE, "baseline")):
            runs[kind] = start_run(workspace, NAME, kind).run_id
            projects.pass_gate(workspace, NAME, phase)
        projects.diagnose(workspace, NAME)
        projects.pass_gate(workspace, NAME, "diagnostics")
        study_id = start_study(workspace, NAME, search={"method": "grid", "space": SPACE}).study_id
        launcher.wait()
        assert len(launcher.started) == 2 + 1 + 3, "the other rate, and the baseline on three seeds"
    view = study_status(workspace, study_id)
    assert (view.state, view.trials_total, view.completed) == ("completed", 2, 2), view.failure
    with workspace.session() as session:
        trials = trials_of(session, study_id)
        evidence = Evidence(session, workspace, NAME)
        assert study_differences(evidence) == []
        report = tuning_report(session, workspace, get_study(session, study_id))
    assert [trial.value for trial in trials] == [0.8, 0.3]
    assert trials[0].run == runs[RunKind.BASELINE]
    assert "Trial 0 is the present configuration." in report
    found = view.confirmation or {}
    assert (found["best_trial"], found["improvement_mean"], found["validated"]) == (0, 0.0, False)
    assert found["best_runs"] == found["baseline_runs"]
    assert verify_workspace(workspace.path).problems == []
    again = start_study(workspace, NAME, search={"method": "grid", "trials": 9, "space": SPACE})
    assert again.study_id == study_id, "the grid has no more points"

    with workspace.session() as session:
        evidence = Evidence(session, workspace, NAME)
        config = parse_config(CONFIG | {"selection": {"metric": "f1_macro", "direction": "maximize"}})
        with pytest.raises(ConfigurationError, match=f"nothing reports: {runs[RunKind.BASELINE]} reported accuracy"):
            require_reported(evidence, config)
    workspace.close()
