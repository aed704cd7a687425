"""FSDP2: each process holds a part of every parameter and of its optimizer state; a full tensor only while it is used.

Zhao et al. 2023 (arXiv:2304.11277), in torch's second form (`fully_shard`), whose parameters are DTensors. Checkpoints
hold full tensors, so one process reads them like any other.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard, register_fsdp_forward_method
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.optim import Optimizer

from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.engine.session import Session
from trainwright.trainer.objectives.objective import Work
from trainwright.trainer.strategies.group import Group
from trainwright.trainer.strategies.parallel import Shared


def shard(work: Work, group: Group, device: torch.device) -> None:
    """Divide the model's parameters among the processes: the items of each module list by themselves, then the rest.

    Raises:
        ConfigurationError: the task chose parameters for its optimizer that are replaced by their parts here.
    """
    if work.param_groups is not None:
        raise ConfigurationError(
            "The task returns `param_groups`, whose parameters distributed.strategy fsdp2 replaces by their parts.",
            remedy="Divide them by name with optimizer.groups, or set distributed.strategy ddp.",
        )
    model, mesh = work.model, init_device_mesh(device.type, (group.world_size,))
    layers = [layer for each in model.modules() if isinstance(each, nn.ModuleList) for layer in each]
    for module in (*reversed(layers), model):  # an inner list's items come after the item that they are in
        if any(True for _ in module.parameters()) and not isinstance(module, FSDPModule):
            fully_shard(module, mesh=mesh, reshard_after_forward=True)
    for module in model.modules():
        if isinstance(module, FSDPModule):  # gradients are summed, as everywhere here, not averaged
            module.set_gradient_divide_factor(1.0)
            module.set_force_sum_reduction_for_comms(True)
    if callable(getattr(model, "compute_loss", None)):
        register_fsdp_forward_method(model, "compute_loss")


class Fsdp2(Shared):
    """A part of every weight in each process; the model's own hooks sum the gradients of every micro-batch."""

    def __init__(self, session: Session, group: Group) -> None:
        super().__init__(session, group)
        require_sharded(session.parameters)

    def full(self, value: Any) -> Any:
        """Return a nested value with full tensors in place of divided ones; all processes call it together."""
        return full_tensors(value)

    def part(self, state: dict[str, Any]) -> dict[str, Any]:
        """Return the state as this process holds it: of weights and tensors of their shape, its parts."""
        state, own = super().part(state), self.session.optimizers
        optimizers = {name: divided_optimizer(own[name], saved) for name, saved in state["optimizers"].items()}
        return {**state, "model": divided_model(self.session.model, state["model"]), "optimizers": optimizers}


def require_sharded(parameters: list[nn.Parameter]) -> None:
    """Check that all trained parameters have been divided.

    Raises:
        ConfigurationError: the objective trains auxiliary parameters.
    """
    if not all(isinstance(parameter, DTensor) for parameter in parameters):
        raise ConfigurationError(
            "The objective trains auxiliary parameters, which distributed.strategy fsdp2 does not divide.",
            remedy="Set distributed.strategy ddp.",
        )


def full_tensors(value: Any) -> Any:
    """Return a nested value with full tensors in place of divided ones. All processes must call it together."""
    if isinstance(value, DTensor):
        return value.full_tensor()
    if type(value) in {dict, OrderedDict}:
        return {key: full_tensors(item) for key, item in value.items()}
    if type(value) in {list, tuple}:  # no subclass, such as a named tuple: those hold no parts of ours
        return type(value)(full_tensors(item) for item in value)
    return value


def divided_model(model: nn.Module, saved: dict[str, Any]) -> dict[str, Any]:
    """Return a model's full state as this process's parts."""
    present = model.state_dict()
    return {name: _like(value, present.get(name)) for name, value in saved.items()}


def divided_optimizer(optimizer: Optimizer, saved: dict[str, Any]) -> dict[str, Any]:
    """Return an optimizer's full state as this process's parts: tensors of a parameter's shape are divided like it."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    state = {
        number: {name: _like(value, parameters[number]) for name, value in values.items()}
        for number, values in saved["state"].items()
    }
    return {**saved, "state": state}


def _like(value: Any, present: Any) -> Any:
    if not isinstance(present, DTensor) or not isinstance(value, Tensor) or value.shape != present.shape:
        return value
    moved = value.to(present.device_mesh.device_type)
    return distribute_tensor(moved, present.device_mesh, present.placements, src_data_rank=None)
