"""Group of processes: how they meet, exchange values, stop together, and load DeepSpeed."""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from safetensors.torch import load, save
from torch import Tensor

from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.checkpoints.packing import pack, unpack
from trainwright.trainer.config import TrainingConfig
from trainwright.trainer.data.order import Share
from trainwright.trainer.run.rank import Placement
from trainwright.trainer.supervision.stop import StopRequest


def load_deepspeed(device: str) -> Any:
    """Import DeepSpeed for a type of device.

    Raises:
        ConfigurationError: it is not installed, or does not load here.
    """
    os.environ.setdefault("DS_ACCELERATOR", device)
    try:
        import deepspeed
    except (ImportError, OSError, RuntimeError) as error:
        raise ConfigurationError(
            f"`distributed.strategy` = 'deepspeed' needs the package deepspeed, which does not load here: {error}.",
            remedy="Install it beside Trainwright (pip install 'trainwright[deepspeed]'), or set distributed.strategy "
            "ddp, or fsdp2 where the model does not fit.",
            document="configs/distributed.md",
        ) from error
    # A kernel for inference on the CPU would be compiled, whose shared memory all runs of a machine have in common.
    deepspeed.ops.__compatible_ops__ = {}
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"torch\.distributed\.")  # its calls of torch
    return deepspeed


_TREE = "/tree"
_present: Group | None = None


class Group:
    """This process among those of its run."""

    def __init__(self, placement: Placement) -> None:
        self.rank, self.world_size = placement.rank, placement.world_size
        self.is_first, self.local_world_size = placement.is_first, placement.local_world_size

    def sums(self, values: Sequence[int]) -> list[int]:
        """Return the sums over all processes, by way of the CPU: nothing waits for a GPU."""
        total = torch.tensor(values, dtype=torch.int64)
        dist.all_reduce(total)
        return total.tolist()

    def total(self, value: Tensor) -> Tensor:
        """Return the sum of a tensor of any shape over all processes, on its device."""
        total = value.detach().clone()
        dist.all_reduce(total)
        return total

    def gather(self, value: Any) -> list[Any]:
        """Return every process's value (of types that checkpoints store), by rank, in the first; elsewhere nothing."""
        own = _to_bytes(value)
        sizes = [0] * self.world_size
        sizes[self.rank] = len(own)
        sizes = self.sums(sizes)
        padded = torch.zeros(max(sizes), dtype=torch.uint8)
        padded[: len(own)] = own
        received = [torch.empty_like(padded) for _ in sizes] if self.is_first else None
        dist.gather(padded, received, dst=0)
        return [_from_bytes(part[:size]) for part, size in zip(received or [], sizes, strict=False)]

    def agree(self, value: Any) -> Any:
        """Return the first process's value in every process."""
        own = _to_bytes(value) if self.is_first else torch.empty(0, dtype=torch.uint8)
        (size,) = self.sums([len(own)])
        sent = own if self.is_first else torch.empty(size, dtype=torch.uint8)
        dist.broadcast(sent, src=0)
        return value if self.is_first else _from_bytes(sent)


class Imagined(Group):
    """Group of which this process is the only real one: its memory shows what one of many would take."""

    def sums(self, values: Sequence[int]) -> list[int]:
        """Return the sums as if all processes had the same values."""
        return [value * self.world_size for value in values]

    def gather(self, value: Any) -> list[Any]:
        """Return the value as that of all processes."""
        return [value] * self.world_size

    def agree(self, value: Any) -> Any:
        """Return the value."""
        return value


@contextmanager
def imagined(processes: int) -> Iterator[None]:
    """Be the first of so many processes inside, whose exchanges move nothing: torch's `fake` process group."""
    global _present  # noqa: PLW0603 - a process is in one group
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", rank=0, world_size=processes, store=FakeStore())
    _present = Imagined(Placement(0, processes, 0, processes))
    try:
        yield
    finally:
        _present = None
        dist.destroy_process_group()


def present() -> Group | None:
    """Return the group that this process has joined; None for a run of one process."""
    return _present


def share_of(size: int | None) -> Share | None:
    """Return the part of each batch of `size` rows that this process takes; None for a run of one process.

    Raises:
        ConfigurationError: each item of the data is a batch, or a batch has fewer rows than there are processes.
    """
    if _present is None:
        return None
    if size is None or size < _present.world_size:
        what = "each item of its data is a batch already" if size is None else f"its batch_size is {size}"
        raise ConfigurationError(
            f"{_present.world_size} processes share the rows of each batch, and the task says that {what}.",
            remedy=f"Return batch_size (at least {_present.world_size}) and single samples, or set "
            "distributed.processes 1.",
        )
    return Share(_present.rank, _present.world_size)


def world_size() -> int:
    """Return how many processes this one has joined, itself included."""
    return 1 if _present is None else _present.world_size


def join(placement: Placement, config: TrainingConfig) -> Group:
    """Meet the other processes.

    Raises:
        ConfigurationError: the launcher started another number of processes than the configuration says, there are
            fewer GPUs than processes on this machine, or DeepSpeed is configured and missing.
    """
    global _present  # noqa: PLW0603 - a process is in one group
    section = config.distributed
    if section.strategy == "deepspeed":
        from trainwright.trainer.strategies.group import load_deepspeed

        load_deepspeed("cuda" if config.training.device != "cpu" and torch.cuda.is_available() else "cpu")
    if placement.world_size != section.processes:
        raise ConfigurationError(
            f"The launcher started {placement.world_size} processes; `distributed.processes` is {section.processes}.",
            remedy=f"Start {section.processes} processes in all, or configure distributed.processes "
            f"{placement.world_size}: the number must be reproduced.",
        )
    on_gpu = config.training.device != "cpu" and torch.cuda.is_available()
    if on_gpu:
        _take_gpu(placement)
    backend = "cpu:gloo,cuda:nccl" if on_gpu and section.backend != "gloo" else "gloo"
    if placement.store is not None:  # one machine: nothing leaves it
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo0" if sys.platform == "darwin" else "lo")
    dist.init_process_group(
        backend,
        init_method=f"file://{placement.store}" if placement.store is not None else "env://",
        rank=placement.rank,
        world_size=placement.world_size,
        timeout=timedelta(seconds=section.timeout_seconds),
    )
    _present = Group(placement)
    return _present


def _take_gpu(placement: Placement) -> None:
    gpus = torch.cuda.device_count()
    if placement.local_world_size > gpus:
        raise ConfigurationError(
            f"{placement.local_world_size} processes on this machine need a GPU each, and there are {gpus}.",
            remedy=f"Set distributed.processes {gpus}, or training.device cpu.",
        )
    torch.cuda.set_device(placement.local_rank)


def _to_bytes(value: Any) -> Tensor:
    tensors: dict[str, Tensor] = {}
    tree = json.dumps(pack(value, "", tensors), allow_nan=False).encode()
    tensors[_TREE] = torch.frombuffer(bytearray(tree), dtype=torch.uint8)
    return torch.frombuffer(bytearray(save(tensors)), dtype=torch.uint8)


def _from_bytes(data: Tensor) -> Any:
    tensors = load(data.numpy().tobytes())
    return unpack(json.loads(tensors.pop(_TREE).numpy().tobytes()), tensors)


class AgreedStop(StopRequest):
    """Collective stop, agreed at the beginning of a step and made after it.

    Attributes:
        own: this process's request.
    """

    def __init__(self, own: StopRequest) -> None:
        self.own = own
        self._agreed = False

    def settle(self, *, asked: bool) -> None:
        """Apply the group's agreement."""
        self._agreed = asked

    @property
    def asked(self) -> bool:
        """Whether the group ends after this step."""
        return self._agreed

    @property
    def reason(self) -> str:
        """Why this process was asked, or `requested` where only another one was."""
        return self.own.reason

    def ask(self, reason: str) -> None:
        """Ask for an orderly end of the group."""
        self.own.ask(reason)

    def listen(self) -> None:
        """See StopRequest."""
        self.own.listen()
