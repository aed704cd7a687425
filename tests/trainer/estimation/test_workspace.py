"""What kernels take for themselves, against the allocator's reports (trainer/estimation/workspace.py)."""

from __future__ import annotations

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from trainwright.trainer.estimation.workspace import PRODUCT_BYTES, workspace

aten = torch.ops.aten
PLAIN = ([1, 1], [1, 1], [1, 1], False, [0, 0], 1)
STRIDED = ([2, 2], [1, 1], [1, 1], False, [0, 0], 1)
POINTWISE = ([2, 2], [0, 0], [1, 1], False, [0, 0], 1)
CASES = {
    "plain": ((16, 64, 32, 32), (64, 64, 3, 3), PLAIN),
    "more weights than pictures": ((4, 256, 8, 8), (256, 256, 3, 3), PLAIN),
    "strided": ((16, 64, 32, 32), (128, 64, 3, 3), STRIDED),
    "shortcut": ((16, 64, 32, 32), (128, 64, 1, 1), POINTWISE),
    "three channels": ((16, 3, 32, 32), (64, 3, 3, 3), PLAIN),
    "depthwise": ((16, 64, 16, 16), (64, 1, 3, 3), ([1, 1], [1, 1], [1, 1], False, [0, 0], 64)),
    "transposed": ((8, 64, 14, 14), (64, 32, 3, 3), ([2, 2], [1, 1], [1, 1], True, [0, 0], 1)),
    "one picture": ((1, 64, 56, 56), (16, 64, 3, 3), PLAIN),
    "kernel longer than its pictures": ((16, 64, 2, 2), (64, 64, 3, 3), PLAIN),
}
CLOSE = ("plain", "more weights than pictures", "strided")


def taken(call) -> int:
    """Return the bytes that the allocator handed out at the most during a call, its results left out."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as listening:
        result = call()
    events = [event for event in listening.profiler.kineto_results.events() if event.name() == "[memory]"]
    held = highest = 0
    for event in sorted(events, key=lambda one: one.start_ns()):
        held += event.nbytes()
        highest = max(highest, held)
    results = result if isinstance(result, tuple) else (result,)
    return highest - sum(each.numel() * each.element_size() for each in results if each is not None)


@pytest.mark.requirement("ARCH-4")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_no_convolution_takes_more_than_its_bound(name: str, dtype: torch.dtype) -> None:
    shape, weights, how = CASES[name]
    x, weight = torch.randn(shape, dtype=dtype), torch.randn(weights, dtype=dtype)
    y = aten.convolution.default(x, weight, None, *how)
    backward = (torch.ones_like(y), x, weight, None, *how, [True, True, False])
    for func, args in (
        (aten.convolution.default, (x, weight, None, *how)),
        (aten.convolution_backward.default, backward),
    ):
        bound, true = workspace(func, args), taken(lambda func=func, args=args: func(*args))
        assert 0 < true <= bound
        if name in CLOSE and dtype is torch.float32:
            whole = sum(one.numel() * one.element_size() for one in (x, weight, y))
            assert bound - true <= 0.15 * whole


@pytest.mark.requirement("ARCH-4")
def test_sums_need_no_more_than_their_results() -> None:
    x = torch.randn(64, 64)
    assert workspace(aten.mm.default, (x, x)) == 0
    assert workspace(aten.add.Tensor, (x, x)) == 0


@pytest.mark.requirement("ARCH-4")
@pytest.mark.parametrize("side", [16, 32, 64, 100, 128, 512])
def test_no_16_bit_product_takes_more_than_its_bound(side: int) -> None:
    short = torch.randn(side, side).bfloat16()
    bound = workspace(aten.mm.default, (short, short))
    assert taken(lambda: aten.mm.default(short, short)) <= bound
    assert bound <= 4 * side * side + PRODUCT_BYTES * torch.get_num_threads()
