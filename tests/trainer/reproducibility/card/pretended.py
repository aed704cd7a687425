"""A CUDA card that is pretended: tensors that say cuda:0 of themselves, and hold their values on the CPU.

Every operation of torch passes through `performed`, forward, backward and update, with real values: so the engine takes
the branches that it takes on a card. It is held to two rules of a card: tensors of two devices do not mix, and under
deterministic algorithms the operations of cuda_operations.yaml raise, with torch's own words. No kernel of CUDA runs:
speed, memory, kernels' own bits and the streams' order show on a real card only.

`install` is for a process of its own that has loaded the guard (guard.py) before torch: autograd's threads start once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any

import torch
from tests.trainer.reproducibility.card.guard import alert_of
from torch._prims_common import alert_not_deterministic
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map


class Seen:
    """What a process did on the card."""

    def __init__(self) -> None:
        self.operations: Counter[str] = Counter()
        """Number of calls of each operation."""
        self.refused: Counter[str] = Counter()
        """Number of calls that a card refuses, by torch's name for them."""


seen = Seen()
HERE = torch.device("cuda:0")


class Card(torch.Tensor):
    """A tensor on the card."""

    __torch_function__ = torch._C._disabled_torch_function_impl
    held: torch.Tensor
    """Its values."""

    @staticmethod
    def __new__(cls: type[Card], held: torch.Tensor) -> Card:
        made = torch.Tensor._make_wrapper_subclass(
            cls, held.size(), strides=held.stride(), storage_offset=held.storage_offset(), dtype=held.dtype,
            layout=held.layout, device=HERE,
        )  # fmt: skip
        made.held = held
        return made

    def __getitem__(self, index: Any) -> Any:
        given = index if isinstance(index, tuple) else (index,)
        placed = tuple(torch.tensor(each, device=HERE) if isinstance(each, list) else each for each in given)
        return super().__getitem__(placed)

    def tolist(self) -> Any:
        return self.held.tolist()

    def numpy(self, *, force: bool = False) -> Any:
        if not force:
            raise TypeError("can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() first")
        return self.held.numpy(force=True)

    def __repr__(self) -> str:  # type: ignore[override]
        return f"Card({self.held!r})"

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return performed(function, args, kwargs or {})


class Everything(TorchDispatchMode):
    """Lets every operation pass through `performed`: those that make tensors too."""

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return performed(function, args, kwargs or {})


def install() -> Seen:
    """Let torch see the card; return what is seen of its operations."""
    _pretend()
    Everything().__enter__()
    return seen


def performed(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return an operation's result: computed on the CPU, on the card where the arguments or `device` say so."""
    tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    cards = {id(tensor.held): tensor for tensor in tensors if isinstance(tensor, Card)}
    if (answer := _answers(_name(function), is_on_card=bool(cards))) is not None:
        return answer
    wanted = kwargs.get("device")
    on_card = bool(cards) if wanted is None else torch.device(wanted).type == "cuda"
    if cards:
        _require_one_device(function, args, tensors)
        _alert(function, args, kwargs)
    if on_card and getattr(kwargs.get("generator"), "device", HERE).type != "cuda":
        raise RuntimeError("Expected a 'cuda' device type for generator but found 'cpu'")
    if on_card or cards:
        seen.operations[_name(function)] += 1

    def raised(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        return cards[id(leaf)] if id(leaf) in cards else Card(leaf) if on_card else leaf

    lower_args, lower_kwargs = tree_map(_lowered, (args, kwargs))
    draws = on_card and torch.Tag.nondeterministic_seeded in function.tags
    with _drawn_on_the_card() if draws else nullcontext():
        return tree_map(raised, function(*lower_args, **lower_kwargs))


@contextmanager
def _drawn_on_the_card() -> Iterator[None]:
    """Draw from the card's generator, and leave that of the CPU alone."""
    [of_card], of_cpu = torch.cuda.default_generators, torch.default_generator.get_state()
    torch.default_generator.set_state(of_card.get_state())
    try:
        yield
    finally:
        of_card.set_state(torch.default_generator.get_state())
        torch.default_generator.set_state(of_cpu)


def _lowered(leaf: Any) -> Any:
    return leaf.held if isinstance(leaf, Card) else "cpu" if isinstance(leaf, torch.device) else leaf


def _answers(name: str, *, is_on_card: bool) -> Any:
    """Return the answer to a question that a card answers otherwise than the CPU; None for every operation."""
    if name == "device":
        return HERE if is_on_card else torch.device("cpu")
    return False if name in {"_use_cudnn_ctc_loss", "_use_miopen_ctc_loss", "is_pinned"} else None


def _name(function: Any) -> str:
    return str(function._schema.name.partition("::")[2])


def _alert(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    named = {argument.name: value for argument, value in zip(function._schema.arguments, args, strict=False)}
    alert = alert_of(_name(function), {**named, **kwargs})
    if alert is not None:
        seen.refused[alert] += 1
        alert_not_deterministic(alert)


ANY_DEVICE = {"copy_", "_to_copy", "_local_scalar_dense", "is_same_size", "set_data"}
STRICT = {"cat", "stack", "_amp_foreach_non_finite_check_and_unscale_"}
"""Take no numbers of the CPU either."""


def _require_one_device(function: Any, args: tuple[Any, ...], tensors: list[Any]) -> None:
    """Raise what torch raises for tensors of two devices. A number of the CPU, without dimensions, may go along."""
    name = _name(function)
    plain = [tensor for tensor in tensors if not isinstance(tensor, Card)]
    if name in ANY_DEVICE or not plain:
        return
    if name.startswith(("index", "_index_put", "_unsafe_index")) and isinstance(args[1], list | tuple):
        on_indices = {id(tensor) for tensor in args[1]}
        plain = [tensor for tensor in plain if id(tensor) not in on_indices]
    first = function._schema.arguments[0]
    writes = first.alias_info is not None and first.alias_info.is_write and args and args[0] in plain
    if writes or name in STRICT or any(tensor.dim() for tensor in plain):
        raise RuntimeError(
            "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu! "
            f"(when checking the arguments of {name})"
        )


def _pretend() -> None:
    """Answer what a process asks of the card itself."""
    memory_bytes = 80 << 30
    properties = SimpleNamespace(
        name="pretended", total_memory=memory_bytes, major=8, minor=0, multi_processor_count=1, uuid="0"
    )
    answers = {
        "_lazy_init": None, "is_initialized": True, "is_available": True,
        "device_count": 1, "current_device": 0, "set_device": None,
        "get_device_capability": (8, 0), "get_device_name": "pretended", "get_device_properties": properties,
        "is_bf16_supported": True, "synchronize": None, "empty_cache": None, "memory_allocated": 0,
        "max_memory_allocated": 0, "memory_reserved": 0, "reset_peak_memory_stats": None,
        "mem_get_info": (memory_bytes, memory_bytes),
    }  # fmt: skip
    for name, answer in answers.items():
        for module in (torch.cuda, torch.cuda.random):  # which has taken some of them by name
            setattr(module, name, lambda *_, _answer=answer, **__: _answer)
    torch.cuda.default_generators = (torch.Generator(),)
    _fill_on_the_cpu()
    torch.__future__.set_overwrite_module_params_on_conversion(True)  # a parameter becomes another kind of tensor
    converted = torch.nn.Module._apply

    def apply(module: Any, *args: Any, **kwargs: Any) -> Any:
        with _still_shared(module):
            return converted(module, *args, **kwargs)

    torch.nn.Module._apply = apply


def _fill_on_the_cpu() -> None:
    """Let tensors made of numbers come from the CPU: torch fills those below the level at which it is listened to."""
    made, converted = torch.tensor, torch.as_tensor

    def placed(tensor: Any, device: Any) -> Any:
        return tensor if device is None else tensor.to(device)

    def tensor(data: Any, *, device: Any = None, requires_grad: bool = False, **kinds: Any) -> Any:
        return placed(made(data, **kinds), device).requires_grad_(requires_grad)

    def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Any:
        return placed(converted(data, dtype=dtype), device)

    def new_tensor(self: Any, data: Any, *, dtype: Any = None, device: Any = None, **kinds: Any) -> Any:
        return tensor(data, dtype=dtype or self.dtype, device=device or self.device, **kinds)

    torch.tensor, torch.as_tensor = tensor, as_tensor
    torch.Tensor.new_tensor = new_tensor  # type: ignore[method-assign]


@contextmanager
def _still_shared(module: Any) -> Iterator[None]:
    """Keep a parameter that several modules share, one."""
    places: dict[int, list[tuple[dict[str, Any], str]]] = {}
    for each in module.modules():
        for name, parameter in each._parameters.items():
            if parameter is not None:
                places.setdefault(id(parameter), []).append((each._parameters, name))
    yield
    for (held, name), *others in places.values():
        for other, its_name in others:
            other[its_name] = held[name]
