"""LoRA, and its variants DoRA and rsLoRA: the product of two thin matrices beside each weight."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from trainwright.trainer.base.section import PositiveFloat, Probability
from trainwright.trainer.models.adapters.section import InjectedSection

if TYPE_CHECKING:
    from torch import nn


class LoraSection(InjectedSection):
    """Low-rank adaptation (Hu et al. 2021): the model's weights stay, a product of two thin matrices is learned."""

    mark = "lora_"

    name: Literal["lora"] = "lora"
    rank: Annotated[int, Field(ge=1, le=2**14)] = 8
    alpha: PositiveFloat = 16.0
    """The learned product is scaled by alpha / rank."""
    dropout: Probability = 0.0
    """Of the adapters' inputs."""
    use_dora: bool = False
    """Learn each output's length apart from the weights' direction (Liu et al. 2024, arXiv:2402.09353)."""
    use_rslora: bool = False
    """Scale by alpha / sqrt(rank), which is stable at large ranks (Kalajdzievski 2023, arXiv:2312.03732)."""

    @property
    def scale(self) -> float:
        """The factor of the learned product."""
        return self.alpha / (math.sqrt(self.rank) if self.use_rslora else self.rank)

    def _config(self, model: nn.Module, modules: list[str], **common: Any) -> Any:  # noqa: ARG002 - as its parent
        from peft import LoraConfig

        return LoraConfig(
            r=self.rank,
            lora_alpha=self.alpha,  # type: ignore[arg-type]  # a float works too
            lora_dropout=self.dropout,
            use_dora=self.use_dora,
            use_rslora=self.use_rslora,
            target_modules=modules,
            **common,
        )
