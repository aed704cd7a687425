"""An operation that the owner exempts is allowed in the worker, and no other one (REPRO-2)."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional

from trainwright.trainer.base.failures import refusal
from trainwright.trainer.config.schema import ReproducibilitySection
from trainwright.trainer.evidence.determinism_probe import NONDETERMINISTIC
from trainwright.trainer.reproducibility import determinism
from trainwright.trainer.run import RunState

pytestmark = pytest.mark.requirement("REPRO-2")
PUTS = """
import torch
class Net(torch.nn.Linear):
    def __init__(self):
        super().__init__(64, 10)
    def forward(self, x):
        torch.zeros(2).put_(torch.tensor([0]), torch.ones(1))
        return super().forward(x.flatten(1))
"""
OTHER = PUTS.replace("torch.zeros(2).put_(torch.tensor([0]), torch.ones(1))", "torch.nn.functional.max_unpool2d("
                     "torch.ones(1, 1, 1, 1), torch.zeros(1, 1, 1, 1, dtype=torch.int64), 2)")  # fmt: skip


@pytest.fixture
def ended(tmp_path: Path, make_run: Any, work: Any, digits: dict[str, Any]) -> Any:
    """Train a model of the given source under exemptions and return the run."""

    def train(source: str, *exemptions: str) -> Any:
        (tmp_path / "net.py").write_text(source)
        values = {
            **digits,
            "model": {"use": "net.py:Net"},
            "training": {"epochs": 1},
            "logging": {"tensorboard": False},
        }
        run = make_run(tmp_path / "run", values, exemptions=list(exemptions))
        work(run)
        return run

    return train


def test_an_exempted_operation_trains_and_stands_in_the_evidence(ended: Any) -> None:
    run = ended(PUTS, "put_")
    assert run.status().state is RunState.COMPLETED, run.log.read_text()
    record = run.evidence("reproducibility")
    assert record["exemptions"] == ["put_"]
    assert record["settings"]["deterministic_algorithms"] is True
    assert record["probe"]["nondeterministic_operation_refused"] is True
    assert record["probe"]["reason"] == "max_unpooling2d_forward_out"


@pytest.mark.parametrize(("source", "exemptions"), [(PUTS, ()), (OTHER, ("put_",))])
def test_what_is_not_exempted_is_refused_and_the_remedy_asks_the_owner(
    ended: Any, source: str, exemptions: tuple[str, ...]
) -> None:
    run = ended(source, *exemptions)
    failure = run.status().failure
    assert failure is not None
    assert failure.category == "reproducibility"
    name = "put_" if source is PUTS else "max_unpooling2d_forward_out"
    assert failure.details["operation"] == name
    assert f"ask_owner={{'exemption': '{name}'}}" in failure.remedy


@pytest.fixture
def exempted() -> Iterator[Any]:
    """Apply the settings with exemptions in this process, and put back what stood."""
    with warnings.catch_warnings():
        yield lambda *names: determinism.apply_settings(ReproducibilitySection(), names)
    determinism.apply_settings(ReproducibilitySection(deterministic=False))


def test_a_name_exempts_itself_and_no_longer_one(exempted: Any) -> None:
    exempted("put")
    for operation in NONDETERMINISTIC.values():
        with pytest.raises(UserWarning, match="does not have a deterministic implementation"):
            operation()
    exempted(*NONDETERMINISTIC)
    for operation in NONDETERMINISTIC.values():
        operation()


def test_refusals_within_the_backward_pass_are_errors_too(exempted: Any) -> None:
    exempted("put_")
    picture = torch.ones(1, 1, 2, 2, requires_grad=True)

    class Unpooled(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, given: torch.Tensor) -> torch.Tensor:
            return given * 2

        @staticmethod
        def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
            indices = torch.zeros(1, 1, 2, 2, dtype=torch.int64)
            functional.max_unpool2d(gradient, indices, [2, 2])
            return gradient

    with pytest.raises(UserWarning, match="max_unpooling2d_forward_out"):
        Unpooled.apply(picture).sum().backward()


ATTENTION = "Memory Efficient attention defaults to a non-deterministic algorithm. To explicitly enable determinism"


def test_attention_stays_deterministic_on_cuda_while_torch_only_warns(exempted: Any, monkeypatch: Any) -> None:
    """Torch's kernels for attention take a non-deterministic way as soon as an exemption makes it warn (torch 2.6)."""
    enabled = torch.backends.cuda.flash_sdp_enabled, torch.backends.cuda.mem_efficient_sdp_enabled
    exempted("put_")
    with pytest.raises(UserWarning, match="non-deterministic algorithm") as warned:
        warnings.warn(ATTENTION, stacklevel=1)
    found = refusal(warned.value)
    assert found is not None
    assert found.details["operation"] == "Memory Efficient attention"
    assert all(each() for each in enabled), "on the CPU attention has its own kernels"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    try:
        exempted("put_")
        assert not any(each() for each in enabled)
        assert torch.backends.cuda.math_sdp_enabled()
    finally:
        torch.backends.cuda.enable_flash_sdp(True)
        torch.backends.cuda.enable_mem_efficient_sdp(True)
        torch.backends.cuda.enable_cudnn_sdp(True)


@pytest.mark.parametrize("name", ["median CUDA with indices output", "_histc_cuda with floating point input", "put_"])
def test_a_name_with_blanks_is_reported_and_exempted_whole(exempted: Any, name: str) -> None:
    message = f"{name} does not have a deterministic implementation, but you set 'torch.use_deterministic_algorithms'"
    found = refusal(RuntimeError(f"Exception in a hook: {message}"))
    assert found is not None
    assert found.details["operation"] == name
    exempted(name)
    warnings.warn(message, stacklevel=1)
    with pytest.raises(UserWarning):
        warnings.warn(message.replace(name, "cumsum_cuda_kernel"), stacklevel=1)
