"""Estimates for a GPU against the peaks that its allocator had (docs/gpu.md: H200, torch 2.11, 2026-11-27)."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
from tests.variants import variants

from trainwright.trainer.config import parse_config
from trainwright.trainer.estimation.memory import CONTEXT_BYTES, estimate

PAIRS = Path(__file__).parents[3] / "benchmarks" / "memory" / "pairs.py"
PEAK_MIB = {
    "gpt2 3 M / full fp32, AdamW": 227.4,  # attention with dropout
    "llama 3 M / LoRA bf16": 155.8,
    "bert 4 M / SGD, momentum": 159.5,
    "mlp 9 M / full fp32, AdamW": 200.9,
}


@pytest.mark.long
@pytest.mark.requirement("ARCH-4")
@pytest.mark.parametrize("name", variants(PEAK_MIB, quick=list(PEAK_MIB)[:1]))
def test_the_estimate_for_a_gpu_is_near_the_peak_of_one_and_never_below(name: str, tmp_path: Path) -> None:
    made = runpy.run_path(str(PAIRS))
    made["write_data"](tmp_path)
    [pair] = [each for each in made["pairs"]() if each.name == name]
    memory = estimate(parse_config(pair.config), tmp_path, tmp_path, "cuda").memory
    bound = memory.peak_bytes - CONTEXT_BYTES["cuda"]
    assert abs((bound - memory.parts["margin"]) / 2**20 / PEAK_MIB[name] - 1) < 0.05
    assert bound / 2**20 > PEAK_MIB[name]
