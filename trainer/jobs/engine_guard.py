"""Guards of the engine in the worker: only it writes records, and nobody replaces its measuring functions.

An audit hook sees every file that this process and its forks open, move or remove by way of Python, and cannot be
removed. It checks who is calling: the engine, with none of the user's frames above it, or other code. This stops
simple forgeries only: the user's code shares the process with the hook.

Checked once, at the end: functions of the user's in the engine's modules, classes and tables, or in the place of a
library's losses and metrics.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from trainwright.trainer.base.errors import ReproducibilityError, UserCodeError
from trainwright.trainer.base.paths import ENGINE
from trainwright.trainer.engine.trackers import TRACKERS
from trainwright.trainer.user_code.import_record import is_users

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_PATHS = {
    "os.remove": 1, "os.rmdir": 1, "os.truncate": 1, "os.mkdir": 1, "os.chmod": 1, "os.utime": 1,
    "os.rename": 2, "os.link": 2, "os.symlink": 2, "sqlite3.connect": 1,
}  # fmt: skip
"""How many of an event's arguments name files."""
_ENGINE = str(ENGINE) + os.sep
_WORKER = f"{_ENGINE}worker.py"
_guarded: tuple[str, str, str] | None = None
"""The workspace's folder, the run's, and the code root, each with its separator; None: nothing is guarded."""
_hooked = False
_tried: list[str] = []
"""Files that user code tried to write, in case it suppressed the error."""


def install(run: Path, code_root: Path) -> None:
    """Guard the run's folder, and the workspace that it is in, from now on."""
    global _guarded, _hooked  # noqa: PLW0603 - one run per process
    _tried.clear()
    is_in_workspace = run.parent.name == "runs" and len(run.parents) > 3 and run.parents[2].name == "projects"
    folders = (run.parents[3] if is_in_workspace else run, run, code_root)
    _guarded = tuple(str(folder.resolve()) + os.sep for folder in folders)  # type: ignore[assignment]
    if not _hooked:
        sys.addaudithook(_hook)
        _hooked = True


def require_untouched() -> None:
    """Raise UserCodeError when user code tried to write to the records, even if it suppressed the error."""
    if _tried:
        raise _refusal(_tried[0])


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if _guarded is None or (event != "open" and event not in _PATHS):
        return
    if event == "open":
        if not isinstance(arguments[2], int) or not arguments[2] & _WRITING:
            return
        paths = arguments[:1]
    else:
        paths = arguments[: _PATHS[event]]
    for path in paths:
        place = _guarded_place(path)
        if place is not None and not _is_engine_calling():
            _tried.append(place)
            raise _refusal(place)


def _guarded_place(path: object) -> str | None:
    """Return the path's name in the guarded folder; None for a path elsewhere, or one of the user's."""
    assert _guarded is not None  # noqa: S101 - asked by the hook
    if not isinstance(path, str | bytes | os.PathLike):
        return None
    text = os.path.realpath(os.fsdecode(path).removeprefix("file:"))
    workspace, run, code_root = _guarded
    if not f"{text}{os.sep}".startswith(workspace) or text.startswith(_shown(run)):
        return None
    if code_root.startswith(workspace) and text.startswith(code_root) and not text.startswith(run):
        return None
    return text.removeprefix(workspace)


@cache
def _shown(run: str) -> tuple[str, ...]:
    """Return the folders that libraries' threads write; nothing depends on them."""
    return tuple(f"{run}{name}{os.sep}" for name in TRACKERS)


def _is_engine_calling() -> bool:
    """Whether the engine is on the stack, with neither the user's code nor code without a file above the worker."""
    assert _guarded is not None  # noqa: S101 - asked by the hook
    frame = sys._getframe(2)
    found = False
    while frame is not None:
        who = _author(frame.f_code.co_filename, _guarded[2])
        if who == "user":
            return False
        if who == "worker" and frame.f_code.co_name == "main":
            break
        found = found or who != "library"
        frame = frame.f_back  # type: ignore[assignment]
    return found


@cache
def _author(file: str, code_root: str) -> str:
    """Return whose a file is: user (also text that was compiled), worker, engine or library."""
    real = os.path.realpath(file)
    if real.startswith(_ENGINE):
        return "worker" if real == _WORKER else "engine"
    if file.startswith("<frozen "):  # a part of Python itself: no path, which would be taken for one in this folder
        return "library"
    return "user" if file.startswith("<") or is_users(file, Path(code_root)) else "library"


def _refusal(place: str) -> UserCodeError:
    return UserCodeError(
        f"The user's code tried to write to {place} in the workspace: the records of runs are the engine's alone.",
        remedy="Write your code's files under code_root; state between steps belongs into context.state.",
        details={"path": place},
    )


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
            f"The user's code replaced functions that measure it: {', '.join(patched[:MOST_NAMED])}.",
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
            for key, form in value.items():
                if isinstance(form, type):  # a section that builds a measuring function
                    yield from _functions(f"{place}.{name}.{key}", vars(form), depth=2)
        elif is_dataclass(value) and not isinstance(value, type) and depth == 1:
            held = {field.name: getattr(value, field.name) for field in fields(value)}
            yield from _functions(f"{place}.{name}", held, depth=2)


def _is_foreign(place: str, code: CodeType, code_root: Path) -> bool:
    """Whether a function comes from the user's files, or from text; dataclasses make special methods from text."""
    file, name = code.co_filename, place.rpartition(".")[2]
    if file.startswith("<"):
        return not (file.startswith("<frozen") or (name.startswith("__") and name.endswith("__")))
    return is_users(file, code_root)
