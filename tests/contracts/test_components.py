"""What every component of a run's state promises: saved and loaded it is the same, and without it the run is not."""

from __future__ import annotations

import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.trainer.saving import checkpoint_of

from trainwright.trainer.base.errors import IntegrityError
from trainwright.trainer.checkpoints.packing import pack
from trainwright.trainer.checkpoints.store import LoadedCheckpoint

PROJECTS = Path(__file__).parent.parent / "trainer" / "projects"
ROWS: dict[str, Any] = {
    "model": {"use": "mlp", "args": {"hidden": [16], "dropout": 0.1}},
    "data": {"use": "iris"},
    "loader": {"batch_size": 8},
    "training": {"epochs": 3},
    "logging": {"tensorboard": False},
}
NOISY = {key: value for key, value in ROWS.items() if key not in {"model", "data"}} | {
    "task": {"use": "noisy.py:build"},
    "metrics": ["accuracy"],
}
GATHERED = """
import torch
from torch import nn
def build(config, context):
    x = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))
    data = torch.utils.data.TensorDataset(x, (x[:, 0] > 0).long())
    net = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    def validation_step(model, batch, context):
        return {"loss": nn.functional.cross_entropy(model(batch[0]), batch[1])}
    def train_step(model, batch, context):
        loss = validation_step(model, batch, context)["loss"]
        loss.backward()
        if context.step % 2:
            optimizer.step()
            optimizer.zero_grad()
        return {"loss": loss.detach()}
    return {"model": net, "train": data, "validation": data, "train_step": train_step,
            "validation_step": validation_step, "optimizers": [optimizer]}
"""
CASES: dict[str, dict[str, Any]] = {
    "a task with a state of its own": NOISY,
    "a loss that is scaled": {**ROWS, "training": {"epochs": 3, "precision": "fp16"}},
    "an average of the weights": {**ROWS, "weight_averaging": {"name": "ema", "decay": 0.9}},
    "a Schedule-Free optimizer": {
        **ROWS,
        "optimizer": {"name": "schedule_free_adamw"},
        "schedule": {"name": "constant"},
    },
    "a rate that is lowered": {**ROWS, "schedule": {"name": "plateau", "patience_epochs": 1}},
    "an objective with weights": {**ROWS, "objective": {"name": "contrastive", "outputs": 4}},
    "a train_step that gathers gradients": {**NOISY, "task": {"use": "gathered.py:build"}, "metrics": []},
}
NEEDED = {
    "objective": "an objective with weights",
    "model": "a task with a state of its own",
    "hidden_buffers": "a task with a state of its own",
    "optimizers": "a task with a state of its own",
    "scaler": "a loss that is scaled",
    "training_points": "a Schedule-Free optimizer",
    "averaging": "an average of the weights",
    "gradients": "a train_step that gathers gradients",
    "schedule": "a rate that is lowered",
    "context": "a task with a state of its own",
    "progress": "a task with a state of its own",
    "totals": "a task with a state of its own",
    "generators": "a task with a state of its own",
}
"""By component, a case in which the next steps depend on it. A new component is one line here."""
STEPS_BEFORE, STEPS_AFTER = 3, 3


@pytest.fixture
def opened(tmp_path: Path, open_session: Any) -> Any:
    """`opened(case, name)` assembles a session of the case."""
    (tmp_path / "noisy.py").write_text((PROJECTS / "noisy.py").read_text())
    (tmp_path / "gathered.py").write_text(textwrap.dedent(GATHERED))

    def open_case(case: str, name: str) -> Any:
        return open_session(CASES[case], name)

    return open_case


@pytest.fixture
def saved(opened: Any, take_steps: Any) -> Any:
    """`saved(case)` trains a few steps and returns the session and its checkpoint."""

    def save(case: str) -> tuple[Any, LoadedCheckpoint]:
        session = opened(case, "first")
        take_steps(session, STEPS_BEFORE)
        for epoch, value in enumerate((1.0, 2.0), start=1):  # worse: the plateau lowers its rate
            session.schedule.observe(value, epoch, minimize=True)
        return session, checkpoint_of(session)

    return save


def bits(value: Any) -> tuple[Any, dict[str, bytes]]:
    """Return a nested value as plain values and bytes; the seconds that a run has worked are left out."""
    tensors: dict[str, torch.Tensor] = {}
    packed = pack(value, "all", tensors)
    if isinstance(packed, dict):
        packed = {name: each for name, each in packed.items() if not name.endswith("seconds")}
    return packed, {name: tensor.view(-1).view(torch.uint8).numpy().tobytes() for name, tensor in tensors.items()}


def everything(session: Any) -> dict[str, Any]:
    return {name: bits(component.state_dict()) for name, component in session.components.items()}


@pytest.mark.requirement("REPRO-6", "CKPT-1")
@pytest.mark.parametrize("case", CASES)
def test_each_component_of_a_fresh_session_loads_to_what_was_saved(case: str, saved: Any, opened: Any) -> None:
    session, checkpoint = saved(case)
    wanted = everything(session)
    resumed = opened(case, "resumed")
    assert resumed.components.keys() == session.components.keys()
    resumed.load(checkpoint)
    found = everything(resumed)
    assert [name for name in wanted if found[name] != wanted[name]] == []
    assert session.components.keys() <= NEEDED.keys(), "name a case in which the next steps depend on it"


@pytest.mark.requirement("REPRO-6")
@pytest.mark.parametrize("forgotten", NEEDED)
def test_a_run_that_forgets_any_component_does_not_end_the_same(
    forgotten: str, saved: Any, opened: Any, take_steps: Any
) -> None:
    case = NEEDED[forgotten]
    session, checkpoint = saved(case)
    take_steps(session, STEPS_AFTER)
    whole = everything(session)
    resumed = opened(case, "resumed")
    resumed.load(checkpoint)
    take_steps(resumed, STEPS_AFTER)
    assert everything(resumed) == whole
    lacking = opened(case, "lacking")
    component = lacking.components.pop(forgotten)
    lacking.load(checkpoint)
    lacking.components[forgotten] = component
    take_steps(lacking, STEPS_AFTER)
    assert everything(lacking) != whole


@pytest.mark.requirement("CKPT-2")
def test_a_checkpoint_that_lacks_a_component_is_refused_by_name(saved: Any, opened: Any) -> None:
    case = NEEDED["context"]
    session, checkpoint = saved(case)
    for name in session.components.keys() - {"model"}:
        state = {key: value for key, value in checkpoint.state.items() if key != name}
        with pytest.raises(IntegrityError, match=f"holds no state of `{name}`"):
            opened(case, f"without {name}").load(replace(checkpoint, state=state))
