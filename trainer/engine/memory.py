"""Memory advice after a shortage: changes that would fit, measured on a few real samples."""

from __future__ import annotations

import ctypes
import gc
import resource
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

import psutil
import torch
from torch import Tensor, nn

from trainwright.trainer.base import seeding
from trainwright.trainer.base.errors import OutOfMemoryError
from trainwright.trainer.base.failures import known_failure
from trainwright.trainer.data.tensors import to_device
from trainwright.trainer.engine.session import Session

SHARE = 0.75
"""Of the free memory that a plan may count on: allocators round up, and kernels need room to work."""
BATCH_SHARE = 0.55
"""The same for a batch, whose many pieces leave gaps between them."""
MOMENTS = 2
"""Copies of the weights that Adam and its kin keep as state; the others keep less."""
FEW, MORE = 2, 4
"""Samples in the two batches that are measured; one alone would stop batch norm."""
DOCUMENT = "diagnostics/out_of_memory.md"


@dataclass(frozen=True)
class Need:
    """Bytes that training takes."""

    fixed: int
    """Gradients, optimizer state that is not there yet, and the update's temporary tensors."""
    per_batch: float
    """Kept for the backward pass regardless of the batch."""
    per_sample: float
    """Kept for the backward pass for each sample."""

    def largest_batch(self, free_bytes: int) -> int:
        """Return the largest batch that fits; 0 when none does."""
        room = BATCH_SHARE * free_bytes - self.fixed - self.per_batch
        return max(int(room / max(self.per_sample, 1.0)), 0)


@contextmanager
def explained_shortage(session: Session) -> Iterator[None]:
    """Add to a memory failure inside the changes that would fit.

    Raises:
        OutOfMemoryError: memory ran out; `details.changes` are the configuration changes that its remedy names.
    """
    try:
        yield
    except Exception as error:
        known = known_failure(error)
        if not isinstance(known, OutOfMemoryError) or "changes" in known.details:
            raise
        _let_go(session, error)
        raise _with_advice(session, known.message) from error


def _let_go(session: Session, error: BaseException) -> None:
    """Free the failed step's tensors; the variables of its frames hold them, too."""
    for parameter in session.model.parameters():
        parameter.grad = None
    reason: BaseException | None = error
    while reason is not None:
        traceback.clear_frames(reason.__traceback__)
        reason = reason.__cause__ or reason.__context__
    gc.collect()
    with suppress(OSError, AttributeError):  # glibc's: returns freed memory to the system, so that it counts as free
        ctypes.CDLL("libc.so.6").malloc_trim(0)


def _with_advice(session: Session, message: str) -> OutOfMemoryError:
    config = session.config
    free = free_bytes(session.device)
    try:
        need = measured_need(session)
    except Exception:  # noqa: BLE001 - there is too little even to measure, or the batch is of no known form
        need = None
    if need is not None and need.fixed > SHARE * free:
        return _too_large(message, need, free)
    fits = need.largest_batch(free) if need is not None else 0
    changes: dict[str, Any] = {}
    size, parts = config.loader.batch_size, config.training.accumulation_steps
    if session.train_loader.batch_size is not None and fits:
        while size > max(fits, 1):
            size, parts = size // 2, parts * 2
        if size == config.loader.batch_size and size > 1:  # the estimate would fit, and it did not
            size, parts = size // 2, parts * 2
        changes = {"loader.batch_size": size, "training.accumulation_steps": parts}
        why = f"A batch of {size} should fit, accumulated {parts} times: the same update."
    elif config.training.gradient_checkpointing is None and (modules := repeated_modules(session.model)):
        changes = {"training.gradient_checkpointing.modules": modules}
        why = "No batch fits as it is; computing activations again keeps less of them."
    else:
        why = "No batch fits: take a smaller model, fewer tokens or pixels a sample, or an optimizer with less state."
    measured = {"free_bytes": free} | ({} if need is None else need.__dict__)
    return OutOfMemoryError(
        f"{message} {_amounts(need, free)}",
        remedy=f"{why} configure(project, changes={changes}, reason='out of memory')." if changes else why,
        document=DOCUMENT,
        details={"changes": changes, "memory": measured, "step": session.progress.step + 1},
    )


def _too_large(message: str, need: Need, free: int) -> OutOfMemoryError:
    """Return the error of a model that could be built, and cannot be trained with any batch."""
    return OutOfMemoryError(
        f"{message} {_amounts(need, free)} That alone is too much, whatever the batch.",
        remedy="Take a smaller model (model.args); an optimizer that keeps less (sgd with momentum 0, or "
        "adafactor); `adapter`, which trains few weights beside the frozen ones; or distributed.strategy fsdp2, which "
        "divides gradients and state among several GPUs or machines.",
        document="diagnostics/model_too_large.md",
        details={"building": "training state", "memory": {"free_bytes": free} | need.__dict__},
    )


def _amounts(need: Need | None, free: int) -> str:
    if need is None:
        return f"{free / 2**20:.0f} MiB are free."
    return (
        f"{free / 2**20:.0f} MiB are free; a sample takes {need.per_sample / 2**20:.2f} MiB up to its backward pass, "
        f"gradients and optimizer state take {need.fixed / 2**20:.0f} MiB."
    )


def measured_need(session: Session) -> Need:
    """Measure two small batches. Raises the errors of the model and the data."""
    kept = [_kept_bytes(session, count) for count in (FEW, MORE)]
    per_sample = max(kept[1] - kept[0], 0) / (MORE - FEW)
    own = _bytes(session.parameters)
    missing = max(MOMENTS * own - _state_bytes(session), 0) if session.progress.step == 0 else 0
    largest = max((_bytes([parameter]) for parameter in session.parameters), default=0)  # the update works on a copy
    return Need(own + missing + largest, max(kept[0] - FEW * per_sample, 0.0), per_sample)


def _state_bytes(session: Session) -> int:
    """Return the bytes of the optimizers' state: memory may run out in the midst of their first step."""
    states = [state for optimizer in session.optimizers.values() for state in optimizer.state.values()]
    return _bytes([value for state in states for value in state.values() if isinstance(value, Tensor)])


def _bytes(tensors: Sequence[Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _kept_bytes(session: Session, count: int) -> int:
    """Return the bytes that the backward pass of one batch needs, the parameters aside."""
    kept: dict[int, int] = {}
    own = {parameter.untyped_storage().data_ptr() for parameter in session.model.parameters()}

    def note(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    plain = {"num_workers": 0, "persistent_workers": False, "share": None, "_kept": None}
    loader = replace(session.train_loader, batch_size=count, **plain)  # type: ignore[arg-type]
    with seeding.preserved(), torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        batch = to_device(next(loader.batches(session.progress.epoch)), session.device)
        with session.autocast():
            outcome = session.strategy.measure(session.objective, session.model, batch)
    total = sum(kept.values()) + 2 * max(kept.values(), default=0)  # the pass itself works on the largest
    del outcome
    return total


def repeated_modules(model: nn.Module) -> list[str]:
    """Return patterns of the blocks that a deep model repeats; where there are none, its parts."""
    lists = [
        f"{name}.*" if name else "*"
        for name, module in model.named_modules()
        if isinstance(module, nn.ModuleList | nn.Sequential) and len(module) > 1
    ]
    return lists[:1] or [name for name, _ in model.named_children()][:8]


def free_bytes(device: torch.device) -> int:
    """Return the memory that this process could still take."""
    if device.type == "cuda":
        torch.cuda.empty_cache()
        free, total = torch.cuda.mem_get_info(device)
        place = torch.cuda.current_device() if device.index is None else device.index
        share = getattr(torch.cuda, "get_per_process_memory_fraction", lambda _: 1.0)(place)  # torch 2.8 has it
        return int(min(free, share * total - torch.cuda.memory_reserved(device)))
    free = int(psutil.virtual_memory().available)
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit != resource.RLIM_INFINITY:
        free = min(free, max(limit - psutil.Process().memory_info().vms, 0))
    return free
