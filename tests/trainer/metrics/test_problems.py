"""Metrics that say nothing about the targets: the reason is recorded, with the rows that it is of."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.trainer.users import PARTS

from trainwright.trainer.metrics import BUILT_IN, evaluate, fold, problems, problems_of_sums
from trainwright.trainer.run import RunKind, RunState
from trainwright.trainer.run.evidence import Summary

pytestmark = pytest.mark.requirement("TRACK-1", "GATE-1")

ONES, LABELS = torch.ones(20, dtype=torch.long), torch.eye(4)[torch.arange(20) % 3]
STILL = torch.stack([torch.arange(20.0), torch.full((20,), 0.1)], 1)
SAID = [
    ("auc", torch.randn(20), ONES, "the class is 'yes' in all 20 rows, and auc compares two"),
    ("auc", torch.randn(20, 2), 0 * ONES, "the class is 'no' in all 20 rows"),
    ("auc", torch.randn(20, 4), LABELS, "label 3 is 0 in all 20 rows"),
    ("auc", torch.randn(20, 4), LABELS.roll(1, 1), "label 'no' is 0 in all 20 rows"),
    ("matthews_correlation", torch.randn(20, 5), 4 * ONES, "the class is 4 in all 20 rows"),
    ("accuracy", torch.randn(20, 3), -100 * ONES, "all are ignored"),
    ("r2", torch.randn(20, 1), 5.0 * ONES, "all 20 targets are 5"),
    ("r2", torch.randn(20, 2), STILL[:, [1, 1]], "none of the 2 outputs varies over 20 rows"),
    ("mape", torch.randn(20, 2), STILL, "1 of 40 targets are 0"),
    ("recall_binary", torch.randn(20, 1), 0 * ONES, "the class is 'no' in all 20 rows, and recall_binary compares two"),
    ("average_precision", torch.randn(20, 4), LABELS, "label 3 is 0 in all 20 rows"),
    ("dice", torch.randn(20, 2, 3), 0 * ONES[:, None].repeat(1, 3), "the class is 'no' in all 60 rows"),
    ("spearman", torch.randn(20, 2), STILL[:, [1, 1]], "none of the 2 outputs varies over 20 rows, and spearman"),
    ("rmsle", torch.randn(20), -1 * ONES, "20 of 20 targets are -1 or less"),
]


@pytest.mark.parametrize(("name", "outputs", "targets", "why"), SAID)
def test_the_reason_names_the_label_class_or_rows(name: str, outputs: Any, targets: Any, why: str) -> None:
    found = problems([BUILT_IN[name]], outputs, targets, task=None, names=["no", "yes"])
    assert why in found[name]


@pytest.mark.parametrize("name", ["r2", "mape"])
def test_sums_of_a_large_split_give_the_same_reason(name: str) -> None:
    metric, still = [BUILT_IN[name]], STILL[:, [1, 1]] if name == "r2" else STILL
    sums = fold(metric, still, still, task=None)
    sums = fold(metric, still, still, task=None, before=sums)
    assert sums is not None
    assert problems_of_sums(metric, sums) == problems(metric, *[torch.cat([still, still])] * 2, task=None)


def test_where_some_targets_can_be_told_apart_there_is_no_problem() -> None:
    metrics = [BUILT_IN[name] for name in ("r2", "mae", "rmse")]
    assert problems(metrics, STILL, STILL, task=None) == {}
    assert evaluate(metrics, STILL, STILL) == {"r2": 1.0, "mae": 0.0, "rmse": 0.0}
    classes = [BUILT_IN[name] for name in ("accuracy", "f1", "auc", "matthews_correlation")]
    assert problems(classes, torch.randn(20, 2), torch.arange(20) % 2, task="classification") == {}


def test_a_smoke_run_records_the_reason(ended_here: Any) -> None:
    code = """
    def rows():
        held = torch.utils.data.TensorDataset(torch.randn(20, 4), torch.ones(20, dtype=torch.long))
        return {"train": data(90), "validation": held, "test": held}
    """
    values = {**PARTS, "data": {"use": "mine:rows"}, "metrics": ["accuracy", "auc"]}
    run = ended_here(code, values, kind=RunKind.SMOKE, max_steps=3)
    assert run.status().state is RunState.COMPLETED, run.log.read_text()
    summary = run.part(Summary)
    assert summary.problems.keys() == {"auc"}
    assert "in all 20 rows" in summary.problems["auc"]
    assert summary.final["accuracy"] >= 0.0


def test_a_tasks_metric_has_its_reason_under_the_tasks_name(ended_here: Any) -> None:
    code = """
    class TwoHeads(nn.Module):
        def __init__(self):
            super().__init__()
            self.kind, self.size = nn.Linear(4, 2), nn.Linear(4, 1)
        def forward(self, x):
            return {"kind": self.kind(x), "size": self.size(x)}
    def rows():
        x = torch.randn(40, 4)
        return torch.utils.data.TensorDataset(x, torch.stack([(x[:, 0] > 0).float(), torch.full((40,), 7.0)], 1))
    """
    tasks = {"kind": {"outputs": 2, "metrics": ["accuracy"]}, "size": {"outputs": 1, "loss": "mse", "metrics": ["r2"]}}
    objective = {"name": "multi_task", "tasks": tasks}
    values = {**PARTS, "model": {"use": "mine:TwoHeads"}, "data": {"use": "mine:rows"}, "objective": objective}
    run = ended_here(code, values, kind=RunKind.SMOKE, max_steps=3)
    assert run.status().state is RunState.COMPLETED, run.log.read_text()
    assert {name: why.partition(",")[0] for name, why in run.part(Summary).problems.items()} == {
        "size_r2": "all 6 targets are 7"
    }
