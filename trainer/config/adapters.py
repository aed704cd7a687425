"""Adapters: small matrices that are trained in place of a model's own weights."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from trainwright.trainer.config.section import Patterns, PositiveFloat, Probability, Section


class AdapterSection(Section):
    """Low-rank adaptation (Hu et al. 2021): the model's weights stay, a product of two thin matrices is learned."""

    name: Literal["lora"] = "lora"
    rank: Annotated[int, Field(ge=1, le=2**14)] = 8
    alpha: PositiveFloat = 16.0
    """The learned product is scaled by alpha / rank."""
    dropout: Probability = 0.0
    """Of the adapters' inputs."""
    targets: Patterns | None = None
    """Modules to adapt: every linear layer but the output's where it is left out."""
    train_also: Patterns | None = None
    """Parameters that are trained as a whole; a classifier's new output layer where it is left out."""
