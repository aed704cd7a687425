"""What every strategy of sharing a run among processes promises, whoever sums the gradients."""

from __future__ import annotations

import importlib.util
import os
import signal
import textwrap
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tests.variants import variants

from trainwright.trainer.base import releases
from trainwright.trainer.run import RunDirectory, RunState

NEWER = {"fsdp2": releases.FSDP2}
"""What is needed of torch beyond its oldest supported release."""
STRATEGIES: dict[str, dict[str, Any]] = {
    "single": {},
    "ddp": {"processes": 2, "restarts": 0},
    "fsdp2": {"processes": 2, "restarts": 0, "strategy": "fsdp2"},
    "deepspeed": {
        "processes": 2,
        "restarts": 0,
        "strategy": "deepspeed",
        "deepspeed": {"zero_optimization": {"stage": 1}},
    },
}
"""A new strategy is one line here."""
STEPS = ("train/loss", "train/gradient_norm", "train/learning_rate")
KEYS = (*STEPS, "train/epoch_loss", "train/accuracy", "validation/loss", "validation/accuracy")
FILES = ("model.safetensors", "optimizer.safetensors")
KILLED_AT = 11
SPOILT = """
import torch
from torch import nn

def build(config, context):
    x = torch.randn(48, 4, generator=torch.Generator().manual_seed(0))
    x[14] = 3e38  # finite, and more than a product may be
    data = torch.utils.data.TensorDataset(x, (x[:, 0] > 0).long())
    return {"model": nn.Linear(4, 2), "train": data, "validation": data, "returns": "output", "shuffle": False}
"""


@pytest.fixture(scope="module", params=variants(STRATEGIES, quick=STRATEGIES.keys() - {"fsdp2"}, newer=NEWER))
def distributed(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The section of each strategy; DeepSpeed's where it is installed."""
    if request.param == "deepspeed":
        if importlib.util.find_spec("deepspeed") is None:
            pytest.skip("the package deepspeed is not installed")
        from trainwright.trainer.strategies.group import load_deepspeed

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            load_deepspeed("cpu")  # once for all forks
    return STRATEGIES[request.param]


@pytest.fixture(scope="module")
def values(iris: Any) -> dict[str, Any]:
    """Seven updates an epoch, each of two batches; the last batch has one row, too few for two processes."""
    training = {"epochs": 2, "clip_norm": 0.5, "accumulation_steps": 2}
    return {**iris, "training": training, "checkpoints": {"checkpoint_every_n_steps": 5}}


@pytest.fixture(scope="module")
def train(tmp_path_factory: Any, make_run: Any, group_work: Any) -> Callable[..., RunDirectory]:
    """`train(values, distributed)` works on a run to its end."""

    def trained(given: dict[str, Any], section: dict[str, Any]) -> RunDirectory:
        run: RunDirectory = make_run(tmp_path_factory.mktemp("whole") / "run", {**given, "distributed": section})
        assert group_work(run) == 0, run.log.read_text()
        return run

    return trained


@pytest.fixture(scope="module")
def alone(values: Any, train: Any) -> RunDirectory:
    """The run of one process."""
    run: RunDirectory = train(values, {})
    return run


@pytest.fixture(scope="module")
def whole(values: Any, distributed: Any, train: Any) -> RunDirectory:
    """The same run under the strategy, never interrupted."""
    run: RunDirectory = train(values, distributed)
    return run


def last(run: RunDirectory, file: str) -> dict[str, torch.Tensor]:
    tensors: dict[str, torch.Tensor] = load_file(max(run.checkpoints.glob("step-*")) / file)
    return tensors


@pytest.mark.requirement("TRAIN-6")
def test_every_update_is_that_of_one_process(whole: RunDirectory, alone: RunDirectory, recorded: Any) -> None:
    for key in STEPS:
        ours, theirs = ([(step, float(value)) for step, value in recorded(run, key)[key]] for run in (whole, alone))
        assert [step for step, _ in ours] == [step for step, _ in theirs] == list(range(1, 15))
        assert [value for _, value in ours] == pytest.approx([value for _, value in theirs], rel=1e-4)
    for name, value in last(alone, "model.safetensors").items():
        torch.testing.assert_close(last(whole, "model.safetensors")[name], value, rtol=1e-3, atol=1e-5)


@pytest.mark.requirement("TRAIN-6", "REPRO-6")
def test_a_run_killed_within_an_epoch_resumes_to_the_same_bits(  # noqa: PLR0917 - fixtures
    tmp_path: Path, values: Any, distributed: Any, whole: RunDirectory, make_run: Any, group_work: Any, recorded: Any
) -> None:
    run = make_run(tmp_path / "killed", {**values, "distributed": distributed})
    assert group_work(run, before=killed_at(KILLED_AT)) != 0
    while run.is_locked():
        time.sleep(0.01)  # for the instant in which the kernel ends the processes
    assert run.status().state is RunState.INTERRUPTED
    lost = [event.data["text"] for event in run.events("note")]
    assert not distributed or "lost a process 1 times" in lost[-1]
    assert group_work(run) == 0, run.log.read_text()
    assert run.events("resumed")[0].data["step"] == 10
    assert recorded(run, *KEYS) == recorded(whole, *KEYS)
    for folder in whole.checkpoints.glob("step-*"):
        for file in FILES:  # every process's own part of the state among them
            assert (run.checkpoints / folder.name / file).read_bytes() == (folder / file).read_bytes()


@pytest.mark.requirement("TRAIN-6", "TRAIN-2")
def test_a_loss_that_is_not_finite_is_named_with_its_step_and_samples(
    tmp_path: Path, distributed: Any, make_run: Any, group_work: Any
) -> None:
    (tmp_path / "spoilt.py").write_text(textwrap.dedent(SPOILT))
    given = {
        "task": {"use": "spoilt.py:build"},
        "loader": {"batch_size": 8},
        "training": {"epochs": 1},
        "logging": {"tensorboard": False},
        "distributed": distributed,
    }
    run = make_run(tmp_path / "run", given, code_root=str(tmp_path))
    assert group_work(run) == 1
    failure = run.status().failure
    assert (failure.category, failure.details["step"]) == ("divergence", 2), run.log.read_text()
    assert failure.details["batch_indices"] == list(range(8, 16)), "of the whole batch"
    assert len(run.events("alert")) == 1


def killed_at(number: int) -> Callable[[], None]:
    """Return a function that arranges for the last process to be killed at a step."""

    def arrange() -> None:
        from trainwright.trainer.engine.observers.recorder import Recorder

        real = Recorder.step

        def step(self: Any, session: Any, result: Any) -> None:
            if result.step == number and os.environ.get("RANK", "1") == "1":
                os.kill(os.getpid(), signal.SIGKILL)
            real(self, session, result)

        Recorder.step = step  # type: ignore[method-assign]

    return arrange
