"""Causes of a first call that failed: making a batch of the user's samples, and giving it to the model and the loss.

torch names the operation that could not go on. Each function here looks for one fault that led there, in the samples
and in the signature of forward, and names it in the user's words.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from trainwright.trainer.base.errors import TrainwrightError, UserCodeError
from trainwright.trainer.data.loader import BatchLoader
from trainwright.trainer.data.own_samples import holds_none
from trainwright.trainer.data.tensors import batch_size
from trainwright.trainer.objectives.supervised import describe, split_batch
from trainwright.trainer.user_code.entries import parameters_of

SAMPLES = 32
"""Read to find two that differ."""
MAX_TEXT = 40
UNMADE = object()
"""In place of a batch that could not be made."""
STACKABLE = (Tensor, np.ndarray, np.generic, int, float, str, Mapping, list, tuple)
"""Kinds of values that torch makes a batch of."""
_TYPES = re.compile(r"same dtype|expected scalar type|should be the same|expected m1 and m2|Input type|data type")


@dataclass
class FirstCall:
    """A call that failed, with what led to it."""

    model: nn.Module
    loader: BatchLoader
    batch: Any = UNMADE
    """As the loader made it."""
    error: Exception | None = None

    @property
    def forward(self) -> str:
        """The model's forward with its parameters, as the user wrote it."""
        return f"{type(self.model).__name__}.forward{parameters_of(self.model.forward)}"

    def items(self) -> list[Any]:
        """Return a few samples, none of them in a batch."""
        few = replace(self.loader, batch_size=SAMPLES, collate=list, num_workers=0, share=None)
        return list(next(few.batches(0)))


@contextmanager
def explained_call(model: nn.Module, loader: BatchLoader) -> Iterator[FirstCall]:
    """Name the cause of what fails inside; the context sets `batch` when it has one.

    Raises:
        UserCodeError: the cause was found. Else what was raised goes on.
    """
    call = FirstCall(model, loader)
    try:
        yield call
    except TrainwrightError:
        raise
    except Exception as error:
        call.error = error
        for cause in STACKED if call.batch is UNMADE else CALLED:
            found = None
            with suppress(Exception):  # the samples may be any objects: then the error stands as it is
                found = cause(call)
            if found is not None:
                raise UserCodeError(found[0], remedy=found[1], details={"exception": type(error).__name__}) from error
        raise


Cause = tuple[str, str] | None
"""What is wrong, and what to change."""


def parts_of(sample: Any) -> list[tuple[str, Any]]:
    """Return a sample's or a batch's values, each with its name in words: `x`, input 0, the target."""
    args, named, target = split_batch(sample)
    if isinstance(sample, tuple | list) and len(sample) > 2:
        last = f"the target (the last of a sample's {len(sample)} values)"
    else:
        last = "the target"
    inputs = [(f"input {number}" if len(args) > 1 else "the input", value) for number, value in enumerate(args)]
    inputs += [(f"`{name}`", value) for name, value in named.items()]
    return inputs if target is None else [*inputs, (last, target)]


def _no_batch(call: FirstCall) -> Cause:
    batch = call.batch
    is_list = isinstance(batch, list) and bool(batch) and isinstance(batch[0], tuple | list | Mapping)
    if call.loader.collate is None or not (is_list or batch is None):
        return None
    return (
        "`collate` returned " + (f"a list of {len(batch)} samples" if is_list else "None") + ", which is no batch.",
        "Return stacked tensors: torch.stack([x for x, _ in samples]), torch.tensor([y for _, y in samples]).",
    )


def _unlike_shapes(call: FirstCall) -> Cause:
    seen: dict[str, tuple[int, ...]] = {}
    for item in call.items():
        for name, value in parts_of(item):
            if isinstance(value, Tensor | np.ndarray):
                shape = seen.setdefault(name, tuple(value.shape))
                if shape != tuple(value.shape):
                    return (
                        f"Samples are of several shapes: {name} is {shape} in one and {tuple(value.shape)} in another, "
                        "and a batch is a stack of equal ones.",
                        "Make them equal in __getitem__ (resize, crop, pad, convert('RGB')), or pad each batch in a "
                        "`collate` of a task.",
                    )
    return None


def _with_graph(call: FirstCall) -> Cause:
    for name, value in parts_of(call.items()[0]):
        if isinstance(value, Tensor) and value.requires_grad:
            return (
                f"{name[0].upper()}{name[1:]} of a sample has a gradient: __getitem__ computes it by a network.",
                "Compute it under torch.no_grad(), or return x.detach(); what is to be trained belongs in the model.",
            )
    return None


def _not_stackable(call: FirstCall) -> Cause:
    if any(map(holds_none, call.items())):
        return "A sample of the first batch has None as one of its values.", "Leave such samples out of the data set."
    for name, value in parts_of(call.items()[0]):
        if not isinstance(value, STACKABLE):
            return (
                f"A batch cannot be made of {name}: it is {_kind(value)}.",
                "Return tensors from __getitem__: of a picture torchvision's to_tensor(image), or "
                "torch.from_numpy(numpy.array(image)).",
            )
    return None


def _text(call: FirstCall) -> Cause:
    for name, value in parts_of(call.batch):
        text = value[0] if isinstance(value, tuple | list) and value else value
        if not isinstance(text, str):
            continue
        shown = text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}…"
        remedy = (
            "Return only tensors, (inputs, target), and leave the text out; or read it in a task's `step`. A key that "
            "data.split names (a patient, a site) may be text."
        )
        if "target" in name:
            remedy = (
                "Return the number of the class: names = sorted(set(labels)), names.index(label). A file's name beside "
                "them has no place in a sample."
            )
        return f"{name[0].upper()}{name[1:]} of a sample is text ({shown!r}), of which nothing can be computed.", remedy
    return None


def _arguments(call: FirstCall) -> Cause:
    args, named, target = split_batch(call.batch)
    if _binds(call.model, args, named) or _binds(call.model, (*args, target), named):
        return None
    if named:
        taken = inspect.signature(call.model.forward).parameters
        unknown = [f"`{name}`" for name in named if name not in taken]
        if not unknown:
            return None
        return (
            f"{call.forward} does not take {' and '.join(unknown)}, and a sample has the keys {', '.join(call.batch)}.",
            "Leave out of the sample what forward does not take, or take it there (**others). The target's key is "
            "labels, label, targets, target or y.",
        )
    return (
        f"{call.forward} cannot take {len(args)} inputs: of a sample's {len(args) + 1} values the last is the target, "
        "and the others go to forward.",
        "Return (inputs, target) from __getitem__, or give forward a parameter for each input.",
    )


def _not_tensors(call: FirstCall) -> Cause:
    for name, value in parts_of(call.batch):
        if not isinstance(value, Tensor) and isinstance(value, list | tuple) and not hasattr(value, "_fields"):
            return (
                f"{name[0].upper()}{name[1:]} of a batch is {describe(value)}, and no tensor.",
                "Return one tensor for it in each sample, torch.tensor(values), or stack them in `collate`.",
            )
    return None


def _types(call: FirstCall) -> Cause:
    weights = next((each.dtype for each in call.model.parameters() if each.is_floating_point()), None)
    if weights is None or not _TYPES.search(str(call.error)):
        return None
    if torch.get_default_dtype() != torch.float32:
        kind = _name(torch.get_default_dtype())
        return (
            f"The default type is {kind}: your code, or a library in it, called torch.set_default_dtype.",
            "Take that call out, and turn single tensors: x.double(), model.double().",
        )
    for name, value in parts_of(call.batch):
        if isinstance(value, Tensor) and value.dtype != weights and "target" not in name:
            return (
                f"{name[0].upper()}{name[1:]} of a sample is {_name(value.dtype)}, and the model's weights are "
                f"{_name(weights)}.",
                "Turn it in __getitem__: x.float(), or array.astype('float32'); those of an npz by "
                "data.args.standardize=true; integers that are indices go into an nn.Embedding first.",
            )
    return None


def _layer(call: FirstCall) -> Cause:
    """Name the layer that was given another number of features than it was made for."""
    step, names = call.error.__traceback__ if call.error else None, {each: n for n, each in call.model.named_modules()}
    while step is not None:
        layer, given = (step.tb_frame.f_locals.get(name) for name in ("self", "input"))
        if isinstance(layer, nn.Module) and isinstance(given, Tensor) and layer in names:
            wanted = getattr(layer, "in_features", None)
            found = given.shape[-1] if wanted is not None else given.shape[1] if given.dim() > 1 else None
            wanted = wanted or getattr(layer, "in_channels", None) or getattr(layer, "num_features", None)
            if wanted and found != wanted:
                is_flat = given.dim() > 2 and isinstance(layer, nn.Linear) and given[0].numel() == wanted
                return (
                    f"Layer `{names[layer]}` ({type(layer).__name__}) is made for {wanted} inputs and is given "
                    f"{found}, in a tensor {tuple(given.shape)}.",
                    f"Flatten each sample before it in forward: `x.flatten(1)` has {wanted} numbers of each."
                    if is_flat
                    else f"Make it for {found} inputs, or change what comes before it in forward (the order of "
                    "dimensions is batch, channels, height, width).",
                )
        step = step.tb_next
    return None


def _one_size(call: FirstCall) -> Cause:
    if not call.loader.batch_size or batch_size(call.batch) >= call.loader.batch_size:
        return None
    whole = next(replace(call.loader, share=None).batches(0))
    args, named, _ = split_batch(whole)
    with torch.no_grad():
        call.model(*args, **named)  # which raises where the size is not the cause
    return (
        f"{call.forward} takes a batch of {call.loader.batch_size} samples and none of another size: "
        f"{str(call.error)[:200]}",
        "Take sizes from the input, x.shape[0], where the batch's size is written out (view, zeros of a hidden state): "
        "the last batch of an epoch is smaller, and in deployment it is of any size.",
    )


STACKED: tuple[Callable[[FirstCall], Cause], ...] = (_unlike_shapes, _with_graph, _not_stackable)
CALLED: tuple[Callable[[FirstCall], Cause], ...] = (
    _no_batch,
    _text,
    _arguments,
    _not_tensors,
    _types,
    _layer,
    _one_size,
)


def _binds(model: nn.Module, args: tuple[Any, ...], named: Mapping[str, Any]) -> bool:
    try:
        inspect.signature(model.forward).bind(*args, **named)
    except TypeError:
        return False
    return True


def _kind(value: Any) -> str:
    return "None" if value is None else f"a {type(value).__module__.partition('.')[0]}.{type(value).__name__}"


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
