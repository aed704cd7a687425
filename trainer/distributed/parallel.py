"""One update made by several processes: counts, gradients, losses, totals and state brought together.

Every process goes through the same steps in the same order. Gradients are summed, each process's loss having been
weighted with its share of the terms, so the sum is the gradient of the whole batch's mean whatever the shares are.
With two processes it is, bit for bit, what one process accumulates from the same two halves.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from trainwright.trainer.checkpoints.packing import pack
from trainwright.trainer.distributed.agreed_stop import AgreedStop
from trainwright.trainer.distributed.batch_norm import synchronize
from trainwright.trainer.distributed.group import Group
from trainwright.trainer.distributed.measured import Measured
from trainwright.trainer.errors import ConfigurationError, IntegrityError
from trainwright.trainer.objectives import Objective, Outcome
from trainwright.trainer.objectives.custom import batch_size
from trainwright.trainer.reproducibility import seeding
from trainwright.trainer.session import Session
from trainwright.trainer.supervision.sampling import allowed_cores
from trainwright.trainer.totals import EpochTotals

if TYPE_CHECKING:
    from trainwright.trainer.distributed.zero import Zero

OWN_STATE = ("generators", "context", "totals", "hidden_buffers")
"""What each process has of its own in a checkpoint; everything else is the same in all."""


def attach(session: Session, group: Group) -> None:
    """Make the session one of a group's: from here on, every process takes every step together.

    Raises:
        ConfigurationError: the work cannot be shared.
    """
    if session.objective is None:
        raise ConfigurationError(
            "`train_step` makes its updates itself, so they cannot be brought together over processes.",
            remedy="Set distributed.processes 1, or return `step`, which hands the loss over.",
        )
    session.parallel = Parallel(session, group, session.objective)
    session.objective = SharedObjective(session.parallel, session.objective)
    if session.config.distributed.batch_norm == "synchronized":
        synchronize(session.model, session.parallel)
    session.stop = AgreedStop(session.stop)
    _note_crowding(session, group)
    if group.rank:  # dropout and the like must differ; building the model must not
        seeding.seed_everything(seeding.key_of(session.config.seed, group.rank) & 0xFFFF_FFFF)


def _note_crowding(session: Session, group: Group) -> None:
    wanted, cores = group.local_world_size * session.config.reproducibility.threads, allowed_cores()
    if session.device.type == "cpu" and wanted > cores:
        text = f"{group.local_world_size} processes with {wanted} threads in all share {cores:g} cores of this machine."
        session.run.append_event("note", text=text)


class Parallel:
    """What the loop asks of the other processes."""

    def __init__(self, session: Session, group: Group, objective: Objective) -> None:
        self.session, self.group, self.objective = session, group, objective
        self.measured = Measured(session.model, objective, session.parameters)
        self.samples = 0
        """Samples of the present update, over all processes."""
        self.spare: list[bool] = []
        """For each micro-batch of the update whether this process takes part without rows of its own."""
        self.number = 0
        """Micro-batches of the update that are measured."""
        self.is_spare = False
        """The same of the micro-batch that is being measured."""
        self.epoch = -1
        self.trained: list[int] = []
        self.wrapped: nn.Module | None = None
        self.is_sharded = session.config.distributed.strategy == "fsdp2"
        if self.is_sharded:
            from trainwright.trainer.distributed.sharded import require_sharded

            require_sharded(session.parameters)
            self.wrapped = self.measured  # its own hooks bring the gradients together, of every micro-batch
        self.zero: Zero | None = None
        """DeepSpeed's engine, where it makes the updates."""
        if session.config.distributed.strategy == "deepspeed":
            from trainwright.trainer.distributed.zero import Zero

            self.zero = Zero(session, self.measured)
            self.wrapped = self.zero.engine

    def begin(self, group: list[Any], counts: list[int]) -> tuple[list[int], int]:
        """Return the counts of this process's micro-batches and the total of the update over all processes."""
        session, loader = self.session, self.session.train_loader
        self._wrap()
        first = session.progress.batch
        self.spare = [loader.is_spare(first + number) for number in range(len(group))]
        self.number = 0
        counts = [0 if spare else count for spare, count in zip(self.spare, counts, strict=True)]
        samples = sum(batch_size(batch) for spare, batch in zip(self.spare, group, strict=True) if not spare)
        stop = session.stop
        assert isinstance(stop, AgreedStop)  # noqa: S101 - see attach
        total, self.samples, asking = self.group.sums([sum(counts), samples, int(stop.own.asked)])
        stop.settle(asked=asking > 0)
        return counts, total

    def measure(self, batch: Any) -> Outcome:
        """Compute the loss of one micro-batch; the backward pass of the last one brings the gradients together."""
        assert self.wrapped is not None  # noqa: S101 - begin has been called
        self.is_spare, last = self.spare[self.number], self.number + 1 == len(self.spare)
        self.number += 1
        if isinstance(self.wrapped, DistributedDataParallel):
            self.wrapped.require_backward_grad_sync = last  # what no_sync() sets, here around forward and backward
        loss = self.wrapped(batch)
        is_spare, self.is_spare = self.is_spare, False
        outcome, self.measured.outcome = self.measured.outcome, None
        assert outcome is not None  # noqa: S101 - set by the call
        return Outcome(loss) if is_spare else Outcome(loss, outcome.output, outcome.target, outcome.values)

    def backward(self, loss: Tensor) -> None:
        """Add to the gradients of the update."""
        if self.zero is None:
            loss.backward()  # type: ignore[no-untyped-call]
        else:
            self.zero.backward(loss, first=self.number == 1, last=self.number == len(self.spare))

    def finish(self, loss: Tensor) -> Tensor:
        """Return the loss of the whole update, and give every process the buffers of the first one."""
        self._share_buffers()
        return self.group.total(loss)

    def merged(self, totals: EpochTotals) -> EpochTotals:
        """Return the totals of all processes; outputs and targets in the samples' order, in the first process only."""
        totals.read()
        own = torch.tensor([totals.loss_sum, totals.count], dtype=torch.float64, device=self.session.device)
        loss_sum, count = self.group.total(own).tolist()
        merged = EpochTotals(loss_sum, int(count))
        if self.session.work.gathers:
            parts = self.group.gather([totals.outputs, totals.targets])
            merged.outputs = _in_order([part[0] for part in parts])
            merged.targets = _in_order([part[1] for part in parts])
        return merged

    def agreed(self, values: dict[str, float]) -> dict[str, float]:
        """Return the first process's values: what is decided by them is decided alike everywhere."""
        agreed: dict[str, float] = self.group.agree(values)
        return agreed

    def add_own_states(self, packed: dict[str, Any], tensors: dict[str, Tensor], tree: dict[str, Any]) -> None:
        """Put every process's own part of the state into the first one's checkpoint, as `ranks`."""
        kept: dict[str, Tensor] = {}
        prefix = f"ranks/{self.group.rank}"
        names = OWN_STATE if self.zero is None else (*OWN_STATE, "optimizers")
        own = {name: pack(tree[name], f"{prefix}/{name}", kept) for name in names}
        gathered = self.group.gather({"own": own, "tensors": kept})
        packed["ranks"] = [part["own"] for part in gathered]
        for part in gathered:
            tensors.update(part["tensors"])

    def own_state(self, state: dict[str, Any]) -> dict[str, Any]:
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
        """Hold every process to the checkpoint that the first one takes up.

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

    def whole(self, value: Any) -> Any:
        """Return a nested value with whole tensors; all processes call it together."""
        if not self.is_sharded:
            return value
        from trainwright.trainer.distributed.sharded import whole

        return whole(value)

    def divided(self, model: dict[str, Any], optimizers: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return whole states of the model and of the optimizers by name as this process holds them."""
        if not self.is_sharded:
            return model, optimizers
        from trainwright.trainer.distributed.sharded import divided_model, divided_optimizer

        own = self.session.optimizers
        parts = {name: divided_optimizer(own[name], state) for name, state in optimizers.items()}
        return divided_model(self.session.model, model), parts

    def _wrap(self) -> None:
        """Wrap the model anew when an epoch begins with other parameters frozen than the last.

        Unused parameters are looked for in every step, which also keeps torch from dividing the gradients anew after
        the first step: the order of sums is the same in a resumed run.
        """
        if self.is_sharded or self.zero is not None or self.epoch == self.session.progress.epoch:
            return
        self.epoch = self.session.progress.epoch
        trained = [id(parameter) for parameter in self.measured.parameters() if parameter.requires_grad]
        if self.wrapped is None or trained != self.trained:
            self.trained = trained
            # Alike at the very start; later each process may hold buffers of its own, which a resume has just put back.
            alike = self.session.progress.step == 0
            wrapped = DistributedDataParallel(
                self.measured, find_unused_parameters=True, forward_sync_buffers=False, init_sync=alike
            )
            wrapped.register_comm_hook(None, lambda _, bucket: _summed(bucket))
            self.wrapped = wrapped

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


class SharedObjective:
    """The objective of the run, measured on this process's share of each batch."""

    def __init__(self, parallel: Parallel, inner: Objective) -> None:
        self.parallel, self.inner = parallel, inner

    def __call__(self, model: nn.Module, batch: Any) -> Outcome:  # noqa: ARG002 - the wrapped model is called
        """Compute the loss; its backward pass takes part in the group's sum."""
        return self.parallel.measure(batch)

    def count(self, batch: Any) -> int:
        """Return the terms of the mean over this process's rows."""
        return self.inner.count(batch)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


def _summed(bucket: Any) -> Any:
    work = dist.all_reduce(bucket.buffer(), async_op=True)
    assert work is not None  # noqa: S101 - asynchronous
    return work.get_future().then(lambda done: done.value()[0])


def _in_order(parts: list[list[Tensor]]) -> list[Tensor]:
    """Return the micro-batches' tensors in the samples' order: of each batch first rank 0's rows, then rank 1's."""
    return [piece for batch in zip_longest(*parts) for piece in batch if piece is not None]
