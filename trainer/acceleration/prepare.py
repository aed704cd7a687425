"""Preparing a model before it is trained: channels-last memory, gradient checkpointing, compilation.

Chen et al. 2016, arXiv:1604.06174. Dropout draws the same numbers again, and running statistics (batch norm) move
once only, so gradients and buffers are those of the plain pass, bit for bit.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import MethodType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils.checkpoint import checkpoint

from trainwright.trainer.acceleration.compilation import compile_model
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.config.schema import GradientCheckpointingSection
from trainwright.trainer.optimization.parameters import matching
from trainwright.trainer.run import RunKind, RunSpecification


def use_channels_last(model: nn.Module) -> bool:
    """Set the memory format of the model's weights and inputs; return whether any weight has four dimensions."""
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    model.register_forward_pre_hook(_lay_out, with_kwargs=True)
    return any(parameter.dim() == 4 for parameter in model.parameters())


def match_layout(optimizers: Iterable[Optimizer]) -> None:
    """Lay out an optimizer's loaded state like the parameters: a fresh optimizer's state has their layout."""
    for optimizer in optimizers:
        for parameter, state in optimizer.state.items():
            for name, value in state.items():
                if isinstance(value, Tensor) and value.dim() == 4 and value.shape == parameter.shape:
                    state[name] = value.contiguous(memory_format=torch.channels_last)


def _lay_out(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:  # noqa: ARG001
    return tuple(map(_image, args)), {name: _image(value) for name, value in kwargs.items()}


def _image(value: Any) -> Any:
    is_image = isinstance(value, Tensor) and value.dim() == 4 and value.is_floating_point()
    return value.contiguous(memory_format=torch.channels_last) if is_image else value


def recompute(model: nn.Module, section: GradientCheckpointingSection) -> list[str]:
    """Make the chosen modules forget their activations; return their names (empty: the model's method did it).

    Raises:
        ConfigurationError: a pattern matches no module, or none is given and the model has no method of its own.
    """
    if section.modules is None:
        _own_method(model)
        return []
    modules = {name: module for name, module in model.named_modules() if name}
    key = "training.gradient_checkpointing.modules"
    containers = nn.ModuleList | nn.ModuleDict  # never called themselves: their members are
    chosen = [
        inside
        for name in matching(list(modules), section.modules, key, "module")
        for inside in (_members(name, modules) if isinstance(modules[name], containers) else [name])
    ]
    outermost = [name for name in dict.fromkeys(chosen) if not any(name.startswith(f"{other}.") for other in chosen)]
    for name in outermost:
        module = modules[name]
        module.forward = MethodType(_recomputed_forward, module)  # a method, so that a deep copy binds to the copy
    return outermost


def _members(name: str, modules: dict[str, nn.Module]) -> list[str]:
    return [f"{name}.{child}" for child, _ in modules[name].named_children()]


def _own_method(model: nn.Module) -> None:
    for kind in ("activation", "gradient"):  # transformers' present name for it, and the one before
        enable = getattr(model, f"{kind}_checkpointing_enable", None)
        if callable(enable):
            enable(**{f"{kind}_checkpointing_kwargs": {"use_reentrant": False}})
            return
    lists = [name for name, module in model.named_modules() if isinstance(module, nn.ModuleList | nn.Sequential)]
    inside = [f"{name}.*" if name else "*" for name in lists][:5]
    raise ConfigurationError(
        f"{type(model).__name__} has no gradient_checkpointing_enable method.",
        remedy="Name the modules whose activations are to be forgotten: training.gradient_checkpointing.modules "
        f"{inside or [name for name, _ in model.named_children()][:5]}.",
        document="configs/performance.md",
    )


def _recomputed_forward(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
    """Replacement of one module's forward."""
    forward = type(module).forward
    if not (module.training and torch.is_grad_enabled()):
        return forward(module, *args, **kwargs)

    drawn = random.getstate(), np.random.get_state()  # torch's checkpoint keeps torch's generators only

    def contexts() -> tuple[AbstractContextManager[Any], AbstractContextManager[Any]]:
        return nullcontext(), _as_before(module, drawn)

    return checkpoint(forward, module, *args, use_reentrant=False, context_fn=contexts, **kwargs)


@contextmanager
def _as_before(module: nn.Module, drawn: tuple[Any, Any]) -> Iterator[None]:
    """Let the second pass repeat the first one's draws, and work on copies of the statistics, already moved."""
    present = random.getstate(), np.random.get_state()
    places = [part for part in module.modules() if part._buffers]
    kept = [dict(part._buffers) for part in places]
    for part in places:
        part._buffers.update({name: None if value is None else value.clone() for name, value in part._buffers.items()})
    try:
        random.setstate(drawn[0])
        np.random.set_state(drawn[1])
        yield
    finally:
        random.setstate(present[0])
        np.random.set_state(present[1])
        for part, buffers in zip(places, kept, strict=True):
            part._buffers.update(buffers)


def lay_out(model: nn.Module, specification: RunSpecification) -> None:
    """Choose the memory format and the recomputed modules. Raises ConfigurationError as `recompute` does."""
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
