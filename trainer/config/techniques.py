"""Techniques that trade memory and speed: precision, recomputation, compilation."""

from __future__ import annotations

from typing import Literal

from trainwright.trainer.base.section import (
    Patterns,
    Section,
)

Precision = Literal["fp32", "tf32", "bf16", "fp16"]


class GradientCheckpointingSection(Section):
    """Forget activations and compute them again in the backward pass: less memory, the same gradients."""

    modules: Patterns | None = None
    """Patterns of module names (`layers.*`); None: the model's own gradient_checkpointing_enable."""


class CompileSection(Section):
    """torch.compile of the model."""

    mode: Literal["default", "reduce-overhead", "max-autotune"] = "default"
    dynamic: bool = False
    """One kernel for every size of batch, instead of one for each."""
