"""What of the configuration changes the model before it is trained. An export works on the plain model."""

from __future__ import annotations

import torch
from torch import nn

from trainwright.trainer.acceleration.compilation import compile_model
from trainwright.trainer.acceleration.memory_format import use_channels_last
from trainwright.trainer.acceleration.recomputation import recompute
from trainwright.trainer.run import RunKind, RunSpecification


def lay_out(model: nn.Module, specification: RunSpecification) -> None:
    """Choose the memory format and what is recomputed. Raises ConfigurationError as `recompute` does."""
    training = specification.config.training
    if specification.kind is RunKind.EXPORT:
        return
    if training.channels_last:
        use_channels_last(model)
    if training.gradient_checkpointing is not None:
        recompute(model, training.gradient_checkpointing)


def compile_where_asked(model: nn.Module, specification: RunSpecification, device: torch.device) -> None:
    """Compile the model, once it was tried in plain form. Raises ConfigurationError without a compiler."""
    section = specification.config.training.compile
    if section is not None and specification.kind is not RunKind.EXPORT:
        compile_model(model, section, device)
