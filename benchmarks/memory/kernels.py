"""Convolutions of drawn shapes: what their kernels take besides inputs and outputs, against the estimator's bound."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from trainwright.trainer.estimation.workspace import workspace

aten = torch.ops.aten
MAX_VALUES = 4_000_000


def compare(count: int, seed: int = 7) -> dict[str, float]:
    """Measure so many convolutions and their backward passes; return how many lie above their bound."""
    drawn = random.Random(seed)
    shares: dict[bool, list[float]] = {True: [], False: []}
    made = 0
    while made < count:
        call = _draw(drawn)
        if call is None:
            continue
        made += 1
        x, weight, how = call
        with torch.no_grad():
            y = aten.convolution.default(x, weight, None, *how)
        backward = (torch.randn_like(y), x, weight, None, *how, [True, True, False])
        is_plain = not how[3] and max(how[2]) == 1 and how[5] in {1, x.shape[1]}
        for func, args in (
            (aten.convolution.default, (x, weight, None, *how)),
            (aten.convolution_backward.default, backward),
        ):
            taken = measured(lambda func=func, args=args: func(*args))
            shares[is_plain].append(taken / max(workspace(func, args), 1))
    return {
        "plain": len(shares[True]),
        "plain_above": sum(share > 1 for share in shares[True]),
        "plain_most": round(max(shares[True]), 2),
        "others": len(shares[False]),
        "others_above": sum(share > 1 for share in shares[False]),
        "others_most": round(max(shares[False]), 2),
    }


def measured(call: Callable[[], Any]) -> int:
    """Return the bytes that torch's CPU allocator handed out at the most during a call, its results left out."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as listening:
        result = call()
    reports = [event for event in listening.profiler.kineto_results.events() if event.name() == "[memory]"]
    held = highest = 0
    for event in sorted(reports, key=lambda one: one.start_ns()):
        held += event.nbytes()
        highest = max(highest, held)
    results = result if isinstance(result, tuple) else (result,)
    return highest - sum(each.numel() * each.element_size() for each in results if each is not None)


def _draw(drawn: random.Random) -> tuple[Tensor, Tensor, tuple[Any, ...]] | None:
    """Return an input, a weight and a geometry; None for one that is too large."""
    dimensions, taps = drawn.choice([(1, 3), (1, 7), (2, 1), (2, 3), (2, 3), (2, 5), (2, 7), (3, 1), (3, 3)])
    inputs = drawn.choice([1, 3, 8, 16, 20, 32, 48, 64, 96, 128, 256, 512])
    outputs = drawn.choice([1, 8, 10, 16, 32, 64, 100, 128, 256, 512])
    groups = drawn.choice([1, 1, 1, inputs, 4 if inputs % 4 == 0 else 1])
    outputs = inputs if groups == inputs else -(-outputs // groups) * groups
    length = drawn.choice({1: [32, 100, 1024], 2: [4, 7, 14, 28, 32, 56], 3: [4, 8, 12]}[dimensions])
    images, stride = drawn.choice([1, 2, 8, 16, 32]), drawn.choice([1, 1, 1, 2])
    dilation = drawn.choice([1, 1, 1, 2]) if length > 2 * taps else 1
    transposed = drawn.random() < 0.1
    if images * max(inputs, outputs) * length**dimensions * (stride**dimensions if transposed else 1) > MAX_VALUES:
        return None
    dtype = drawn.choice([torch.float32, torch.bfloat16])
    kernel = [taps] * dimensions
    x = torch.randn(images, inputs, *[length] * dimensions, dtype=dtype)
    sides = (inputs, outputs // groups) if transposed else (outputs, inputs // groups)
    if transposed and groups > 1 and outputs % groups:
        return None
    weight = torch.randn(*sides, *kernel, dtype=dtype)
    padding = taps // 2 * dilation
    how = [stride] * dimensions, [padding] * dimensions, [dilation] * dimensions, transposed, [0] * dimensions, groups
    return x, weight, how
