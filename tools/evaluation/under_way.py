"""Evaluations under way in this server: one of each run, so that a large one keeps no call waiting for long."""

from __future__ import annotations

from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from trainwright.tools.ledger.events import RunEvaluated

PATIENCE_SECONDS = 20.0
"""A call waits so long for an evaluation; the next one asks again."""
STAGE = "evaluating the exported program"


class Attempt(NamedTuple):
    """A run's directory, and which attempt of it has ended."""

    path: Path
    number: int


class _Evaluation:
    """One evaluation in a thread of its own."""

    def __init__(self, evaluate: Callable[[], RunEvaluated | None]) -> None:
        self.done = Event()
        self.result: RunEvaluated | None = None
        self._evaluate = evaluate
        Thread(target=self._work, name="evaluation", daemon=True).start()

    def _work(self) -> None:
        try:
            self.result = self._evaluate()
        finally:
            self.done.set()


_LOCK = Lock()
_UNDER_WAY: dict[Attempt, _Evaluation] = {}


def evaluated_soon(
    attempt: Attempt, evaluate: Callable[[], RunEvaluated | None], *, patience_seconds: float = PATIENCE_SECONDS
) -> list[RunEvaluated] | None:
    """Return the run's evaluation, empty where it has no program; None while it is under way.

    The first call begins it in a thread, and `forget` ends its being known.
    """
    with _LOCK:
        if attempt not in _UNDER_WAY:
            _UNDER_WAY[attempt] = _Evaluation(evaluate)
        found = _UNDER_WAY[attempt]
    if not found.done.wait(patience_seconds):
        return None
    return [found.result] if found.result is not None else []


def forget(attempt: Attempt) -> None:
    """Forget the evaluation of an attempt that is sealed."""
    with _LOCK:
        _UNDER_WAY.pop(attempt, None)


def is_under_way(run: Path) -> bool:
    """Return whether this server is evaluating the run's program."""
    with _LOCK:
        return any(path == run and not found.done.is_set() for (path, _), found in _UNDER_WAY.items())
