"""Leaks priced: real projects whose data leak, trained with the leak and once more without it by the server."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from data_faults.bases import BASES


class Case(NamedTuple):
    """Data with one leak, the finding that it gives, and the target."""

    rows: pl.DataFrame
    finding: str
    target: str


def closing_code() -> Case:
    """Tumours with a code that is given after the diagnosis; four weak measurements otherwise."""
    base, rng = BASES["breast_cancer"](0), np.random.default_rng(0)
    code = base.rows["target"].to_numpy() * 4.0 + rng.normal(0, 0.3, base.rows.height)
    rows = base.rows.select("x1", "x8", "x9", "x11", "target").with_columns(pl.Series("closing_code", code))
    return Case(rows, "closing_code.leak_target", "target")


def patients() -> Case:
    """Visits of patients, split at random."""
    return Case(BASES["patients"](0).rows, "patient.leak_group", "diagnosis")


CASES = {"target": closing_code, "group": patients}


def price(kind: str) -> str:
    """Take a project to its baseline by real runs, price its leak, and return the server's sentence."""
    from trainwright.tools import projects
    from trainwright.tools.training_orchestrator import start_run, wait_for_run
    from trainwright.tools.workspace import Workspace
    from trainwright.trainer.run import RunKind

    case = CASES[kind]()
    folder = Path(tempfile.mkdtemp(prefix="leak-"))
    (folder / "code").mkdir()
    case.rows.write_csv(folder / "code" / "rows.csv")
    workspace = Workspace.open(folder / "workspace")
    (workspace.path / "settings.yaml").write_text(f"code_roots: [{folder}]\n")
    config = {
        "code_root": str(folder / "code"),
        "model": {"use": "mlp", "args": {"hidden": [32]}},
        "data": {"use": "csv", "args": {"path": "rows.csv", "target": case.target}},
        "training": {"epochs": 10},
        "logging": {"tensorboard": False},
    }
    goal = {"metric": "accuracy", "direction": "maximize", "target": 0.5}
    projects.create_project(workspace, kind, intent="a leak's price", goal=goal, config=config)

    def run(run_kind: RunKind, **given: Any) -> Any:
        view = start_run(workspace, kind, run_kind, **given)
        while not view.is_ended:
            view = wait_for_run(workspace, view.run_id, 50)
        return view

    run(RunKind.SMOKE)
    projects.pass_gate(workspace, kind)
    run(RunKind.BASELINE)
    return str(run(RunKind.LEAK_PRICE, finding=case.finding).leak)
