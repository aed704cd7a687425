"""The resume probe of smoke runs names what a step keeps outside of checkpoints, before anything is built on it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.trainer.users import MINE, PARTS, TASK
from tests.variants import variants

from trainwright.trainer.run import RunDirectory, RunKind

TASKED = (
    MINE
    + """
import random
COUNT, OWN = [0], torch.Generator().manual_seed(3)
class Scaled(Net):
    scale = 1.0
    def forward(self, x):
        self.scale *= 0.5 if self.training else 1.0
        return super().forward(x) * (1 + self.scale)
class Forgetting(Net):
    '''Saves what it counts, and loses it as it is loaded.'''
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(()))
    def forward(self, x):
        self.seen += 1
        return super().forward(x) * (1 + 0.1 * self.seen)
    def _load_from_state_dict(self, *args):
        super()._load_from_state_dict(*args)
        self.seen.zero_()
class Counted(Net):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(()))
    def forward(self, x):
        self.seen += 1
        return super().forward(x) * (1 + 0.1 * self.seen)
def loss(model, x, y): return nn.functional.cross_entropy(model(x), y)
def counting(model, batch, context):
    COUNT[0] += 1
    return {"loss": loss(model, *batch) * (1 + COUNT[0])}
def drawing(model, batch, context):
    return {"loss": loss(model, *batch) * (1 + torch.rand((), generator=OWN))}
def keeping(model, batch, context):
    context.state["count"] = context.state.get("count", 0) + 1
    return {"loss": loss(model, *batch) * (1 + context.state["count"] + torch.rand(()) + random.random())}
def build(config): return {"model": MODEL(), "train": data(), "validation": data(16), KEY: STEP}
"""
)
LOST: dict[str, dict[str, Any]] = {
    "a module's variable": {"step": "counting"},
    "an attribute": {"model": "Scaled"},
    "a generator of its own": {"step": "drawing"},
    "lost as it is loaded": {"model": "Forgetting"},
}
SAVED: dict[str, dict[str, Any]] = {
    "context": {"step": "keeping"},
    "buffer": {"model": "Counted"},
    "averages": {"weight_averaging": {"name": "ema"}},
    "averages on the way": {"optimizer": {"name": "schedule_free_adamw"}, "schedule": {"name": "constant"}},
}


def smoke(ended: Any, model: str = "Net", step: str = "", **more: Any) -> RunDirectory:
    code = TASKED.replace("MODEL", model).replace(
        "KEY: STEP", f'"step": {step}' if step else '"loss": nn.CrossEntropyLoss()'
    )
    values = TASK if step or model != "Net" else PARTS
    run: RunDirectory = ended(code, {**values, **more}, kind=RunKind.SMOKE, max_steps=4)
    return run


@pytest.mark.requirement("REPRO-6", "CKPT-2", "GATE-1")
@pytest.mark.parametrize("kept", variants(LOST, quick=["an attribute"]))
def test_state_that_no_checkpoint_has_is_named_by_the_smoke_run(ended: Any, kept: str) -> None:
    failure = smoke(ended, **LOST[kept]).status().failure
    assert failure is not None
    assert "a fresh process loaded the checkpoint of step 4" in failure.message
    assert "context.state" in failure.remedy


@pytest.mark.requirement("REPRO-6", "GATE-1")
@pytest.mark.parametrize("kept", variants(SAVED, quick=["context"]))
def test_what_the_checkpoint_has_is_resumed_exactly_and_said(ended: Any, kept: str) -> None:
    run = smoke(ended, **SAVED[kept])
    assert run.status().failure is None
    [event] = [event for event in run.events() if event.kind == "resume_probe"]
    assert event.data == {"from_step": 4, "steps": 3, "difference": None}
