"""The user's own losses and metrics: used, marked as theirs, and never mistaken for built-in ones."""

# ruff: noqa: E501 - tables of one case a line read better than wrapped ones

from __future__ import annotations

from typing import Any

import pytest
from tests.trainer.users import PARTS, TASK

from trainwright.trainer.run import RunState
from trainwright.trainer.run.evidence import Resolved

METRIC = "def {0}(outputs, targets): return 1.0\n"
TAKEN: dict[str, tuple[str, dict[str, Any], str]] = {
    "a built-in name": (METRIC.format("accuracy"), {**PARTS, "metrics": ["f1", {"use": "mine:accuracy"}]}, "`metrics.1` gives a metric of your own the name 'accuracy'"),
    "what the engine measures": (METRIC.format("loss"), {**PARTS, "metrics": [{"use": "mine:loss"}]}, "`metrics.0` gives a metric of your own the name 'loss'"),
    "two of one name": (METRIC.format("own"), {**PARTS, "metrics": [{"use": "mine:own"}, {"use": "mine:own"}]}, "`metrics.1` gives a second metric named 'own'; `metrics.0` gives the first"),
    "a built-in twice": ("", {**PARTS, "metrics": ["f1", "f1"]}, "a second metric named 'f1'"),
    "a task's mapping": ("def build(c): return {'model': Net(), 'train': data(), 'validation': data(20), 'metrics': {'accuracy': lambda o, t: 1.0}}", TASK, "task `mine:build`: `metrics` gives a metric of your own the name 'accuracy'"),
    "a task's function": (METRIC.format("auc") + "def build(c): return {'model': Net(), 'train': data(), 'validation': data(20), 'metrics': [auc]}", TASK, "the name 'auc'"),
    "one of task and configuration": ("def build(c): return {'model': Net(), 'train': data(), 'validation': data(20), 'metrics': ['f1']}", {**TASK, "metrics": ["f1"]}, "task `mine:build`: `metrics` gives a second metric named 'f1'; `metrics.0` gives the first"),
    "a mapping that is returned": ("def own(o, t): return {'accuracy': 1.0}", {**PARTS, "metrics": [{"use": "mine:own"}]}, "`metrics`: 'own' gives a metric of your own the name 'accuracy'"),
    "a number of a step": ("def build(c):\n    def step(m, b, c): return {'loss': m(b[0]).sum(), 'gradient_norm': 0.5}\n    return {'model': Net(), 'train': data(), 'validation': data(20), 'step': step}", TASK, "The step returned 'gradient_norm'"),
}  # fmt: skip


@pytest.mark.requirement("GATE-1", "GATE-5", "CONF-1")
@pytest.mark.parametrize("fault", TAKEN)
def test_no_number_of_the_users_passes_for_a_built_in_one(fault: str, ended_here: Any) -> None:
    code, values, told = TAKEN[fault]
    run = ended_here(code, values)
    failure = run.status().failure
    assert failure.category == "configuration", failure
    assert told in failure.message
    assert "ename" in failure.remedy or "another name" in failure.remedy
    assert run.evidence("summary") is None


@pytest.mark.requirement("TRACK-1", "GATE-1")
def test_a_tasks_metrics_are_marked_as_the_users_and_reports_say_so(ended_here: Any) -> None:
    from trainwright.tools.reports.markdown import metric_label

    code = """
    def own(outputs, targets): return {"own_score": 1.0}
    def build(config): return {"model": Net(), "train": data(), "validation": data(20), "metrics": [own, "f1"]}
    """
    run = ended_here(code, {**TASK, "metrics": ["accuracy"]})
    assert run.status().state is RunState.COMPLETED, run.log.read_text()
    resolved = run.evidence("resolved")
    marks = {metric["name"]: metric["user_defined"] for metric in resolved["metrics"]}
    assert marks == {"accuracy": False, "own": True, "f1": False}
    told = [metric_label(name, run.part(Resolved)) for name in run.evidence("summary")["final"]]
    assert "own_score (user-defined)" in told
    assert "train/own_score (user-defined)" in told
    assert {"loss", "accuracy", "f1", "train/loss", "train/accuracy", "train/f1"} <= set(told)


@pytest.mark.requirement("TRAIN-1", "TRACK-1")
def test_several_labels_a_sample_are_trained_and_measured(ended_here: Any) -> None:
    code = """
    def data():
        x = torch.randn(60, 4, generator=torch.Generator().manual_seed(0))
        return torch.utils.data.TensorDataset(x, (x[:, :2] > 0).float())
    """
    run = ended_here(code, {**PARTS, "loss": "bce_with_logits", "metrics": ["accuracy", "f1"]})
    assert run.status().state is RunState.COMPLETED, run.log.read_text()
    assert 0.0 < run.evidence("summary")["final"]["f1"] <= 1.0


@pytest.mark.requirement("TRAIN-1", "TRACK-1")
def test_own_losses_and_metrics_are_used_and_marked_as_the_users(ended: Any) -> None:
    code = """
    def scaled(output, target, factor): return factor * nn.functional.cross_entropy(output, target)
    class Right:
        def __call__(self, outputs, targets): return {"right": (outputs.argmax(1) == targets).float().mean()}
    """
    values = {**PARTS, "loss": {"use": "mine:scaled", "args": {"factor": 2.0}}, "metrics": [{"use": "mine:Right"}]}
    values |= {"data": {"use": "mine:data", "args": {"rows": 400}}, "optimizer": {"learning_rate": 0.003}}
    run = ended(code, {**values, "selection": {"metric": "right", "direction": "maximize"}})
    assert run.status().state is RunState.COMPLETED, run.log.read_text()
    assert run.evidence("resolved")["metrics"] == [{"name": "Right", "user_defined": True}]
    best, shares = run.evidence("summary")["best"], [one.data["validation"]["right"] for one in run.events("epoch")]
    assert (best["metric"], best["value"]) == ("right", max(shares))
    assert min(shares) < max(shares)
    assert list(run.evidence("code")["files"]) == ["mine.py"]


@pytest.mark.requirement("TRACK-1", "GATE-1")
@pytest.mark.parametrize("judge", ["step", "validation_step"])
def test_reports_say_where_built_in_metrics_compare_what_a_step_of_the_users_returned(
    judge: str, ended_here: Any
) -> None:
    from trainwright.tools.reports.markdown import metric_label

    code = f"""
    def judge(model, batch, context):
        scores = model(batch[0])
        loss = torch.nn.functional.cross_entropy(scores, batch[1])
        return {{"loss": loss, "output": 100 * torch.eye(2)[batch[1]] + scores, "target": batch[1]}}
    def build(config): return {{"model": Net(), "train": data(), "validation": data(20), {judge!r}: judge, "metrics": ["accuracy"]}}
    """
    run = ended_here(code, TASK)
    assert run.status().state is RunState.COMPLETED, run.log.read_text()
    final, resolved = run.evidence("summary")["final"], run.part(Resolved)
    assert final["accuracy"] == 1.0
    assert metric_label("accuracy", resolved) == f"accuracy (from the user's {judge})"
    assert metric_label("loss", resolved) == f"loss (from the user's {judge})"
