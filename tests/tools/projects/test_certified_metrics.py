"""A released model's figures in metrics of class 1 and of probabilities are scikit-learn's on its own outputs."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from sklearn import metrics as known
from sklearn.datasets import load_breast_cancer
from tests.worlds.blank_pictures import blank_pictures
from tests.worlds.flowers import finish, train
from tests.worlds.warm import warm

from trainwright.tools import projects
from trainwright.tools.training_orchestrator import replay_run
from trainwright.tools.verification import verify_workspace
from trainwright.tools.workspace import Workspace
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.run import RunKind

pytestmark = pytest.mark.requirement("GATE-6")

NAME = "tumours"
GOAL = {"metric": "average_precision", "direction": "maximize", "target": 0.7}
LABELS = {"malignant": "0 malignant", "benign": "1 benign"}
"""By name alone malignant would be class 1."""
OWN = """\
def missed(outputs, targets):
    return float(((outputs.argmax(1) == 1) & (targets == 0)).sum())


def rule(cells):
    return (cells[:, 0] < 15).astype(int)
"""
"""Malignant ones that are called benign; and what the clinic does today."""
CONFIG: dict[str, Any] = {
    "code_root": "code",
    "model": {"use": "mlp", "args": {"hidden": [8]}},
    "data": {
        "use": "csv",
        "args": {"path": "cells.csv", "target": "finding", "labels": LABELS},
        "split": {"test": 0.3},
        "expectations": {"without": ["label_errors", "leaks"]},
    },
    "metrics": ["f1_binary", "sensitivity", "specificity", "log_loss", "brier", "cohen_kappa", "scores.py:missed"],
    "evaluation_gate": {"reference": "scores.py:rule"},
    "optimizer": {"learning_rate": 0.02},
    "training": {"epochs": 4},
    "logging": {"tensorboard": False},
}


def release(workspace: Workspace) -> None:
    """Take a project through its gates: the baseline meets the goal."""
    projects.create_project(workspace, NAME, intent="", goal=GOAL, config=CONFIG)
    for kind, phase in ((RunKind.SMOKE, "planning"), (RunKind.BASELINE, "baseline")):
        train(workspace, kind, NAME)
        projects.pass_gate(workspace, NAME, phase)
    projects.diagnose(workspace, NAME)
    for phase in ("diagnostics", "optimization"):
        projects.pass_gate(workspace, NAME, phase)
    final = train(workspace, RunKind.FINAL, NAME)
    assert finish(workspace, replay_run(workspace, NAME, run_id=final.run_id).run_id).state == "completed"
    train(workspace, RunKind.EXPORT, NAME)
    projects.pass_gate(workspace, NAME, "finalization")


def test_a_bare_precision_is_answered_with_all_that_it_could_be(tmp_path: Path) -> None:
    workspace = Workspace.open(tmp_path / "workspace")
    config = {"model": {"use": "mlp"}, "data": {"use": "iris"}}
    with pytest.raises(ConfigurationError, match="precision_binary, precision_macro, precision_weighted") as caught:
        projects.create_project(workspace, NAME, intent="", goal=GOAL | {"metric": "precision"}, config=config)
    assert caught.value.details == {}
    workspace.close()


@pytest.mark.long
def test_a_released_models_figures_are_scikit_learns_on_its_outputs(tmp_path: Path) -> None:
    cells, benign = load_breast_cancer(return_X_y=True)
    (tmp_path / "code").mkdir()
    lines = (
        f"{row[0]},{row[1]},{row[4]},{['malignant', 'benign'][kind]}" for row, kind in zip(cells, benign, strict=True)
    )
    (tmp_path / "code" / "cells.csv").write_text("\n".join(["radius,texture,smooth,finding", *lines]) + "\n")
    (tmp_path / "code" / "scores.py").write_text(OWN)
    workspace = Workspace.open(tmp_path / "workspace")
    with warm(), blank_pictures():
        release(workspace)
    workspace.close()
    folder = tmp_path / "workspace" / "projects" / NAME / "final_model"
    shipped = json.loads((folder / "evaluation.json").read_text())
    rows = shipped["order"]["rows"]["record"]["splits"]["test"]
    inputs, targets = (
        np.load(folder / shipped["rows"] / one["path"]) for one in (*rows["inputs"].values(), rows["target"])
    )
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"))
    logits = session.run(None, {session.get_inputs()[0].name: inputs})[0]
    chance = 1 / (1 + np.exp(logits[:, 0] - logits[:, 1]))
    guessed = chance > 0.5
    assert targets.mean() > 0.5, "class 1 is benign, as the labels turn the two round"
    found = {name: value for name, value in shipped["certified"]["test"].items() if name not in {"rows", "loss"}}
    assert found == pytest.approx(
        {
            "average_precision": known.average_precision_score(targets, chance),
            "f1_binary": known.f1_score(targets, guessed),
            "recall_binary": known.recall_score(targets, guessed),
            "specificity": known.recall_score(targets, guessed, pos_label=0),
            "log_loss": known.log_loss(targets, chance),
            "brier": known.brier_score_loss(targets, chance),
            "cohen_kappa": known.cohen_kappa_score(targets, guessed),
        },
        rel=1e-4,
    )
    of_own = float((guessed & (targets == 0)).sum())
    assert shipped["by_your_function"]["test"] == {"missed": of_own}
    rivals, calls = shipped["rivals"]["test"], inputs[:, 0] < 15
    assert rivals["scores.py:rule"]["metrics"] == {
        "cohen_kappa": pytest.approx(known.cohen_kappa_score(targets, calls)),
        "f1_binary": pytest.approx(known.f1_score(targets, calls)),
        "recall_binary": pytest.approx(known.recall_score(targets, calls)),
        "specificity": pytest.approx(known.recall_score(targets, calls, pos_label=0)),
        "missed": (calls & (targets == 0)).sum(),
    }
    assert re.search(
        r"average_precision on the same \d+ test rows: the model \S+, (?:a logistic regression|gradient-boosted trees) "
        r".*?: [a-z ]+\. "
        r"(\w+) on the same \d+ test rows: the model \S+, your reference scores.py:rule", shipped["compared"],
    )  # fmt: skip
    done = subprocess.run(
        [sys.executable, str(folder / "evaluate.py"), "--rows", str(folder / shipped["rows"])],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert json.loads(done.stdout)["agrees"] is True, done.stdout
    assert verify_workspace(workspace.path, evaluates=True).problems == []
    (tmp_path / "code" / "scores.py").write_text(OWN + "\n\ndef more(): ...\n")
    assert verify_workspace(workspace.path, evaluates=True).problems == [], "the user goes on with his own file"
    card = (folder / "README.md").read_text()
    row = next(line for line in card.splitlines() if line.startswith("| missed"))
    assert f"| {of_own:.6g} [" in row, row
    for name, value in found.items():
        (low, high), *_ = re.findall(rf"^\| {name} \| {value:.6g} \[([\d.]+), ([\d.]+)\]", card, re.MULTILINE)
        assert float(low) < value < float(high), name
