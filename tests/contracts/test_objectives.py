"""What every objective promises: built from its defaults it learns, it resumes exactly, it refuses a user's step."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from tests.releases import needs
from tests.trainer.saving import checkpoint_of

from trainwright.trainer.base import releases
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.base.section import form_of
from trainwright.trainer.engine.evaluation import evaluate_split
from trainwright.trainer.models.small import MLP
from trainwright.trainer.objectives.sections import OBJECTIVES

pytestmark = [pytest.mark.slow, pytest.mark.requirement("TRAIN-5")]

TEACHER = {"use": "mlp", "args": {"hidden": [24]}, "weights": "teacher.safetensors"}
LEAST: dict[str, dict[str, Any]] = {
    "supervised": {},
    "distillation": {"teacher": TEACHER},
    "adversarial": {"epsilon": 0.1},
    "contrastive": {},
    "multi_task": {"tasks": {"kind": {"outputs": 2}, "size": {"loss": "mse", "outputs": 1}}},
}
"""The keys without a default of each: a new objective is one line here."""
MORE: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("distillation", {"features": [{"student": "layers.2", "teacher": "layers.2", "weight": 0.5}]}, {}),
    ("distillation", {}, {"weight_averaging": {"name": "ema"}}),
    ("adversarial", {"attack": "fgsm", "clean_weight": 0.5, "clip_range": [-3, 3]}, {}),
    ("contrastive", {}, {"weight_averaging": {"name": "ema"}}),
    ("multi_task", {}, {"optimizer": {"name": "sgd", "learning_rate": 1e-4}}),
    ("multi_task", {}, {"optimizer": {"name": "schedule_free_adamw"}, "schedule": {"name": "constant"}}),
]
"""What else of each objective, and around it, is resumed."""
MUON = {"optimizer": {"name": "muon"}}
WITH_MUON = [
    pytest.param("contrastive", changes, MUON | around, marks=needs(releases.MUON))
    for changes, around in (({"projection": [8]}, {}), ({}, {"weight_averaging": {"name": "ema"}}))
]
ROWS = """
import torch
from torch import nn

x = torch.randn(160, 4, generator=torch.Generator().manual_seed(0))
kind = (x[:, 0] + x[:, 1] > 0).long()

def divided(target):
    parts = {"train": slice(128), "validation": slice(128, 160)}
    return {name: torch.utils.data.TensorDataset(x[rows], target[rows]) for name, rows in parts.items()}
def kinds():
    return divided(kind)
def kinds_and_sizes():
    return divided(torch.stack([kind.float(), 3 * x[:, 2]], 1))

def step(model, batch, context):
    output = model(batch[0])
    return {"loss": nn.functional.cross_entropy(output, batch[1]), "output": output, "target": batch[1]}
def own_step(config):
    return {"model": nn.Linear(4, 2), **kinds(), "step": step}
def own_train_step(config):
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    def train_step(model, batch, context):
        optimizer.zero_grad()
        loss = step(model, batch, context)["loss"]
        loss.backward()
        optimizer.step()
        return {"loss": loss.detach()}
    return {"model": model, **kinds(), "train_step": train_step, "validation_step": step, "optimizers": [optimizer]}
"""


@pytest.fixture(autouse=True)
def root(tmp_path: Path) -> Path:
    """A code root with rows of two kinds, and the weights of a teacher that was not trained."""
    (tmp_path / "rows.py").write_text(ROWS)
    torch.manual_seed(3)
    save_file(MLP((4,), 2, hidden=(24,)).state_dict(), tmp_path / "teacher.safetensors")
    return tmp_path


def values_of(name: str, changes: dict[str, Any] | None = None, around: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return a configuration of the objective on the rows."""
    return {
        "model": {"use": "mlp", "args": {"hidden": [16], "dropout": 0.1}},
        "data": {"use": "rows:kinds_and_sizes" if name == "multi_task" else "rows:kinds"},
        "loader": {"batch_size": 8},
        "training": {"epochs": 5},
        "logging": {"tensorboard": False},
        "objective": {"name": name, **LEAST[name], **(changes or {})},
        **(around or {}),
    }


def test_every_objective_of_the_registry_is_held_to_the_contract() -> None:
    assert LEAST.keys() == {form_of(objective) for objective in OBJECTIVES}


@pytest.mark.parametrize("name", LEAST)
def test_it_builds_from_its_defaults_and_lowers_its_loss(name: str, open_session: Any, take_steps: Any) -> None:
    session = open_session(values_of(name))
    measured = [evaluate_split(session, session.validation_loader)["loss"]]
    for _ in range(3):
        take_steps(session, len(session.train_loader))
        session.progress.epoch, session.progress.batch = session.progress.epoch + 1, 0
        session.totals.reset()
        measured.append(evaluate_split(session, session.validation_loader)["loss"])
    assert measured[-1] < measured[0], measured


def bits_of(session: Any) -> tuple[Any, dict[str, bytes]]:
    """Return the whole state of a session but its clocks: plain values, and tensors as bytes."""
    model, state, tensors = session.state()
    state["progress"] = {name: value for name, value in state["progress"].items() if "seconds" not in name}
    return state, {name: value.numpy().tobytes() for name, value in (model | tensors).items()}


@pytest.mark.requirement("REPRO-6")
@pytest.mark.parametrize(("name", "changes", "around"), [*((name, {}, {}) for name in LEAST), *MORE, *WITH_MUON])
def test_it_resumes_exactly_with_all_that_it_has_beside_the_model(
    name: str, changes: dict[str, Any], around: dict[str, Any], open_session: Callable[..., Any], take_steps: Any
) -> None:
    values = values_of(name, changes, around)
    open_session(values, "warm")  # what a process imports the first time draws from Python's generator
    whole = open_session(values, "whole")
    take_steps(whole, 9)
    expected = evaluate_split(whole, whole.validation_loader), bits_of(whole)
    first = open_session(values, "first")
    untrained = {key: value.clone() for key, value in first.auxiliary.modules.state_dict().items()}
    take_steps(first, 4)
    checkpoint = checkpoint_of(first)
    resumed = open_session(values, "resumed")
    torch.rand(7)  # the generators stand anywhere
    resumed.load(checkpoint)
    take_steps(resumed, 5)
    assert (evaluate_split(resumed, resumed.validation_loader), bits_of(resumed)) == expected
    assert resumed.progress.step == 9
    beside = resumed.auxiliary.modules
    assert all(any(one is trained for trained in resumed.parameters) for one in beside.parameters())
    assert not any(torch.equal(value, untrained[key]) for key, value in beside.state_dict().items()), "they are trained"
    assert not beside.state_dict().keys() & resumed.state()[0].keys(), "they are no part of the model"


@pytest.mark.parametrize("name", [name for name in LEAST if name != "supervised"])
def test_it_refuses_a_train_step_of_the_users_with_the_remedy(name: str, open_session: Any) -> None:
    values = {key: value for key, value in values_of(name).items() if key not in {"model", "data"}}
    with pytest.raises(ConfigurationError, match="the task's train_step makes the updates itself") as refused:
        open_session({**values, "task": {"use": "rows:own_train_step"}})
    assert refused.value.remedy == "Leave `objective` out, or return `step` or plain parts from the task."


@pytest.mark.parametrize("name", ["distillation", "contrastive", "multi_task"])
def test_one_that_calls_the_model_refuses_a_step_of_the_users_with_the_remedy(name: str, open_session: Any) -> None:
    values = {key: value for key, value in values_of(name).items() if key not in {"model", "data"}}
    with pytest.raises(ConfigurationError, match="calls the model itself|`step` calls the model itself") as refused:
        open_session({**values, "task": {"use": "rows:own_step"}})
    assert "Return plain parts from the task" in str(refused.value.remedy)
