"""Evaluations under way in this server: one of each run, so that a large one keeps no call waiting for long."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from threading import Lock, Thread
from typing import NamedTuple

from trainwright.tools.ledger.events import RunEvaluated

PATIENCE_SECONDS = 20.0
"""A call waits so long for an evaluation; the next one asks again."""
STAGE = "evaluating the exported program"


class Attempt(NamedTuple):
    """A run's directory, and which attempt of it has ended."""

    path: Path
    number: int


_LOCK = Lock()
_UNDER_WAY: dict[Attempt, Future[RunEvaluated | None]] = {}


def evaluated_soon(
    attempt: Attempt, evaluate: Callable[[], RunEvaluated | None], *, patience_seconds: float = PATIENCE_SECONDS
) -> list[RunEvaluated] | None:
    """Return the run's evaluation, empty where it has no program; None while it is under way.

    The first call begins it in a thread, and `forget` ends its being known.
    """
    with _LOCK:
        if attempt not in _UNDER_WAY:
            begun = _UNDER_WAY[attempt] = Future()
            Thread(target=lambda: begun.set_result(evaluate()), name="evaluation", daemon=True).start()
        found = _UNDER_WAY[attempt]
    try:
        result = found.result(patience_seconds)
    except TimeoutError:
        return None
    return [result] if result is not None else []


def forget(attempt: Attempt) -> None:
    """Forget the evaluation of an attempt that is sealed."""
    with _LOCK:
        _UNDER_WAY.pop(attempt, None)


def is_under_way(run: Path) -> bool:
    """Return whether this server is evaluating the run's program."""
    with _LOCK:
        return any(path == run and not found.done() for (path, _), found in _UNDER_WAY.items())
