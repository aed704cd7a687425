"""IA3: learned factors of keys, values and inner activations; fewer parameters than LoRA at any rank."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from trainwright.trainer.base.section import Patterns
from trainwright.trainer.models.adapters.section import InjectedSection

if TYPE_CHECKING:
    from torch import nn


class Ia3Section(InjectedSection):
    """Infused adapter (Liu et al. 2022, arXiv:2205.05638): activations are multiplied by learned vectors."""

    mark = "ia3_"

    name: Literal["ia3"] = "ia3"
    feedforward: Patterns | None = None
    """Adapted modules whose inputs are multiplied, of the others it is the outputs; null: peft's choice by model."""

    def _config(self, model: nn.Module, modules: list[str], **common: Any) -> Any:
        from peft import IA3Config

        return IA3Config(target_modules=modules, feedforward_modules=self._inner(model, modules), **common)

    def _inner(self, model: nn.Module, modules: list[str]) -> list[str]:
        from trainwright.trainer.optimization.parameters import matching

        if self.feedforward is None:
            from peft.utils.constants import TRANSFORMERS_MODELS_TO_IA3_FEEDFORWARD_MODULES_MAPPING as INNER

            return _ending(modules, INNER.get(_kind(model), []))
        chosen = matching([f"{name}.weight" for name in modules], self.feedforward, "adapter.feedforward", "target")
        return [name.removesuffix(".weight") for name in chosen]

    def _preferred(self, model: nn.Module, layers: list[str]) -> list[str]:
        """Return the layers that peft names for the model's kind; all for one that it does not know."""
        from peft.utils.constants import TRANSFORMERS_MODELS_TO_IA3_TARGET_MODULES_MAPPING as CHOSEN

        return _ending(layers, CHOSEN.get(_kind(model), [])) or layers


def _kind(model: nn.Module) -> str:
    return str(getattr(getattr(model, "config", None), "model_type", ""))


def _ending(names: list[str], ends: list[str]) -> list[str]:
    return [name for name in names if any(name == end or name.endswith(f".{end}") for end in ends)]
