"""Boundary around the user's code: its failures become one clear, classified error.

Inside the boundary user code may raise, call `sys.exit` or `os._exit`, or parse `sys.argv`; hanging is ended by the
heartbeat thread (supervision/heartbeat.py), which needs no cooperation.
"""

from __future__ import annotations

import inspect
import os
import re
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from trainwright.trainer.base.errors import TrainwrightError, UserCodeError
from trainwright.trainer.base.paths import ENGINE
from trainwright.trainer.user_code.clock import clock

MAX_TRACEBACK_LINES = 40
MAX_MESSAGE_LINES = 4
MAX_MESSAGE = 500
_OURS = str(ENGINE) + os.sep
_real_exit = os._exit
_owner = os.getpid()


class ExitCalled(BaseException):
    """The user's code called `os._exit` in the worker process."""

    def __init__(self, code: int) -> None:
        super().__init__(f"os._exit({code})")
        self.code = code


def exit_now(code: int) -> NoReturn:
    """End the process at once, bypassing the guard."""
    _real_exit(code)


def install() -> None:
    """Make `os._exit` raise in this process (children that were forked may still use it)."""
    global _owner  # noqa: PLW0603 - one guard per process
    _owner = os.getpid()

    def guarded_exit(code: int) -> NoReturn:
        if os.getpid() != _owner:
            _real_exit(code)
        raise ExitCalled(code)

    os._exit = guarded_exit  # type: ignore[assignment]


def end_copy_of(process: int) -> None:
    """End a fork that user code has let return, as a second worker of the run; in the process nothing happens."""
    if os.getpid() != process:
        sys.stderr.write("A process that user code forked returned from it: it was ended, and the run goes on.\n")
        _real_exit(1)


AT_ITS_LINE = "Correct the code at the last line of the traceback, then start the run again."
IN_NO_LINE = (
    "No line of your code is in the traceback, which worker.log has: what the code returned may be of an unusual form. "
    "If it is an ordinary one, the fault is Trainwright's."
)


@contextmanager
def user_code(what: str, code_root: Path) -> Iterator[None]:
    """Run user code, on its clock; `what` names it in the error ("model `net.py:Net`"). A fork does not return from it.

    Raises:
        UserCodeError: it raised or tried to leave the process. Errors of ours pass through unchanged.
    """
    argv, process = sys.argv, os.getpid()
    sys.argv = [str(code_root / "worker")]
    try:
        with clock.of(what):
            yield
    except TrainwrightError:
        raise
    except (SystemExit, ExitCalled) as error:
        code = error.code
        raise UserCodeError(
            f"{what} ended the process (exit code {code!r}) instead of returning.",
            remedy="Keep argument parsing and exits out of import: put them under `if __name__ == '__main__':`, "
            "and pass values through `args`.",
            details={"exit_code": code if isinstance(code, int | str) else None},
        ) from error
    except Exception as error:
        from trainwright.trainer.base.failures import known_failure

        if (known := known_failure(error) or wrong_call(error, code_root)) is not None:
            raise known from error
        raise UserCodeError(
            f"{what} raised {type(error).__name__}: {str(error)[:500]}",
            remedy=AT_ITS_LINE if user_traceback(error, code_root) is not None else IN_NO_LINE,
            details={"exception": type(error).__name__},
        ) from error
    finally:
        end_copy_of(process)
        sys.argv = argv


@contextmanager
def library_code(what: str, code_root: Path) -> Iterator[None]:
    """Run a library's own loop over what the user handed over; `what` names it. Errors of ours pass through unchanged.

    Raises:
        UserCodeError: the library, or the user's code in it, raised.
    """
    try:
        yield
    except TrainwrightError:
        raise
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        if _is_ours(frames[-1].filename) or user_frames(list(frames), code_root) is not None:
            raise
        from trainwright.trainer.base.failures import known_failure

        if (known := known_failure(error) or wrong_call(error, code_root)) is not None:
            raise known from error
        raise UserCodeError(
            f"{what} raised {type(error).__name__}: {str(error)[:500]}",
            remedy="The library raised it for what it was given: correct its arguments, or the data and methods that "
            "it calls. It is the same where the script calls train() itself.",
            details={"exception": type(error).__name__},
        ) from error


_WRONG_CALL = re.compile(
    r"(?P<name>[\w.]+)\(\) (?:got an unexpected keyword argument '(?P<unknown>\w+)'|takes |missing )"
)


def wrong_call(error: BaseException, code_root: Path) -> UserCodeError | None:
    """Return the error for a function of the user's that others called with arguments that it does not take."""
    found = _WRONG_CALL.match(str(error)) if isinstance(error, TypeError) else None
    frames = traceback.extract_tb(error.__traceback__)
    root = _prefix(code_root)
    if found is None or not frames or _is_under(frames[-1].filename, root):
        return None
    function = next(filter(None, (_defined(module, found["name"], root) for module in [*sys.modules.values()])), None)
    if function is None:
        return None
    named, unknown = f"{found['name']}({', '.join(inspect.signature(function).parameters)})", found["unknown"]
    remedy = "Define it with the parameters of the method that it replaces, or of its caller."
    if unknown is not None:
        remedy = (
            f"Add the parameter with a default ({unknown}=None), or **kwargs: the library's present version passes it."
        )
    return UserCodeError(
        f"{named} " + (f"lacks `{unknown}`, with which it is called." if unknown else f"is called otherwise: {error}."),
        remedy=remedy,
        details={"exception": type(error).__name__, "line": function.__code__.co_firstlineno},
    )


def _defined(module: Any, name: str, root: str) -> Any:
    """Return the function of that name, if the module is a file of the user's and defines it; else None."""
    file = getattr(module, "__dict__", {}).get("__file__")  # of torch.classes, getattr makes whatever is asked for
    if not isinstance(file, str) or not _is_under(file, root):
        return None
    value = module
    for part in name.split("."):
        value = getattr(value, part, None)
    code = getattr(value, "__code__", None)
    return value if code is not None and _is_under(code.co_filename, root) else None


def user_traceback(error: BaseException, code_root: Path) -> str | None:
    """Return the part of the error's traceback from the first frame of user code on, at most 40 lines.

    Searches the chain of causes. None when no user code was involved.
    """
    root = _prefix(code_root)
    cause: BaseException | None = error
    seen: set[int] = set()
    while cause is not None and id(cause) not in seen:  # `raise error from error` is a circle
        seen.add(id(cause))
        message = "".join(traceback.format_exception_only(cause))
        frames = user_frames(traceback.extract_tb(cause.__traceback__), code_root, message)
        if frames is not None:
            return frames
        if isinstance(cause, SyntaxError) and cause.filename and _is_under(cause.filename, root):
            return _shortened(message)
        if "DataLoader worker process" in str(cause) and root in str(cause):
            return _shortened(str(cause))
        cause = cause.__cause__ or cause.__context__
    return None


def user_frames(frames: list[traceback.FrameSummary], code_root: Path, message: str = "") -> str | None:
    """Return the frames from the first one of user code on as text, without ours and those of the import system.

    The error's `message` follows them. At most 40 lines; None when there is no frame of user code.
    """
    root = _prefix(code_root)
    frames = [frame for frame in frames if not frame.filename.startswith("<frozen") and not _is_ours(frame.filename)]
    first = next((place for place, frame in enumerate(frames) if _is_under(frame.filename, root)), None)
    return None if first is None else _shortened("".join(traceback.format_list(frames[first:])), message)


def innermost_of_user(frames: list[traceback.FrameSummary], code_root: Path) -> traceback.FrameSummary | None:
    """Return the last frame in the user's code; None where there is none."""
    root = _prefix(code_root)
    return next((frame for frame in reversed(frames) if _is_under(frame.filename, root)), None)


def cut(message: str) -> str:
    """Return the message in at most MAX_MESSAGE characters."""
    return message if len(message) <= MAX_MESSAGE else message[: MAX_MESSAGE - 3] + "..."


def _prefix(folder: Path) -> str:
    return str(folder.resolve()) + os.sep


def _is_ours(filename: str) -> bool:
    return os.path.realpath(filename).startswith(_OURS)


def _is_under(filename: str, root: str) -> bool:
    if not Path(filename).is_absolute():  # "<string>", or a name within a library: not of the folder that we are in
        return False
    return os.path.realpath(filename).startswith(root) and f"{os.sep}site-packages{os.sep}" not in filename


def _shortened(text: str, message: str = "") -> str:
    """Return the first frame, the innermost ones and the beginning of the error's message, each line cut."""
    lines, ends = ([cut(line) for line in part.rstrip().splitlines()] for part in (text, message))
    if len(ends) > MAX_MESSAGE_LINES:  # a message of many lines must not push the frames out
        ends = [*ends[: MAX_MESSAGE_LINES - 1], "..."]
    room = MAX_TRACEBACK_LINES - len(ends)
    if len(lines) > room:
        lines = [*lines[:2], "...", *lines[3 - room :]]
    return "\n".join([*lines, *ends])
