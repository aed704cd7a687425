"""What the monitor says of runs that a real worker trained."""

from __future__ import annotations

import os
import sys
import time

import numpy as np
import pytest
from tests.worlds.warm import spawn

from trainwright.tools.figures.curves import learning_curves
from trainwright.tools.launchers import Launch
from trainwright.tools.training_monitor import Goal, assess, diagnose, diagnostic_report
from trainwright.trainer import worker
from trainwright.trainer.config import config_digest, parse_config
from trainwright.trainer.run import RunDirectory, RunKind, RunSpecification, RunState
from trainwright.trainer.run.environment import launch_environment

pytestmark = pytest.mark.slow

GOAL = Goal(metric="accuracy", direction="maximize", target=0.9)
BY_ACCURACY = {"metrics": ["accuracy"], "selection": {"metric": "accuracy", "direction": "maximize"}}
DIGITS = {"model": {"use": "mlp", "args": {"hidden": [64]}}, "data": {"use": "digits"}, **BY_ACCURACY}

SATURATED = """
import torch
from torch import nn

class Saturated(nn.Module):
    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.layer = nn.Linear(width, 1)

    def forward(self, x):
        return torch.sigmoid(self.layer(1e6 * x))  # unscaled inputs: the sigmoid is flat where they fall
"""

DEAF = """
from torch import nn

class Deaf(nn.Module):
    def __init__(self, width: int = 8, **arguments) -> None:
        super().__init__()
        self.layer = nn.Linear(64, 10)  # whatever `width` says

    def forward(self, x):
        return self.layer(x.flatten(1))
"""


@pytest.fixture(scope="module")
def train(tmp_path_factory):
    """Train a configuration in a worker process and return its run."""
    root = tmp_path_factory.mktemp("real")
    draw = np.random.default_rng(0)
    inputs = draw.normal(size=(80, 8)).astype(np.float32)
    np.savez(root / "noise.npz", x=inputs, y=draw.integers(0, 2, size=80))
    np.savez(root / "zero_one.npz", x=inputs, y=draw.integers(0, 2, size=(80, 1)).astype(np.float32))
    (root / "saturated.py").write_text(SATURATED, encoding="utf-8")
    (root / "deaf.py").write_text(DEAF, encoding="utf-8")

    def run_worker(name, values):
        config = parse_config({**values, "logging": {"every_n_steps": 10, "tensorboard": False}})
        specification = RunSpecification(
            run_id=name,
            project="digits",
            kind=RunKind.BASELINE,
            config=config,
            config_digest=config_digest(config),
            code_root=str(root),
            validated_by="the smoke run",
        )
        run = RunDirectory.create(root / name, specification)
        environment = {**os.environ, **launch_environment(config)}
        command = [sys.executable, "-P", "-m", worker.__name__, str(run.path)]
        process = spawn(run.path, Launch(attempt=1), command, cwd=root, env=environment, log=run.log.name).process
        while process.is_alive():
            time.sleep(0.01)
        return run

    return run_worker


@pytest.fixture(scope="module")
def digits(train):
    return train("baseline-digits", {**DIGITS, "training": {"epochs": 12, "device": "cpu"}})


@pytest.fixture(scope="module")
def diverged(train):
    optimizer = {"name": "sgd", "learning_rate": 1e3, "weight_decay": 1e6}
    return train("diverged", {**DIGITS, "optimizer": optimizer, "training": {"epochs": 3}})


def ids(run):
    return [alert.id for alert in diagnose(run)]


@pytest.mark.long
@pytest.mark.requirement("PHASE-4", "MON-1", "MON-3")
def test_a_good_run_on_real_digits_is_deployed_with_curves_and_report(digits, tmp_path):
    found = assess(digits, GOAL)
    assert (found.recommendation, found.fit, found.epochs) == ("deploy", "good", 12), found.reasons
    assert found.gradient.steps > 300
    pictures = [learning_curves([digits], tmp_path / "plots" / "learning_curves.png")]
    assert "Recommendation: deploy\n" in diagnostic_report(digits, GOAL, pictures)


@pytest.mark.long
@pytest.mark.requirement("DIAG-1")
def test_a_huge_learning_rate_is_named_as_the_cause_of_a_loss_that_is_not_finite(diverged):
    assert diverged.status().state is RunState.FAILED
    cause, *others = diagnose(diverged)
    assert (cause.id, cause.severity, cause.consequence_of) == ("learning_rate_too_high", "critical", None)
    alert = next(other for other in others if other.id == "nan_loss")
    assert (alert.severity, alert.consequence_of) == ("critical", cause.id)
    assert alert.step == diverged.status().failure.details["step"]
    assert alert.fixes[0].changes == {"optimizer.learning_rate": 100.0}
    assert [point.step for point in diverged.metrics().series("train/loss")] == list(range(1, alert.step + 1))
    assert assess(diverged, GOAL).recommendation == "debug"


@pytest.mark.requirement("DIAG-2")
@pytest.mark.long
def test_a_large_model_on_a_few_random_labels_overfits(train):
    run = train(
        "overfitted",
        {
            "model": {"use": "mlp", "args": {"hidden": [256, 256]}},
            "data": {"use": "npz", "args": {"path": "noise.npz"}, "split": {"validation": 0.3, "test": 0.1}},
            "training": {"epochs": 40},
            "optimizer": {"learning_rate": 3e-3},
            "early_stopping": {"enabled": False},
            **BY_ACCURACY,
        },
    )
    found = assess(run, GOAL)
    assert found.fit == "overfitting", found
    assert found.gap > 0.15
    (alert,) = [alert for alert in found.alerts if alert.id == "overfitting"]
    dropout = next(fix for fix in alert.fixes if fix.id == "dropout")
    assert dropout.changes == {"model.args.dropout": 0.1}, "the worker recorded that mlp takes dropout"


SUGAR = {
    "model": {"use": "mlp"},
    "data": {"use": "diabetes"},  # targets around 150 and a squared loss: gradients in the thousands
    "loss": "mse",
    "metrics": ["r2"],
    "selection": {"metric": "r2", "direction": "maximize"},
    "training": {"epochs": 10},
}


@pytest.mark.long
@pytest.mark.requirement("DIAG-3", "PHASE-10")
def test_unscaled_targets_that_are_learned_are_information_and_a_goal_that_is_met_is_deployed(train):
    run = train("unscaled", {**SUGAR, "optimizer": {"learning_rate": 1e-2}})
    found = assess(run, Goal(metric="r2", direction="maximize", target=0.4))
    assert found.recommendation == "deploy", found.reasons
    (alert,) = [alert for alert in found.alerts if alert.id == "exploding_gradients"]
    assert (alert.severity, alert.measured > 100) == ("info", True)
    scaling = next(fix for fix in alert.fixes if fix.id == "scale_targets").changes
    assert scaling == {"target_scaling": "standardize"}
    scaled = train("scaled", {**SUGAR, **scaling, "optimizer": {"learning_rate": 1e-2}})
    assert "exploding_gradients" not in ids(scaled), "in units of their own the gradients are small"


@pytest.mark.requirement("DIAG-3", "DIAG-8", "PHASE-10")
def test_a_run_that_diverges_is_critical_and_the_first_fix_clears_the_alert(train):
    sick = {**SUGAR, "optimizer": {"learning_rate": 100.0}, "training": {"epochs": 5}}
    run = train("diverging", sick)
    assert run.status().state is RunState.COMPLETED, "the loss climbs and stays finite"
    (alert,) = [alert for alert in diagnose(run) if alert.id == "exploding_gradients"]
    assert alert.severity == "critical", alert
    assert assess(run, GOAL).recommendation == "debug"
    assert alert.fixes[0].changes == {"training.clip_norm": 1.0}
    mended = train("clipped", {**sick, "training": {"epochs": 5, "clip_norm": 1.0}})
    assert "exploding_gradients" not in ids(mended)
    raw, applied = (mended.metrics().tail(f"train/{name}", 1000) for name in ("gradient_norm", "applied_gradient_norm"))
    assert max(point.value for point in raw) > 100
    assert len(raw) == len(applied)
    assert max(point.value for point in applied) == 1.0


@pytest.mark.requirement("DIAG-4")
def test_a_saturated_sigmoid_has_vanishing_gradients(train):
    run = train(
        "vanished",
        {
            "model": {"use": "saturated.py:Saturated"},
            "data": {"use": "npz", "args": {"path": "zero_one.npz"}},
            "loss": "mse",
            "loader": {"batch_size": 8},
            "training": {"epochs": 5},
        },
    )
    assert "vanishing_gradients" in ids(run)


@pytest.mark.long
@pytest.mark.requirement("DIAG-5")
def test_a_real_run_on_the_cpu_is_never_called_inefficient(digits):
    found = assess(digits)
    assert "resource_inefficiency" not in ids(digits)
    assert found.resources.cpu_percent is not None
    assert "not applicable: no GPU was used" in diagnostic_report(digits, GOAL, [])


@pytest.mark.long
@pytest.mark.requirement("DIAG-6", "DIAG-7")
def test_a_rate_far_too_low_stalls_and_underfits(train):
    run = train("stalled", {**DIGITS, "optimizer": {"learning_rate": 1e-9}, "training": {"epochs": 15}})
    assert run.status().stop_reason == "early_stopping"
    assert {"convergence_stall", "underfitting"} <= set(ids(run))
    assert (assess(run, GOAL).fit, assess(run, GOAL).recommendation) == ("guessing", "debug")


@pytest.mark.requirement("DIAG-7")
def test_an_argument_that_the_users_model_does_not_read_is_told_by_the_run_before(train):
    def deaf(name, width):
        model = {"use": "deaf.py:Deaf", "args": {"width": width}}
        return train(name, {**DIGITS, "model": model, "training": {"epochs": 1}})

    first, second = deaf("deaf-1", 8), deaf("deaf-2", 512)
    assert "no_effect" not in ids(first)
    (alert,) = [alert for alert in diagnose(second) if alert.id == "no_effect"]
    assert "model.args.width 8 -> 512 (against deaf-1)" in alert.message
    assert "a key had no effect" in diagnostic_report(second, GOAL, []).lower()
