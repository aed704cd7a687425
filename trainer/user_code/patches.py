"""Whether the engine that ends a run is the engine that began it: user code may not replace what measures it.

Looked at once, at the end: functions of the user's that stand in the engine's modules, classes and tables, or in the
place of a library's losses and metrics.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from trainwright.trainer.errors import ReproducibilityError
from trainwright.trainer.user_code.own_code import is_users

MEASURING = ("trainwright.trainer", "torchmetrics", "torch.nn.modules.loss")
LOSSES = (
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "cross_entropy", "huber_loss", "kl_div", "l1_loss",
    "log_softmax", "mse_loss", "nll_loss", "smooth_l1_loss",
)  # fmt: skip
MOST_NAMED = 3


def require_unpatched(code_root: Path) -> None:
    """Raise ReproducibilityError when functions that measure were replaced; names them."""
    patched = sorted({place for place, found in _measuring() if _is_foreign(place, found.__code__, code_root)})
    if patched:
        raise ReproducibilityError(
            f"The user's code replaced what measures it: {', '.join(patched[:MOST_NAMED])}.",
            remedy="Leave the engine and the library's losses as they are; name a loss or metric of your own in the "
            "configuration (`loss: {use: file.py:function}`).",
            details={"patched": patched},
        )


def _measuring() -> Iterator[tuple[str, FunctionType]]:
    """Yield every function of the modules that measure, with its place."""
    for name, module in list(sys.modules.items()):
        if name.startswith(MEASURING):
            yield from _functions(name, vars(module), depth=0)
    functional = sys.modules.get("torch.nn.functional")
    if functional is not None:
        found = {name: vars(functional)[name] for name in LOSSES if name in vars(functional)}
        yield from _functions("torch.nn.functional", found, depth=0)


def _functions(place: str, names: Any, depth: int) -> Iterator[tuple[str, FunctionType]]:
    for name, value in list(names.items()):
        function = getattr(value, "__func__", None) or getattr(value, "fget", None) or value
        if isinstance(function, FunctionType):
            yield f"{place}.{name}", function
        elif isinstance(value, type) and depth == 0 and value.__module__.startswith(MEASURING):
            yield from _functions(f"{place}.{name}", vars(value), depth=1)
        elif isinstance(value, dict) and depth == 0 and name.isupper():  # a table, of the built-in metrics say
            yield from _functions(f"{place}.{name}", value, depth=1)
        elif is_dataclass(value) and not isinstance(value, type) and depth == 1:
            held = {field.name: getattr(value, field.name) for field in fields(value)}
            yield from _functions(f"{place}.{name}", held, depth=2)


def _is_foreign(place: str, code: CodeType, code_root: Path) -> bool:
    """Whether a function comes from the user's files, or from text; dataclasses make special methods from text."""
    file, name = code.co_filename, place.rpartition(".")[2]
    if file.startswith("<"):
        return not (file.startswith("<frozen") or (name.startswith("__") and name.endswith("__")))
    return is_users(file, code_root)
