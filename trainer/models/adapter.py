"""Adapters put into a model, and merged into its weights. The options are free of torch, which `build` imports."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.base.section import Patterns, PositiveFloat, Probability, Section

if TYPE_CHECKING:
    from torch import nn

HEADS = ("classifier", "score", "classification_head", "qa_outputs", "lm_head", "head", "embed_out")
"""Names under which libraries keep the layer that gives the output."""


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
    """Parameters that are trained in full; a classifier's new output layer where it is left out."""

    def build(self, model: nn.Module) -> None:
        """Freeze the model, and put trainable adapters beside its linear layers.

        Raises:
            ConfigurationError: a pattern matches nothing, or there is no layer to adapt.
        """
        from peft import LoraConfig, inject_adapter_in_model

        parameters = [name for name, _ in model.named_parameters()]
        also, modules = self._trained_parts(parameters, _linear_layers(model))
        if not modules:
            raise ConfigurationError(
                "`adapter`: the model has no linear layer to adapt.",
                remedy="Name its layers in adapter.targets, or take `adapter` out and train the full model.",
            )
        config = LoraConfig(
            r=self.rank,
            lora_alpha=self.alpha,  # type: ignore[arg-type]  # a float works too
            lora_dropout=self.dropout,
            target_modules=modules,
        )
        inject_adapter_in_model(config, model)
        for name, parameter in model.named_parameters():
            parameter.requires_grad_("lora_" in name or name in also)

    def _trained_parts(self, parameters: list[str], layers: list[str]) -> tuple[list[str], list[str]]:
        """Return the parameters that are trained in full, and the modules that are adapted."""
        from trainwright.trainer.optimization.parameters import matching

        heads = [name for name in parameters if set(name.split(".")) & set(HEADS)]
        also = matching(parameters, self.train_also, "adapter.train_also") if self.train_also else heads
        if self.targets is None:
            return also, [name for name in layers if not any(part.startswith(f"{name}.") for part in also)]
        chosen = matching([f"{name}.weight" for name in layers], self.targets, "adapter.targets")
        return also, [name.removesuffix(".weight") for name in chosen]


def merged(model: nn.Module) -> nn.Module:
    """Return a copy with the adapters merged into the weights; the model itself where it has none."""
    from peft.tuners.lora import LoraLayer

    if not any(isinstance(module, LoraLayer) for module in model.modules()):
        return model
    plain = copy.deepcopy(model)
    for name, module in list(plain.named_modules()):
        if isinstance(module, LoraLayer):
            layer: Any = module
            layer.merge()
            plain.set_submodule(name, layer.get_base_layer())
    return plain


def _linear_layers(model: nn.Module) -> list[str]:
    """Return the names of linear layers, those of the Transformers library (GPT-2) included."""
    from torch import nn

    return [name for name, module in model.named_modules() if isinstance(module, nn.Linear) or _is_conv1d(module)]


def _is_conv1d(module: nn.Module) -> bool:
    return type(module).__name__ == "Conv1D" and type(module).__module__ == "transformers.pytorch_utils"
