"""One update made by several processes: counts, gradients, losses, totals and state brought together.

Every process goes through the same steps in the same order. Gradients are summed, each process's loss having been
weighted with its share of the terms, so the sum is the gradient of the full batch's mean for any shares. With
two processes it equals, bit for bit, the gradient that one process accumulates from the same two halves.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import reduce
from inspect import signature
from itertools import zip_longest
from types import MethodType
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.parallel import DistributedDataParallel

from trainwright.trainer.base import seeding
from trainwright.trainer.base.errors import ConfigurationError, IntegrityError
from trainwright.trainer.checkpoints.packing import pack
from trainwright.trainer.data.tensors import batch_size
from trainwright.trainer.engine.components import Stateful
from trainwright.trainer.engine.session import Session
from trainwright.trainer.engine.strategy import Strategy
from trainwright.trainer.engine.totals import EpochTotals
from trainwright.trainer.metrics.sums import added
from trainwright.trainer.objectives.objective import Objective, Outcome
from trainwright.trainer.strategies.group import AgreedStop, Group
from trainwright.trainer.supervision.sampling import allowed_cores


class Measured(nn.Module):
    """The objective as a module: inside its forward the model is called in whichever way the objective calls it."""

    def __init__(self, model: nn.Module, objective: Objective, parameters: list[nn.Parameter]) -> None:
        super().__init__()
        self.model, self.objective = model, objective
        self.outcome: Outcome | None = None
        own = {id(parameter) for parameter in self.parameters()}
        self.others = nn.ParameterList([parameter for parameter in parameters if id(parameter) not in own])

    def forward(self, batch: Any) -> Tensor:
        """Return the loss (a scalar) alone: the gradient's exchange follows the graph of the returned value."""
        self.outcome = self.objective(self.model, batch)
        return self.outcome.loss


OWN_STATE = ("generators", "context", "totals", "hidden_buffers")
"""Components that each process has separately in a checkpoint; all others are the same in all."""


def attach(session: Session, group: Group, kind: type[Shared]) -> None:
    """Make the session one of a group's: from here on, every process takes every step together.

    Raises:
        ConfigurationError: the work cannot be shared.
    """
    if session.rule.is_users:
        raise ConfigurationError(
            "`train_step` makes its updates itself, so they cannot be brought together over processes.",
            remedy="Set distributed.processes 1, or return `step`, which hands the loss over.",
        )
    strategy = kind(session, group)
    session.strategy, session.stop = strategy, strategy.stop
    if session.config.distributed.batch_norm == "synchronized":
        synchronize(session.model, lambda: strategy.is_spare)
    _note_crowding(session, group)
    if group.rank:  # dropout, for example, must differ; building the model must not
        seeding.seed_everything(seeding.key_of(session.config.seed, group.rank) & 0xFFFF_FFFF)


def _note_crowding(session: Session, group: Group) -> None:
    wanted, cores = group.local_world_size * session.config.reproducibility.threads, allowed_cores()
    if session.device.type == "cpu" and wanted > cores:
        text = f"{group.local_world_size} processes with {wanted} threads in all share {cores:g} cores of this machine."
        session.run.append_event("note", text=text)


class Shared(Strategy):
    """A group of processes that take every step together; its children say how gradients come together.

    Attributes:
        own_state: the components that each process has separately.
        measured: the model together with its objective.
        wrapped: the module that is called instead, where calling it brings the gradients together.
        spare: for each micro-batch of the update whether this process has no rows in it.
        is_spare: the same of the micro-batch that is being measured.
        number: micro-batches of the update that are measured.
    """

    own_state: tuple[str, ...] = OWN_STATE

    def __init__(self, session: Session, group: Group) -> None:
        self.session, self.group = session, group
        self.is_first, self.watched_process = group.is_first, os.getppid()
        self.measured = Measured(session.model, session.objective, session.parameters)
        self.wrapped: nn.Module = self.measured
        self.spare: list[bool] = []
        self.is_spare, self.number, self._samples = False, 0, 0
        self.stop = AgreedStop(session.stop)

    def begin(self, group: list[Any], counts: list[int]) -> tuple[list[int], int]:
        """Return the counts of this process's micro-batches and the total of the update over all processes."""
        session, loader = self.session, self.session.train_loader
        first = session.progress.batch
        self.spare = [loader.is_spare(first + number) for number in range(len(group))]
        self.number = 0
        counts = [0 if spare else count for spare, count in zip(self.spare, counts, strict=True)]
        samples = sum(batch_size(batch) for spare, batch in zip(self.spare, group, strict=True) if not spare)
        total, self._samples, asking = self.group.sums([sum(counts), samples, int(self.stop.own.asked)])
        self.stop.settle(asked=asking > 0)
        return counts, total

    @property
    def is_last(self) -> bool:
        """Whether the micro-batch that is being measured is the update's last."""
        return self.number == len(self.spare)

    def measure(self, objective: Objective, model: nn.Module, batch: Any) -> Outcome:  # noqa: ARG002 - both are wrapped
        """Compute the loss of one micro-batch; the backward pass of the last one brings the gradients together."""
        self.is_spare = self.spare[self.number]
        self.number += 1
        loss = self.wrapped(batch)
        is_spare, self.is_spare = self.is_spare, False
        outcome, self.measured.outcome = self.measured.outcome, None
        assert outcome is not None  # noqa: S101 - set by the call
        return Outcome(loss) if is_spare else Outcome(loss, outcome.output, outcome.target, outcome.values)

    def finish(self, loss: Tensor) -> Tensor:
        """Return the loss (a scalar) of the update, and give every process the buffers of the first one."""
        self._share_buffers()
        return self.group.total(loss)

    def samples(self, own: int) -> int:  # noqa: ARG002 - those of all were summed when the update began
        """Return the samples of the present update over all processes."""
        return self._samples

    def total(self, value: Tensor) -> Tensor:
        """Return the sum of a tensor of any shape over all processes, on its device."""
        return self.group.total(value)

    def gather(self, value: Any) -> list[Any]:
        """Return every process's value, by rank, in the first; elsewhere nothing."""
        return self.group.gather(value)

    def merged(self, totals: EpochTotals) -> EpochTotals:
        """Return the totals of all processes; outputs and targets in the samples' order, in the first process only."""
        totals.read()
        own = torch.tensor([totals.loss_sum, totals.count], dtype=torch.float64, device=self.session.device)
        loss_sum, count = self.group.total(own).tolist()
        merged = EpochTotals(loss_sum, int(count))
        if self.session.gathers:
            parts = self.group.gather([totals.outputs, totals.targets, totals.sums])
            merged.outputs = _in_order([part[0] for part in parts])
            merged.targets = _in_order([part[1] for part in parts])
            merged.sums = reduce(added, found) if (found := [part[2] for part in parts if part[2]]) else None
        return merged

    def agreed(self, values: dict[str, float]) -> dict[str, float]:
        """Return the first process's values, so that decisions by them are the same everywhere."""
        agreed: dict[str, float] = self.group.agree(values)
        return agreed

    def add_own_states(
        self, packed: dict[str, Any], tensors: dict[str, Tensor], components: Mapping[str, Stateful]
    ) -> None:
        """Put every process's own part of the state into the first one's checkpoint, as `ranks`."""
        kept: dict[str, Tensor] = {}
        prefix = f"ranks/{self.group.rank}"
        own = {name: pack(components[name].state_dict(), f"{prefix}/{name}", kept) for name in self.own_state}
        gathered = self.group.gather({"own": own, "tensors": kept})
        packed["ranks"] = [part["own"] for part in gathered]
        for part in gathered:
            tensors.update(part["tensors"])

    def part(self, state: dict[str, Any]) -> dict[str, Any]:
        """Return the state with this process's own part in the place of the first one's.

        Raises:
            IntegrityError: the checkpoint was written by another number of processes.
        """
        ranks = state.get("ranks") or []
        if len(ranks) != self.group.world_size:
            raise IntegrityError(
                f"The checkpoint holds the state of {max(len(ranks), 1)} processes; {self.group.world_size} resume it.",
                remedy=f"Resume with {max(len(ranks), 1)} processes, or start a new run.",
            )
        return {**state, **ranks[self.group.rank]}

    def require_same(self, checkpoint: str | None) -> None:
        """Hold every process to the checkpoint that the first one resumes.

        Raises:
            IntegrityError: this process found another one.
        """
        first = self.group.agree(checkpoint)
        if first != checkpoint:
            raise IntegrityError(
                f"Rank 0 resumes from {first or 'the beginning'}, and rank {self.group.rank} found "
                f"{checkpoint or 'no checkpoint'}.",
                remedy="All machines must see the same run directory: put the workspace on a shared file system.",
            )

    def _share_buffers(self) -> None:
        by_type: dict[torch.dtype, list[Tensor]] = {}
        for module in self.session.model.modules():
            for name, buffer in module._buffers.items():
                if buffer is not None and name not in module._non_persistent_buffers_set:
                    by_type.setdefault(buffer.dtype, []).append(buffer)
        for buffers in by_type.values():
            flat = torch.cat([buffer.detach().reshape(-1) for buffer in buffers])
            dist.broadcast(flat, src=0)
            if not self.group.is_first:
                with torch.no_grad():
                    for buffer, part in zip(buffers, torch.split(flat, [b.numel() for b in buffers]), strict=True):
                        buffer.copy_(part.view_as(buffer))


class Ddp(Shared):
    """Full weights in every process; torch's DistributedDataParallel sums the gradients."""

    def __init__(self, session: Session, group: Group) -> None:
        super().__init__(session, group)
        self.epoch = -1
        self.trained: list[int] = []

    def begin(self, group: list[Any], counts: list[int]) -> tuple[list[int], int]:
        """Wrap the model anew where it must be, and open the update."""
        if self.epoch != self.session.progress.epoch:
            self._wrap()
        return super().begin(group, counts)

    def measure(self, objective: Objective, model: nn.Module, batch: Any) -> Outcome:
        """Compute the loss, and bring gradients together with the last micro-batch alone."""
        # as no_sync() sets it, here around forward and backward
        self.wrapped.require_backward_grad_sync = self.number + 1 == len(self.spare)  # type: ignore[assignment]
        return super().measure(objective, model, batch)

    def _wrap(self) -> None:
        """Wrap the model anew when an epoch begins with other parameters frozen than the last.

        Unused parameters are looked for in every step, which also keeps torch from dividing the gradients anew after
        the first step: the order of sums is the same in a resumed run.
        """
        self.epoch = self.session.progress.epoch
        trained = [id(parameter) for parameter in self.measured.parameters() if parameter.requires_grad]
        if self.wrapped is self.measured or trained != self.trained:
            self.trained = trained
            # Alike at the very start; later each process may have its own buffers, which a resume has just put back.
            alike = self.session.progress.step == 0
            known = signature(DistributedDataParallel).parameters
            # Before torch 2.7 weights, alike in every process, are sent at any start, and buffers if they are to be.
            sync: dict[str, Any] = {"init_sync" if "init_sync" in known else "broadcast_buffers": alike}
            wrapped = DistributedDataParallel(self.measured, find_unused_parameters=True, **sync)
            wrapped.broadcast_buffers = False  # set here, it leaves them alike at the start in every release of torch
            wrapped.register_comm_hook(None, lambda _, bucket: _summed(bucket))
            self.wrapped = wrapped


def _summed(bucket: Any) -> Any:
    work = dist.all_reduce(bucket.buffer(), async_op=True)
    assert work is not None  # noqa: S101 - asynchronous
    return work.get_future().then(lambda done: done.value()[0])


def _in_order(parts: list[list[Tensor]]) -> list[Tensor]:
    """Return the micro-batches' tensors in the samples' order: of each batch first rank 0's rows, then rank 1's."""
    return [piece for batch in zip_longest(*parts) for piece in batch if piece is not None]


# Batch normalisation over the rows of all processes (Peng et al. 2018, arXiv:1711.07240), on any device.
#
# torch's SyncBatchNorm works on GPUs only, and counts rows that a process has only to keep the others company.


def synchronize(model: nn.Module, is_spare: Callable[[], bool]) -> None:
    """Let every batch normalisation of the model use the rows of all processes while it trains; names and state stay.

    Args:
        model: the trained module.
        is_spare: returns whether this process has no rows in the present micro-batch.
    """
    for module in model.modules():
        if isinstance(module, _BatchNorm):
            module.forward = MethodType(_forward(type(module), is_spare), module)  # type: ignore[method-assign]


def _forward(kind: type[_BatchNorm], is_spare: Callable[[], bool]) -> Any:
    def forward(module: _BatchNorm, rows_NC: Tensor) -> Tensor:  # noqa: N803 - rows, channels, and any places after
        if not module.training:
            return kind.forward(module, rows_NC)
        return normalised(module, rows_NC, counts=not is_spare())

    return forward


def normalised(module: _BatchNorm, rows_NC: Tensor, *, counts: bool) -> Tensor:  # noqa: N803
    """Normalise by mean and variance over all processes, and move the running statistics.

    Args:
        rows_NC: (rows, channels, ...) of this process.
        counts: whether they belong to the batch.
    """
    module._check_input_dim(rows_NC)  # type: ignore[no-untyped-call]
    x = rows_NC.float()
    over = [dim for dim in range(x.dim()) if dim != 1]
    share = 1.0 if counts else 0.0
    number = _sum(x.new_tensor(share * x.numel() / x.shape[1]))
    mean = _sum(x.sum(over) * share) / number
    shape = [-1 if dim == 1 else 1 for dim in range(x.dim())]
    centred = x - mean.view(shape)
    variance = _sum(centred.square().sum(over) * share) / number
    y = centred * torch.rsqrt(variance + module.eps).view(shape)
    if module.affine:
        y = y * module.weight.view(shape) + module.bias.view(shape)
    _move(module, mean.detach(), (variance * number / (number - 1).clamp(min=1)).detach())
    normal: Tensor = y.to(rows_NC.dtype)
    return normal


def _move(module: _BatchNorm, mean: Tensor, variance: Tensor) -> None:
    if module.running_mean is None or module.running_var is None or module.num_batches_tracked is None:
        return
    module.num_batches_tracked.add_(1)
    share = 1.0 / float(module.num_batches_tracked) if module.momentum is None else module.momentum
    module.running_mean.lerp_(mean.to(module.running_mean.dtype), share)
    module.running_var.lerp_(variance.to(module.running_var.dtype), share)


def _sum(value: Tensor) -> Tensor:
    total: Tensor = _Sum.apply(value)  # type: ignore[no-untyped-call]
    return total


class _Sum(torch.autograd.Function):
    """The sum over all processes; its gradient is the sum of theirs."""

    @staticmethod
    def forward(_context: Any, value: Tensor) -> Tensor:
        total = value.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(_context: Any, gradient: Tensor) -> Tensor:
        total = gradient.clone()
        dist.all_reduce(total)
        return total
