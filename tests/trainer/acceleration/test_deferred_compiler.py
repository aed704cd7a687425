"""A run that compiles nothing does not pay for the import of torch's compiler; one that compiles gets it whole."""

from __future__ import annotations

import subprocess
import sys

import pytest
from tests.function_text import body_of

pytestmark = pytest.mark.slow


def train_uncompiled_and_compiled() -> None:
    import sys

    import torch

    from trainwright.trainer.acceleration.compilation import COMPILER, defer_compiler

    def trained(model, steps):
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
        for _ in range(steps):
            optimizer.zero_grad()
            model(torch.ones(2, 3)).square().sum().backward()
            optimizer.step()
        optimizer.load_state_dict(optimizer.state_dict())
        return [p.detach().clone() for p in model.parameters()]

    def linear():
        torch.manual_seed(0)
        return torch.nn.Linear(3, 1)

    defer_compiler()
    plain = trained(linear(), 3)
    assert "sympy" not in sys.modules, "the compiler was imported"
    assert not hasattr(sys.modules[COMPILER], "__wrapped__"), "looking at it imports nothing"
    assert "sympy" not in sys.modules
    torch._dynamo.reset()  # whatever else is asked of it is the compiler's own
    assert "sympy" in sys.modules
    assert sys.modules[COMPILER] is torch._dynamo
    assert torch._dynamo.config is not None
    again = trained(linear(), 3)
    assert all(map(torch.equal, plain, again))
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward

    compiled = torch.compile(linear(), backend=backend)
    trained(compiled, 2)
    assert graphs, "the model was compiled"
    defer_compiler()
    assert hasattr(sys.modules[COMPILER], "__path__"), "no placeholder once it is imported"
    print("whole")


@pytest.mark.long
@pytest.mark.requirement("TRAIN-2")
def test_an_uncompiled_run_leaves_the_compiler_out_and_a_compiled_one_gets_it_whole() -> None:
    command = [sys.executable, "-P", "-c", body_of(train_uncompiled_and_compiled)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.stdout.strip() == "whole", done.stderr
