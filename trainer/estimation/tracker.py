"""Fake tensors and their memory: the one file that touches torch's private parts (tests hold their contract).

Tensors of a `FakeTensorMode` have sizes and no contents. `MemTracker` follows when their storages come and go while
the real autograd engine, the real optimizers and our real loop run over them, and keeps the composition of the peak.
Private in torch are torch._subclasses, torch.distributed._tools.mem_tracker and a DTensor's planning. Of the
tracker only the storages are used: its statistics by module refuse models that are called twice, and frozen weights.

Where a program asks a tensor for its value there is none; a harmless one is answered. Where a shape depends on values
(a mask that selects) the largest possible one is taken, so that memory is never below the real one.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
    UnsupportedFakeTensorException,
)
from torch.distributed._tools.mem_tracker import MemTracker, _MemRefType
from torch.distributed.tensor import DTensor
from torch.distributed.tensor._sharding_prop import ShardingPropagator
from torch.optim import Optimizer
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only
from torch.utils.flop_counter import flop_registry

from trainwright.trainer.estimation.workspace import Workspaces, gpu_attention, workspace

UNTRACEABLE = (DataDependentOutputException, DynamicOutputShapeException, UnsupportedFakeTensorException)
"""What a step raises that depends on values which no fake tensor has."""
NAMES = {
    _MemRefType.PARAM: "weights",
    _MemRefType.BUFFER: "buffers",
    _MemRefType.GRAD: "gradients",
    _MemRefType.ACT: "activations",
    _MemRefType.TEMP: "temporary",
    _MemRefType.OPT: "optimizer",
    _MemRefType.OTH: "batch",
}
aten = torch.ops.aten


def new_mode() -> FakeTensorMode:
    """Return a mode in which every tensor that is made has sizes only; real ones may take part as inputs."""
    return FakeTensorMode(allow_non_fake_inputs=True)


def imagined(mode: FakeTensorMode, value: Any) -> Any:
    """Return a nested value with fake tensors in place of real ones; other objects stay as they are."""
    if isinstance(value, Tensor):
        return value if isinstance(value, FakeTensor) else mode.from_tensor(value)
    if isinstance(value, dict):
        return {name: imagined(mode, item) for name, item in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(imagined(mode, item) for item in value))
    if isinstance(value, tuple | list):
        return type(value)(imagined(mode, item) for item in value)
    return value


def without_contents(mode: FakeTensorMode, model: nn.Module) -> nn.Module:
    """Replace a real model's parameters and buffers by fake ones, shared ones by shared ones; return the model."""
    known: dict[int, Any] = {}
    for module in model.modules():
        for name, parameter in module._parameters.items():
            if parameter is not None:
                if id(parameter) not in known:
                    known[id(parameter)] = nn.Parameter(mode.from_tensor(parameter.detach()), parameter.requires_grad)
                module._parameters[name] = known[id(parameter)]
        for name, buffer in module._buffers.items():
            if buffer is not None:
                module._buffers[name] = known.setdefault(id(buffer), mode.from_tensor(buffer))
    return model


@contextmanager
def convertible() -> Iterator[None]:
    """Let `module.to(...)` and its kin convert fake parameters inside.

    torch swaps the new tensor's contents into the old one, which weak references forbid, and the mode holds some.
    Here the parameter is replaced; one that several modules share stays shared.
    """
    original = nn.Module._apply
    replaced: dict[int, tuple[nn.Parameter, nn.Parameter]] = {}

    def apply(self: nn.Module, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> nn.Module:
        if not any(isinstance(p, FakeTensor) for p in self.parameters(recurse=False)):
            for child in self.children() if recurse else ():
                child._apply(fn)  # type: ignore[no-untyped-call]
            return original(self, fn, recurse=False)  # type: ignore[no-untyped-call, no-any-return]
        for child in self.children() if recurse else ():
            child._apply(fn)  # type: ignore[no-untyped-call]
        for name, parameter in self._parameters.items():
            if parameter is not None:
                self._parameters[name] = _converted(parameter, fn, replaced)
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    nn.Module._apply = apply  # type: ignore[method-assign]
    try:
        yield
    finally:
        nn.Module._apply = original  # type: ignore[method-assign]


def _converted(
    parameter: nn.Parameter, fn: Callable[[Tensor], Tensor], replaced: dict[int, tuple[nn.Parameter, nn.Parameter]]
) -> nn.Parameter:
    if id(parameter) in replaced:  # shared: held beside its successor, so that the id stays its own
        return replaced[id(parameter)][1]
    with torch.no_grad():
        applied = fn(parameter)
    if applied is parameter:
        return parameter
    successor = nn.Parameter(applied.detach(), parameter.requires_grad)
    replaced[id(parameter)] = (parameter, successor)
    return successor


class Answers(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Answers what fake tensors are asked for, and lets all else pass; real tensors are left alone."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run one operation."""
        found = _answer(func, args)
        return func(*args, **(kwargs or {})) if found is None else found[0]


@dataclass
class Counted:
    """Arithmetic and traffic of the operations since the last reset."""

    flops: float = 0.0
    moved_bytes: float = 0.0
    operations: int = 0

    def minus(self, other: Counted) -> Counted:
        """Return what was counted after `other`."""
        return Counted(
            self.flops - other.flops, self.moved_bytes - other.moved_bytes, self.operations - other.operations
        )


class Tracker(MemTracker):  # type: ignore[no-untyped-call]
    """Follows memory, arithmetic and traffic of everything that happens inside it.

    Attributes:
        counted: sums over all operations so far.
        assumed: assumptions that had to be made, in words.
        is_planning: whether a DTensor plans an operation, on fake tensors of full size; nothing is counted.
        phase_of: called when the peak grows; its answer is kept as `peak_phase`.
        workspaces: those of a GPU's kernels, in whose place they are followed; None: the CPU's kernels are meant.
    """

    def __init__(self, mode: FakeTensorMode, phase_of: Callable[[Tracker], str], *, on_gpu: bool = False) -> None:
        super().__init__()
        self.mode = mode
        self.workspaces = Workspaces() if on_gpu else None
        self.counted, self.assumed = Counted(), set[str]()
        self.phase_of, self.peak_phase, self._highest = phase_of, "", 0
        self.is_planning = False
        self._hooks: list[Any] = []

    def know(self, model: nn.Module, optimizers: Iterable[Optimizer], trained: Iterable[nn.Parameter]) -> None:
        """Take in what exists already: weights, buffers, optimizer state, and any other living fake tensor."""
        gc.collect()
        self._track_module_params_and_buffers(model, install_grad_hooks=False)
        for optimizer in optimizers:
            self._track_optimizer_states(_MemRefType.OPT, optimizer)
        for parameter in (parameter for parameter in trained if parameter.requires_grad):
            hook = parameter.register_post_accumulate_grad_hook(self._note_gradient)  # type: ignore[no-untyped-call]
            self._hooks.append(hook)
        for thing in gc.get_objects():
            if type(thing) is FakeTensor and thing.fake_mode is self.mode:
                self._track(_MemRefType.OTH, thing)

    def take(self, value: Any) -> Any:
        """Count the tensors of a nested value as a batch's; return the value."""
        for leaf in tree_leaves(value):
            if isinstance(leaf, FakeTensor):
                self._update_and_maybe_create_winfos(leaf, _MemRefType.OTH)
        return value

    @property
    def is_updating(self) -> bool:
        """Whether an optimizer's step is under way."""
        return self._in_opt

    def parts(self) -> dict[str, int]:
        """Return the bytes of the peak by part, on all devices."""
        found = dict.fromkeys(NAMES.values(), 0)
        for device in self.get_tracker_snapshot("peak").values():
            for kind, name in NAMES.items():
                found[name] += device.get(kind, 0)
        return found

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run one operation, and count it."""
        if DTensor in types:  # it asks again, with the parts of this process
            return NotImplemented
        if self.is_planning:
            return func(*args, **(kwargs or {}))
        found = _answer(func, args)
        if found is not None:
            self.assumed |= {found[1]} if found[1] else set()
            return tree_map_only(FakeTensor, self._as_activation, found[0])
        if self._is_accumulation(func, args):
            func = aten.add_.Tensor
        if self.workspaces is not None:
            self._hold(self.workspaces.taken(func))
        with self._holding(0 if self.workspaces is not None else workspace(func, args)):
            result = super().__torch_dispatch__(func, types, args, kwargs)  # type: ignore[no-untyped-call]
        self._count(func, args, kwargs or {}, result)
        highest = sum(self._peak_mem.values())
        if highest > self._highest:
            self._highest, self.peak_phase = highest, self.phase_of(self)
        return result

    def __exit__(self, *given: Any) -> None:
        """Stop following."""
        super().__exit__(*given)
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()

    def _update_peak_stats(self, peak_state: Any) -> None:
        """Keep a new peak, once garbage that only fake tensors leave (they lie in cycles) is gone."""
        present = sum(device["Total"] for device in self._curr_mem_snap.values())
        if present > self._highest:
            gc.collect(0)
        super()._update_peak_stats(peak_state)

    def _pre_fw_hook(self, module: nn.Module, inputs: Any) -> None:
        """Keep no statistics by module."""

    def _post_fw_hook(self, module: nn.Module, inputs: Any, outputs: Any) -> None:
        """Keep no statistics by module."""

    def _pre_bw_hook(self, module: nn.Module, args: Any) -> None:
        """Keep no statistics by module."""

    def _post_bw_hook(self, module: nn.Module, args: Any) -> None:
        """Keep no statistics by module."""

    def _note_gradient(self, parameter: Tensor) -> None:
        if parameter.grad is not None:
            self._update_and_maybe_create_winfos(parameter.grad, _MemRefType.GRAD)

    @contextmanager
    def _holding(self, size: int) -> Iterator[None]:
        """Hold so many bytes besides while an operation runs."""
        if not size:
            yield
            return
        self._hold(size)
        yield
        self._hold(-size)

    def _hold(self, size: int) -> None:
        present = self._curr_mem_snap[CPU]
        for key in (_MemRefType.TEMP, "Total"):
            present[key] += size

    def _is_accumulation(self, func: Any, args: Any) -> bool:
        """Return whether autograd adds to a gradient: into a new tensor here, for fake ones; in place in a real run."""
        if func is not aten.add.Tensor or torch._C._current_graph_task_id() == -1 or torch.is_grad_enabled():
            return False
        if not isinstance(args[0], FakeTensor):
            return False
        known, _ = self._WINFO.get(args[0].untyped_storage(), (None, None))  # type: ignore[no-untyped-call]
        return known is not None and known.reftype is _MemRefType.GRAD

    def _as_activation(self, tensor: Tensor) -> Tensor:
        self._track(_MemRefType.ACT, tensor)
        return tensor

    def _count(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        """Add an operation's arithmetic, and the bytes that it reads and writes; a view moves nothing."""
        inputs = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        outputs = [leaf for leaf in tree_leaves(result) if isinstance(leaf, Tensor)]
        if func.is_view or not (inputs or outputs):
            return
        counted = self.counted
        counted.operations += 1
        counted.moved_bytes += sum(tensor.numel() * tensor.element_size() for tensor in (*inputs, *outputs))
        operation = _ALIKE.get(func._overloadpacket, func._overloadpacket)
        formula = flop_registry.get(operation)
        if formula is not None:
            counted.flops += formula(*_with_all_heads(operation, args), **kwargs, out_val=result)


_ALIKE = {
    aten._scaled_dot_product_flash_attention_for_cpu: aten._scaled_dot_product_efficient_attention,
    aten._scaled_dot_product_flash_attention_for_cpu_backward: aten._scaled_dot_product_efficient_attention_backward,
}
"""Operations that the registry of FLOPs lacks, to those with the same first arguments and arithmetic."""


def _with_all_heads(operation: Any, args: Any) -> Any:
    """Return attention's arguments with the shapes of keys and values for each head of the queries.

    Several heads may share them, which the formulas refuse before torch 2.12.
    """
    if operation not in _ALIKE.values():
        return args
    first = 1 + (operation is aten._scaled_dot_product_efficient_attention_backward)
    heads = args[first - 1].shape[1]
    shapes = [[each.shape[0], heads, *each.shape[2:]] for each in args[first : first + 2]]
    return (*args[:first], *shapes, *args[first + 2 :])


CPU = torch.device("cpu")


def _answer(func: Any, args: Any) -> tuple[Any, str] | None:
    """Return the answer to a question that a fake tensor cannot answer, and the assumption; None for other calls."""
    if not args or not isinstance(args[0], FakeTensor):
        return None
    asked = args[0]
    if func is aten._local_scalar_dense.default:
        value = False if asked.dtype == torch.bool else 1.0 if asked.is_floating_point() else 1
        return value, ""
    if func is aten.nonzero.default:
        return asked.new_empty((asked.numel(), asked.dim()), dtype=torch.int64), _SELECTS
    if func is aten.masked_select.default:
        return asked.new_empty(asked.numel()), _SELECTS
    if func is aten.index.Tensor and any(_selects(index) for index in args[1]):
        rows = [_all_of(index) for index in args[1]]
        return aten.index.Tensor(asked, [index for group in rows for index in group]), _SELECTS
    return None


_SELECTS = "a mask selects rows by their values: all are assumed to be selected"


def _selects(index: Any) -> bool:
    return isinstance(index, Tensor) and index.dtype in {torch.bool, torch.uint8}


def _all_of(index: Any) -> list[Any]:
    """Return the indices that a mask of any shape would become if it were true everywhere."""
    if not _selects(index):
        return [index]
    return [index.new_empty(index.numel(), dtype=torch.int64) for _ in range(index.dim())]


@contextmanager
def inside(tracker: Tracker) -> Iterator[None]:
    """Follow what happens inside, over fake tensors, but not how a DTensor plans an operation."""
    planned = ShardingPropagator._propagate_tensor_meta_non_cached

    def plan(*given: Any, **named: Any) -> Any:
        tracker.is_planning = True
        try:
            return planned(*given, **named)
        finally:
            tracker.is_planning = False

    ShardingPropagator._propagate_tensor_meta_non_cached = plan  # type: ignore[method-assign]
    try:
        with gpu_attention() if tracker.workspaces is not None else nullcontext(), tracker.mode, tracker:
            yield
    finally:
        ShardingPropagator._propagate_tensor_meta_non_cached = planned  # type: ignore[method-assign]
