"""Memory, accumulation, precision and kept states, measured by smoke runs of real models and read by the gate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.worlds.flowers import finish
from torch import nn

from trainwright.tools import projects
from trainwright.tools.gates.checklist import load_checklist
from trainwright.tools.gates.checks import planned
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.phases import Phase
from trainwright.tools.training_orchestrator import start_run
from trainwright.tools.workspace import Workspace
from trainwright.trainer.assembly.dry_run import products_counted
from trainwright.trainer.config import parse_config
from trainwright.trainer.run import RunKind

pytestmark = pytest.mark.slow

GOAL = {"metric": "loss", "direction": "minimize", "target": 0.1}
CHECKS = {
    "planning.memory_fits": planned.memory_fits,
    "planning.accumulation_adds_up": planned.accumulation_adds_up,
    "planning.precision_on": planned.precision_on,
    "planning.states_kept": planned.states_kept,
}
LINES = {line.id: line for line in load_checklist(Phase.PLANNING).checks if line.id in CHECKS}
MIXED = [
    ({"bfloat16": 1, "float32": 9}, "failed"),
    ({"bfloat16": 1, "float32": 1}, "failed"),
    ({"bfloat16": 18, "float32": 2}, "passed"),
    ({"bfloat16": 2, "float32": 1}, "passed"),
]
"""Layers by number format, and what the gate says of them."""
STUBBORN = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, inputs):
        with torch.autocast("cpu", enabled=False):
            return self.layer(inputs.float())
"""


def config_of(**sections: Any) -> dict[str, Any]:
    plain = {
        "model": {"use": "mlp", "args": {"hidden": [8]}},
        "data": {"use": "iris", "expectations": {"without": ["label_errors", "leaks"]}},
        "loader": {"batch_size": 16},
    }
    return plain | {"training": {"epochs": 2}, "logging": {"tensorboard": False}} | sections


def assert_told_by_who_decides(evidence: Evidence, little: Any) -> None:
    """A handed-over trainer makes the batches: loader.batch_size would change nothing."""
    assert (evidence.smoke.resolved.batch_size, evidence.smoke.resolved.accumulation_steps) == (16, 2)
    plain = evidence.config
    names = {"per_device_train_batch_size": 16, "gradient_accumulation_steps": 2}
    for args, changes in (
        (names, {"per_device_train_batch_size": 8, "gradient_accumulation_steps": 4}),
        ({"rate": 0.1}, {}),
    ):
        handed = {"trainer": {"use": "train.py:make", "args": args}, "logging": {"tensorboard": False}}
        evidence.__dict__["config"] = parse_config(handed)
        found = planned.memory_fits(evidence, little)
        assert found.next is not None
        told = found.next.arguments.get("changes", {})
        assert told == {f"trainer.args.{name}": value for name, value in changes.items()}
        assert bool(told) or "batches of 8 instead of 16 (per_device_train_batch_size" in found.next.why
        measured = evidence.smoke.resolved
        evidence.smoke.__dict__["resolved"] = measured.model_copy(update={"products": None})
        precision = planned.precision_on(evidence, LINES["planning.precision_on"])
        assert (precision.status, "your trainer decides" in precision.measured) == ("not_applicable", True)
        evidence.smoke.__dict__["resolved"] = measured
    evidence.__dict__["config"] = plain


@pytest.mark.requirement("ARCH-4")
def test_layers_are_named_by_the_format_of_their_products() -> None:
    class Kept(nn.Linear):
        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            with torch.autocast("cpu", enabled=False):
                return super().forward(inputs.float())

    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), Kept(4, 2))
    with torch.autocast("cpu", dtype=torch.bfloat16), products_counted(model) as products:
        model(torch.ones(1, 4))
    assert products == {"bfloat16": ["0", "1"], "float32": ["2"]}


@pytest.mark.requirement("ARCH-4")
def test_the_smoke_run_measures_what_a_plan_promised(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(STUBBORN)
    workspace = Workspace.open(tmp_path / "workspace")
    half = {"epochs": 2, "precision": "bf16", "accumulation_steps": 2}
    made = {
        "honest": config_of(training=half),
        "stubborn": config_of(model={"use": "net.py:Net"}, training=half, checkpoints={"save_best": False}),
    }
    runs = {}
    for name, config in made.items():
        projects.create_project(workspace, name, intent="a test", goal=GOAL, config=config)
        runs[name] = start_run(workspace, name, RunKind.SMOKE).run_id
    with workspace.session() as session:  # before there is evidence
        found = planned.memory_fits(Evidence(session, workspace, "honest"), LINES["planning.memory_fits"])
        assert found.status == "failed"
    for run_id in runs.values():
        finish(workspace, run_id)
    with workspace.session() as session:
        evidence = Evidence(session, workspace, "honest")
        outcomes = {name: check(evidence, LINES[name]) for name, check in CHECKS.items()}
        assert {outcome.status for outcome in outcomes.values()} == {"passed"}, outcomes
        assert "layers in bfloat16" in outcomes["planning.precision_on"].measured
        assert outcomes["planning.accumulation_adds_up"].measured == "106 rows / (16 x 2) = 4 steps an epoch"
        little = LINES["planning.memory_fits"].model_copy(update={"threshold": 1e-6})
        short = planned.memory_fits(evidence, little)
        assert short.status == "failed"
        assert short.next is not None
        assert short.next.arguments["changes"] == {"loader.batch_size": 8, "training.accumulation_steps": 4}
        assert_told_by_who_decides(evidence, little)
    with workspace.session() as session:
        evidence = Evidence(session, workspace, "stubborn")
        ignored = planned.precision_on(evidence, LINES["planning.precision_on"])
        assert (ignored.status, ignored.measured) == ("failed", "1 layers in float32")
        for products, expected in MIXED:
            with_products = {"products": products, "products_apart": ["head"]}
            evidence.smoke.__dict__["resolved"] = evidence.smoke.resolved.model_copy(update=with_products)
            found = planned.precision_on(evidence, LINES["planning.precision_on"])
            assert (found.status, "(head)" in found.measured) == (expected, True), products
        assert planned.states_kept(evidence, LINES["planning.states_kept"]).status == "passed", "the last is kept"
    workspace.close()
