"""Functions of torch that a step's own code calls: losses with what they were given, dropout, and backward passes.

A mode of torch's functions sees the calls; each is passed on as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - the field's name for it
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack, _pop_mode, _push_mode

from trainwright.trainer.watch.silent.calls import ModuleWatch

LOSSES: dict[Any, str] = {
    function: function.__name__
    for function in (
        F.cross_entropy, F.nll_loss, F.binary_cross_entropy, F.binary_cross_entropy_with_logits, F.mse_loss,
        F.l1_loss, F.smooth_l1_loss, F.huber_loss,
    )
}  # fmt: skip
OF_EQUAL_SHAPES = frozenset({"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"})
DROPOUTS = frozenset({
    F.dropout, F.dropout1d, F.dropout2d, F.dropout3d, F.alpha_dropout, F.feature_alpha_dropout, torch.dropout,
})  # fmt: skip
MAX_VALUES = 1 << 24
"""Of a loss's input, up to which it is computed again sample by sample."""


@dataclass
class LossCall:
    """One call of a loss function.

    Attributes:
        target: as it was given, (rows, ...) or flattened with the outputs.
        per_row: the loss of each row, (rows,) on the CPU; None where there is no such.
    """

    name: str
    output_shape: tuple[int, ...]
    target_shape: tuple[int, ...]
    learns: bool
    target: Tensor
    per_row: Tensor | None = None


@dataclass
class Functions:
    """Calls that were seen.

    Attributes:
        dropouts: for calls outside of dropout modules, whether each was in training.
    """

    losses: list[LossCall] = field(default_factory=list)
    dropouts: list[bool] = field(default_factory=list)


class FunctionWatch(TorchFunctionMode):
    """Writes down what `Functions` has."""

    def __init__(self, modules: ModuleWatch, around_backward: Callable[[Tensor, Callable[[], None]], None]) -> None:
        super().__init__()
        self.seen = Functions()
        self.modules, self.around_backward = modules, around_backward
        self.left = 0
        """Modules under way that must not be watched from inside."""
        self.is_out = False

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Pass a call on and write it down."""
        named = kwargs or {}
        if function is Tensor.backward:
            done: list[Any] = []
            self.around_backward(args[0], lambda: done.append(function(*args, **named)))  # type: ignore[no-untyped-call]
            return done[0] if done else None
        if function in LOSSES:
            with suppress(Exception), self.modules.timed():  # what is odd is the user's to raise, in the call itself
                self.seen.losses.append(loss_call(function, args, named))
        elif function in DROPOUTS:
            self._dropout(args, named)
        elif function is F.scaled_dot_product_attention:
            rate = named.get("dropout_p", args[4] if len(args) > 4 else 0.0)
            if rate and not self.modules.inside_switchable:
                self.seen.dropouts.append(True)
        return function(*args, **named)

    def _dropout(self, args: Any, named: Any) -> None:
        rate = named.get("p", args[1] if len(args) > 1 else 0.5)
        training = named.get("training", named.get("train", args[2] if len(args) > 2 else True))
        if rate and not self.modules.inside_switchable:
            self.seen.dropouts.append(bool(training))

    def suspend(self) -> None:
        """Leave torch as it is without this mode: some modules compute otherwise under any."""
        self.left += 1
        if self.left == 1 and [*_get_current_function_mode_stack()] == [self]:  # type: ignore[no-untyped-call]
            self.is_out = True
            _pop_mode()  # type: ignore[no-untyped-call]

    def resume(self) -> None:
        """Undo `suspend`."""
        self.left = max(self.left - 1, 0)
        if not self.left and self.is_out:
            self.is_out = False
            _push_mode(self)  # type: ignore[no-untyped-call]


def calls_dropout(model: nn.Module, call: Callable[[], object]) -> bool:
    """Return whether a call of the model in evaluation drops values by a function that does not know its mode."""
    modules = ModuleWatch(model)
    functions = FunctionWatch(modules, lambda _, backward: backward())
    with modules.watching(), functions:
        call()
    return any(functions.seen.dropouts)


@torch.no_grad()
def loss_call(function: Any, args: Any, named: dict[str, Any]) -> LossCall:
    """Describe the call of a loss, whose first two arguments are outputs (rows, ...) and targets."""
    given = {**dict(zip(("input", "target"), args, strict=False)), **named}
    output, target = given["input"], given["target"]
    per_row = None
    if output.numel() <= MAX_VALUES and output.dim():
        plain = {name: value for name, value in given.items() if name not in {"size_average", "reduce"}}
        each = function(**{**plain, "input": output.detach(), "reduction": "none"}).detach()
        per_row = each.reshape(len(each), -1).double().mean(dim=1).cpu() if each.dim() else None
    return LossCall(LOSSES[function], tuple(output.shape), tuple(target.shape), output.requires_grad, target, per_row)
