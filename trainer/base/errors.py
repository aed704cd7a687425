"""Errors of Trainwright: each with its value, rule and remedy, and the near names that a remedy proposes.

TrainwrightError
├── ConfigurationError     a configuration that breaks the schema or contradicts itself
├── UserCodeError          the user's module, model, data or loss raised, exited or hung
├── DataError              data that cannot be read, is empty, or does not fit the task
├── DivergenceError        a loss, gradient or parameter that is not finite
├── AlertError             a critical alert, on which the run is to stop
├── OutOfMemoryError       the device or the machine ran out of memory
├── ReproducibilityError   determinism that failed, or evidence that no longer matches
├── IntegrityError         a file or record whose digest or chain does not match
├── StorageError           a disk that is full or a path that cannot be written
├── LimitReachedError      a limit set by the workspace's owner
├── ApprovalNeededError    something that only the workspace's owner may allow
├── GateRefusedError       a gate whose checks have not passed, or a call that a closed phase forbids
├── NotFoundError          an id or name that does not exist
└── ConflictError          a call that the present state of a run or project does not allow
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import Any, ClassVar


class TrainwrightError(Exception):
    """An error that the caller can act on: the cause and the remedy.

    Args:
        message: the value and the rule it breaks, one or two sentences.
        remedy: the next thing to do, preferably an exact call.
        document: path of the document that explains it, relative to `skills/ml-trainer/`.
        details: machine-readable facts (JSON types only).
    """

    category: ClassVar[str] = "error"
    explained_in: ClassVar[str | None] = None
    """The document for errors of this kind that name none."""

    def __init__(
        self,
        message: str,
        *,
        remedy: str,
        document: str | None = None,
        details: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        self.document = document or self.explained_in
        self.details = details or {}

    def as_dict(self) -> dict[str, Any]:
        """Return the error as JSON types, as `status.json` stores it and agents get it."""
        return {
            "category": self.category,
            "message": self.message,
            "remedy": self.remedy,
            "document": self.document,
            "details": self.details,
        }


class ConfigurationError(TrainwrightError):
    """A configuration that breaks the schema or contradicts itself."""

    category = "configuration"


class UserCodeError(TrainwrightError):
    """The user's module, model, data or loss raised, exited or hung."""

    category = "user_code"
    explained_in = "configs/your_code.md"


class DataError(TrainwrightError):
    """Data that cannot be read, is empty, or does not fit the task."""

    category = "data"


class DivergenceError(TrainwrightError):
    """A loss, gradient or parameter that is not finite."""

    category = "divergence"


class AlertError(TrainwrightError):
    """A critical alert, raised while training, whose configured policy is to stop."""

    category = "alert"


class OutOfMemoryError(TrainwrightError):
    """The device or the machine ran out of memory."""

    category = "out_of_memory"


class ReproducibilityError(TrainwrightError):
    """Determinism that failed, or evidence that no longer matches."""

    category = "reproducibility"


class IntegrityError(TrainwrightError):
    """A file or record whose digest or chain does not match."""

    category = "integrity"


class StorageError(TrainwrightError):
    """A disk that is full or a path that cannot be written."""

    category = "storage"


class LimitReachedError(TrainwrightError):
    """A limit set by the workspace's owner."""

    category = "limit"


class ApprovalNeededError(TrainwrightError):
    """Something that only the workspace's owner may allow."""

    category = "approval"


class GateRefusedError(TrainwrightError):
    """A gate whose checks have not passed, or a call that a closed phase forbids."""

    category = "gate"


class NotFoundError(TrainwrightError):
    """An id or name that does not exist."""

    category = "not_found"


class ConflictError(TrainwrightError):
    """A call that the present state of a run or project does not allow."""

    category = "conflict"


CUTOFF = 0.6
"""Share of equal characters (difflib's ratio) from which a name may be meant."""
SHORTEST_PART = 4
"""Characters from which a name that is part of another may be meant."""


def folded(name: str) -> str:
    """Return a name without case and separators: `AdamW`, `adam_w` and `ADAM-W` are one."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def same(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that differs in nothing but case and separators, if exactly one does."""
    found = [candidate for candidate in known if folded(candidate) == folded(name) != ""]
    return found[0] if len(found) == 1 else None


def near(name: str, known: Iterable[str], *, most: int = 1, cutoff: float = CUTOFF) -> list[str]:
    """Return the known names most like `name`, the nearest first: the same one folded, alike ones, then parts."""
    by_fold: dict[str, list[str]] = {}
    for candidate in sorted(set(known)):
        by_fold.setdefault(folded(candidate), []).append(candidate)
    wanted = folded(name)
    if not wanted:
        return []
    alike = difflib.get_close_matches(wanted, by_fold, n=most, cutoff=cutoff)
    long = [one for one in by_fold if min(len(one), len(wanted)) >= SHORTEST_PART and one not in alike]
    parts = [one for one in long if wanted in one or one in wanted]
    return [candidate for one in (*alike, *parts) for candidate in by_fold[one]][:most]


def near_matches(name: str, known: Iterable[str]) -> str:
    """Return ` Near: a, b.`, or nothing when no known name is like it."""
    found = near(name, known, most=3)
    return f" Near: {', '.join(found)}." if found else ""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return "; did you mean `a`?", or nothing when no known name is like it."""
    found = near(name, known)
    return f"; did you mean `{found[0]}`?" if found else ""
