"""A table with three numbers to predict, from a sentence to a release whose figures scikit-learn computes too."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.worlds.flowers import finish, train

from trainwright.tools import projects
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.final_words import final_words
from trainwright.tools.training_architect.architect import plan_training
from trainwright.tools.training_architect.request import read_request
from trainwright.tools.training_orchestrator import replay_run
from trainwright.tools.verification import verify_workspace
from trainwright.tools.workspace import Workspace
from trainwright.trainer.run import RunKind

TARGETS = ["strength", "slump", "setting_time"]
ROWS = 240


def write_mixtures(folder: Path) -> None:
    """Write three properties of each mixture, of quite different sizes."""
    draw = np.random.default_rng(3)
    cement, water, warmth = draw.uniform(2, 5, ROWS), draw.uniform(1, 2, ROWS), draw.normal(20, 4, ROWS)
    found = (60 * cement / (cement + water), 100 + 80 * water, 9 - 0.2 * (warmth - 20))
    columns = [cement, water, warmth, *(one + draw.normal(0, 0.01 * one.std(), ROWS) for one in found)]
    lines = [",".join(f"{cell:.4f}" for cell in row) for row in zip(*columns, strict=True)]
    (folder / "mixtures.csv").write_text("\n".join(["cement,water,warmth," + ",".join(TARGETS), *lines]) + "\n")


@pytest.mark.timeout(600)
@pytest.mark.long
@pytest.mark.requirement("ARCH-1", "PIPE-3", "GATE-6")
def test_three_numbers_of_a_table_go_from_a_sentence_to_a_release_with_each_ones_figures(tmp_path: Path) -> None:
    from sklearn.metrics import r2_score

    (tmp_path / "code").mkdir()
    write_mixtures(tmp_path / "code")
    workspace = Workspace.open(tmp_path / "workspace")
    sentence = "predict strength, slump and setting_time of mixtures.csv at once, R2 of at least 0.6"
    plan = plan_training(workspace, read_request(intent=sentence, code_root="code"))
    assert plan.state == "planned", plan
    assert plan.next is not None
    call = plan.next.arguments
    assert call["config"]["data"]["args"]["target"] == TARGETS
    quick = {"training": {"epochs": 30}, "logging": {"tensorboard": False}}
    projects.create_project(workspace, **{**call, "config": {**call["config"], **quick}})
    name = call["name"]
    smoke = train(workspace, RunKind.SMOKE, name)
    assert "3 at once: strength: a number" in smoke.understood["target"]
    projects.pass_gate(workspace, name, "planning")
    train(workspace, RunKind.BASELINE, name)
    projects.pass_gate(workspace, name, "baseline")
    projects.diagnose(workspace, name)
    projects.pass_gate(workspace, name, "diagnostics")
    projects.pass_gate(workspace, name, "optimization")
    final = train(workspace, RunKind.FINAL, name)
    assert finish(workspace, replay_run(workspace, name, run_id=final.run_id).run_id).state == "completed"
    train(workspace, RunKind.EXPORT, name)
    projects.pass_gate(workspace, name, "finalization")
    with workspace.session() as session:
        last = " ".join(final_words(Evidence(session, workspace, name)))

    folder = next((workspace.path / "projects").rglob("final_model"))
    record = json.loads((folder / "evaluation.json").read_text())
    certified = record["certified"]["test"]
    place = (folder / record["rows"]).resolve()
    inputs, wanted = (np.load(place / "rows" / "test" / f"{part}.npy") for part in ("input", "target"))
    cells = [dict(zip(("cement", "water", "warmth"), row, strict=True)) for row in inputs.tolist()]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, cells)))
    command = [sys.executable, "-I", "-B", str(folder / "predict.py"), "--json", str(tmp_path / "rows.jsonl")]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    outputs = np.array([[json.loads(line)["answer"]["values"][one] for one in TARGETS] for line in told])
    scores = r2_score(wanted, outputs, multioutput="raw_values")
    assert certified["r2"] == pytest.approx(scores.mean(), rel=1e-4)
    for one, score in zip(TARGETS, scores.tolist(), strict=True):
        assert certified[f"r2 of {one}"] == pytest.approx(score, rel=1e-4)
        assert f"{one} {certified[f'r2 of {one}']:.4g}" in last
        assert f"| {one} | test |" in (folder / "README.md").read_text()
    again = subprocess.run(
        [sys.executable, str(folder / "evaluate.py"), "--rows", str(place)], capture_output=True, text=True, check=False
    )
    assert json.loads(again.stdout)["agrees"], again.stdout
    assert "mean of 3 (strength 0." in last, last
    rivals = json.loads((folder / "evaluation.json").read_text())["rivals"]["test"].values()
    assert any("gradient-boosted trees" in one["told"] for one in rivals)
    assert all(one["told"].lower() in last.lower() and f"{one['metrics']['r2']:.4g}" in last for one in rivals), last
    assert verify_workspace(workspace.path).problems == []
    workspace.close()
