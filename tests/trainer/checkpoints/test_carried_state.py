"""What user code keeps in context.state between steps: it resumes to the bit, or is refused before it is too late."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest

from trainwright.trainer.base.errors import UserCodeError
from trainwright.trainer.run import RunState

VALUES: dict[str, Any] = {
    "task": {"use": "carried.py:build"},
    "loader": {"batch_size": 4},
    "training": {"epochs": 2},
    "logging": {"tensorboard": False},
}
BEGINNING = """
import collections
import numpy as np
def parts(net, **others):
    return {"model": net, "train": data(), "validation": data(20), **others}
"""

CARRIED = {
    "what the step makes on its first call": """
    def build(config, context):
        net = Net()
        def step(model, batch, context):
            x, y = batch
            state = context.state
            if "nested" not in state:
                state["nested"] = {"means": [torch.zeros(4), torch.zeros(2)], "count": (0, 0.5), 3: np.zeros(2)}
                state["temperature"] = nn.Parameter(torch.ones(()))
            nested, temperature = state["nested"], state["temperature"]
            if temperature.grad is not None:
                temperature.data -= 0.1 * temperature.grad
                temperature.grad = None
            output = model(x + 0.1 * nested["means"][0] + float(nested[3][0]))
            nested["means"] = [0.9 * nested["means"][0] + x.mean(0), nested["means"][1] + output.detach().mean(0)]
            nested["count"] = (nested["count"][0] + 1, nested["count"][1] * 0.5)
            nested[3] += 0.01
            return {"loss": nn.functional.cross_entropy(output * temperature, y)}
        return parts(net, step=step)
    """,
    "lists and dicts of networks that build made": """
    class Noted(nn.Linear):
        def __init__(self):
            super().__init__(4, 4)
            self.register_buffer("mean", torch.zeros(4), persistent=False)
    def build(config, context):
        net, nets, named = Net(), [Noted(), Noted()], {"a": {"b": Noted()}}
        optimizer = torch.optim.Adam([p for n in (*nets, named["a"]["b"]) for p in n.parameters()], lr=0.1)
        context.state.update(nets=nets, named=named, pair=(nets[0], optimizer))
        def step(model, batch, context):
            optimizer.step()  # with the gradients that the last step left
            optimizer.zero_grad()
            x, y = batch
            for each in nets:
                each.mean = 0.9 * each.mean + x.detach().mean(0)
                x = torch.tanh(each(x)) + 0.1 * each.mean
            return {"loss": nn.functional.cross_entropy(model(named["a"]["b"](x)), y)}
        return parts(net, step=step)
    """,
    "what its functions hold themselves": """
    def build(config, context):
        net = Net()
        queue = context.state["queue"] = torch.zeros(8, 4)
        seen = context.state["seen"] = []
        counts = context.state["counts"] = collections.defaultdict(int)
        def step(model, batch, context):
            x, y = batch
            queue.copy_(torch.cat([queue[len(x):], x]))
            seen.append(float(x.mean()))
            counts[len(seen) % 2] += 1
            pull = queue.mean() + sum(seen) / len(seen) + 0.1 * counts[0]
            return {"loss": nn.functional.cross_entropy(model(x + pull), y)}
        return parts(net, step=step)
    """,
    "one tensor under two names, and names that look alike": """
    def build(config, context):
        net = Net()
        context.state["now"] = context.state["before"] = torch.zeros(4)
        context.state["a"] = {"b": torch.zeros(()), "1": torch.zeros(()), 1: torch.ones(())}
        context.state["a/b"] = torch.full((), 7.0)
        def step(model, batch, context):
            x, y = batch
            state = context.state
            if context.step % 2:
                state["before"], state["now"] = state["now"], x.mean(0)
            else:
                state["before"] = state["now"]
                state["now"] += 0.1
            state["a"]["b"] += 1
            pull = state["before"] - state["now"] + state["a/b"] + state["a"]["1"] - 0.1 * state["a"]["b"]
            return {"loss": nn.functional.cross_entropy(model(x + pull), y)}
        return parts(net, step=step)
    """,
}


@pytest.mark.requirement("REPRO-6", "CKPT-1")
@pytest.mark.parametrize("before", [3, 4])
@pytest.mark.parametrize("case", CARRIED)
def test_what_user_code_carries_resumes_exactly(
    case: str, before: int, tmp_path: Path, mine: str, assert_resumes_exactly: Any
) -> None:
    (tmp_path / "carried.py").write_text(mine + BEGINNING + textwrap.dedent(CARRIED[case]))
    assert_resumes_exactly(VALUES, before=before)


STEP = """
Memory = collections.namedtuple("Memory", "h c")
class Own(torch.Tensor): pass
def build(config, context):
    net = Net()
    def step(model, batch, context):
        x, y = batch
        loss = nn.functional.cross_entropy(model(x), y)
        MAKE
        return {"loss": loss}
    return parts(net, step=step)
"""
REFUSED = {
    "context.state['teacher'] = Net()": ("context.state['teacher'] holds a Net", "in `build`"),
    "context.state.setdefault('nets', {})['a'] = [Net()]": ("context.state['nets']['a'][0] holds a Net", "in `build`"),
    "context.state['o'] = torch.optim.SGD(model.parameters())": ("context.state['o'] holds a SGD", "in `build`"),
    "context.state['n'] = collections.Counter(a=1)": ("context.state['n'] holds a Counter", "plain dict"),
    "context.state['m'] = Memory(x, x)": ("context.state['m'] holds a Memory", "plain tuple"),
    "context.state['t'] = x.as_subclass(Own)": ("context.state['t'] holds a Own", "as_subclass(torch.Tensor)"),
    "context.state['z'] = x.to(torch.complex128)": ("holds a tensor of torch.complex128", "complex64"),
    "context.state['s'] = {1, 2}": ("context.state['s'] holds a set", "Keep tensors"),
    "loop = context.state['l'] = []; loop.append(loop)": ("context.state['l'][0] holds the list that", "once"),
}


@pytest.mark.requirement("REPRO-6", "CONF-1")
@pytest.mark.parametrize("make", REFUSED)
def test_what_no_resumed_run_could_take_up_is_refused_before_training(
    make: str, tmp_path: Path, mine: str, open_session: Any
) -> None:
    (tmp_path / "carried.py").write_text(mine + BEGINNING + STEP.replace("MAKE", make))
    with pytest.raises(UserCodeError) as told:
        open_session(VALUES)
    message, remedy = REFUSED[make]
    assert message in told.value.message
    assert remedy in told.value.remedy


@pytest.mark.requirement("REPRO-6", "CONF-1")
def test_what_a_train_step_makes_too_late_ends_the_run_at_its_first_step(ended_here: Any) -> None:
    code = """
    def build(config, context):
        net = Net()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        def validation_step(model, batch, context):
            return {"loss": nn.functional.cross_entropy(model(batch[0]), batch[1])}
        def train_step(model, batch, context):
            context.state["schedule"] = torch.optim.lr_scheduler.StepLR(optimizer, 1)
            return {"loss": 1.0}
        return {"model": net, "train": data(), "validation": data(20), "train_step": train_step,
                "validation_step": validation_step, "optimizers": [optimizer]}
    """
    run = ended_here(code, {**VALUES, "task": {"use": "mine.py:build"}})
    status = run.status()
    assert (status.state, status.step) == (RunState.FAILED, 1)
    assert status.failure is not None
    assert "context.state['schedule'] holds a StepLR that `build` did not make" in status.failure.message
