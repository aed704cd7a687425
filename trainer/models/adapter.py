"""Adapters put into a model, and merged into its weights (LoRA: https://arxiv.org/abs/2106.09685)."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.base.section import Patterns, PositiveFloat, Probability, Section
from trainwright.trainer.optimization.parameters import matching

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
    """Parameters that are trained as a whole; a classifier's new output layer where it is left out."""


def adapt(model: nn.Module, section: AdapterSection) -> None:
    """Freeze the model, and put trainable adapters beside its linear layers.

    Raises:
        ConfigurationError: a pattern matches nothing, or there is no layer to adapt.
    """
    from peft import LoraConfig, inject_adapter_in_model

    parameters = [name for name, _ in model.named_parameters()]
    heads = [name for name in parameters if set(name.split(".")) & set(HEADS)]
    also = matching(parameters, section.train_also, "adapter.train_also") if section.train_also else heads
    modules = [name for name in _linear_layers(model) if not any(_inside(part, name) for part in also)]
    if section.targets is not None:
        owned = matching([f"{name}.weight" for name in _linear_layers(model)], section.targets, "adapter.targets")
        modules = [name.removesuffix(".weight") for name in owned]
    if not modules:
        raise ConfigurationError(
            "`adapter`: the model has no linear layer to adapt.",
            remedy="Name its layers in adapter.targets, or take `adapter` out and train the whole model.",
        )
    config = LoraConfig(
        r=section.rank,
        lora_alpha=section.alpha,  # type: ignore[arg-type]  # a float works, and says what is meant
        lora_dropout=section.dropout,
        target_modules=modules,
    )
    inject_adapter_in_model(config, model)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_("lora_" in name or name in also)


def merged(model: nn.Module) -> nn.Module:
    """Return a copy whose own weights have taken the adapters in; the model itself where it has none."""
    from peft.tuners.lora import LoraLayer

    if not any(isinstance(module, LoraLayer) for module in model.modules()):
        return model
    whole = copy.deepcopy(model)
    for name, module in list(whole.named_modules()):
        if isinstance(module, LoraLayer):
            layer: Any = module
            layer.merge()
            whole.set_submodule(name, layer.get_base_layer())
    return whole


def _linear_layers(model: nn.Module) -> list[str]:
    from torch import nn

    """Return the names of linear layers, those of the Transformers library's own kind (GPT-2) included."""
    return [name for name, module in model.named_modules() if isinstance(module, nn.Linear) or _is_conv1d(module)]


def _is_conv1d(module: nn.Module) -> bool:
    return type(module).__name__ == "Conv1D" and type(module).__module__ == "transformers.pytorch_utils"


def _inside(parameter: str, module: str) -> bool:
    return parameter.startswith(f"{module}.")
