"""A leak that validation found is priced: the server trains once more without it and says how much was false."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from tests.worlds.warm import warm

from trainwright.tools import projects
from trainwright.tools.data import look_at, request_validation
from trainwright.tools.gates.leak_prices import _noise
from trainwright.tools.training_orchestrator import start_run, wait_for_run
from trainwright.tools.workspace import Workspace
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.run import RunKind, RunState

FINDING = "closing_code.leak_target"
CONFIG = {
    "code_root": "code",
    "model": {"use": "mlp", "args": {"hidden": [8]}},
    "data": {"use": "csv", "args": {"path": "churn.csv", "target": "churned"}},
    "optimizer": {"learning_rate": 0.05},
    "training": {"epochs": 4},
    "logging": {"tensorboard": False},
}


def leaking_table(path: Path) -> None:
    """Write customers whose churn is half chance, with a code that is given to those who left."""
    rng = np.random.default_rng(0)
    tenure, fee = rng.normal(0, 1, 400), rng.normal(0, 1, 400)
    churned = (tenure + rng.normal(0, 1.5, 400) > 0).astype(int)
    code = churned * 5.0 + rng.normal(0, 0.3, 400)
    pl.DataFrame({"tenure": tenure, "fee": fee, "closing_code": code, "churned": churned}).write_csv(path)


def trained(workspace: Workspace, kind: RunKind, **given: str) -> Any:
    started = start_run(workspace, "churn", kind, **given)
    view = started
    while not view.is_ended:
        view = wait_for_run(workspace, started.run_id, 50, poll_seconds=0.05)
    assert view.state is RunState.COMPLETED, view.failure
    return view


@pytest.mark.long
@pytest.mark.requirement("PIPE-2")
def test_a_leak_is_priced_by_one_more_run_without_it(tmp_path: Path) -> None:
    workspace = Workspace.open(tmp_path / "workspace")
    (workspace.path / "settings.yaml").write_text(f"code_roots: [{tmp_path}]\n")
    (tmp_path / "code").mkdir()
    leaking_table(tmp_path / "code" / "churn.csv")
    goal = {"metric": "accuracy", "direction": "maximize", "target": 0.5}
    config = CONFIG | {"code_root": str(tmp_path / "code")}
    projects.create_project(workspace, "churn", intent="who leaves", goal=goal, config=config)
    with warm():
        trained(workspace, RunKind.SMOKE)
        assert projects.pass_gate(workspace, "churn").outcome == "passed"
        baseline = trained(workspace, RunKind.BASELINE)
        assert baseline.next.arguments["finding"] == FINDING
        with pytest.raises(ConfigurationError, match="is no leak"):
            start_run(workspace, "churn", RunKind.LEAK_PRICE, finding="tenure.leak_target")
        with pytest.raises(ConfigurationError, match="the server's"):
            start_run(workspace, "churn", RunKind.LEAK_PRICE, finding=FINDING, changes={"training.epochs": 1})
        with pytest.raises(ConfigurationError, match="those that can be priced: closing_code"):
            start_run(workspace, "churn", RunKind.LEAK_PRICE, finding="closing_code")
        doubted = trained(workspace, RunKind.LEAK_PRICE, finding="fee")
        assert re.fullmatch(r"fee: accuracy \S+ with fee, \S+ without: .* \(the same validation rows\)", doubted.leak)
        assert doubted.next.arguments["finding"] == FINDING, "no change is proposed for a doubt"
        priced = trained(workspace, RunKind.LEAK_PRICE, finding=FINDING)
    assert "points were false (the same validation rows)" in priced.leak
    with_leak, without = [float(word) for word in priced.leak.split() if word.replace(".", "").isdigit()][:2]
    assert with_leak > without + 0.1
    without_it = {"data.args.columns": {"closing_code": "ignore"}}
    validated = look_at(request_validation(workspace, "churn"), 60.0)
    for call in (priced.next, projects.project_status(workspace, "churn").next, validated.next):
        assert (call.tool, call.arguments["changes"]) == ("configure", without_it)
        assert "points were false" in call.why
    answer = projects.pass_gate(workspace, "churn")  # whoever keeps the leak goes on, and is not asked again
    assert answer.outcome == "passed"
    assert answer.next.tool != "configure"
    report = (workspace.project_folder("churn") / "baseline_results.md").read_text()
    assert "fee: it was doubted. Accuracy " in report
    assert priced.leak.partition(": ")[2] in report.replace("Accuracy", "accuracy")
    (alert,) = [alert for alert in projects.diagnose(workspace, "churn").alerts if alert.id == "data_leak"]
    assert '"closing_code": "ignore"' in alert.fixes[0]
    found = look_at(request_validation(workspace, "churn"), 60.0)
    assert found.findings is not None
    (leak,) = [one for one in found.findings if one.check == FINDING]
    assert leak.price is not None
    assert leak.price in priced.leak
    assert found.next.tool != "configure"
    clean = projects.configure(workspace, "churn", **{k: v for k, v in call.arguments.items() if k != "project"})
    assert (clean.phase, clean.next.arguments["kind"]) == ("planning", "smoke")


@pytest.mark.requirement("PIPE-2")
@pytest.mark.parametrize(
    ("leaking", "clean", "rows", "is_false"),
    [(0.97, 0.81, 400, True), (0.86, 0.84, 100, False), (12.0, 30.0, 100, True), (29.0, 30.0, 100, False)],
)
def test_a_difference_that_so_few_rows_show_by_chance_is_no_false_score(leaking, clean, rows, is_false) -> None:
    assert (abs(leaking - clean) > _noise(leaking, clean, rows)) is is_false


@pytest.mark.requirement("PIPE-2")
def test_without_validation_rows_no_price_is_beyond_chance() -> None:
    assert _noise(0.9, 0.1, 0) == math.inf
