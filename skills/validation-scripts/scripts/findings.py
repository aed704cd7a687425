"""The outcome of a validation script: findings, what was left out, one JSON object as the last line, an exit code.

Exit code 0: good; 1: something was found; 2: it could not be checked. Only the standard library is used.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

GOOD, FOUND, UNCHECKED = 0, 1, 2
VERDICTS = {GOOD: "good", FOUND: "found", UNCHECKED: "not_checked"}
MAX_SHOWN = 100


class UncheckableError(Exception):
    """The thing to be checked cannot be read, or a package is missing without which nothing can be said.

    Attributes:
        remedy: what to do.
    """

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.remedy = remedy


@dataclass
class Outcome:
    """What a script found in one thing."""

    subject: str
    findings: list[dict[str, Any]] = field(default_factory=list)
    notes: list[dict[str, Any]] = field(default_factory=list)
    """Findings that leave the exit code at 0."""
    not_checked: list[str] = field(default_factory=list)
    """Parts of the check that were left out, each with its reason."""
    facts: dict[str, Any] = field(default_factory=dict)
    """Figures on the thing: rows, tensors, stages."""

    def found(self, check: str, text: str, remedy: str, *, counts: bool = True, **more: Any) -> None:
        """Add a finding; `counts`: it makes the exit code 1."""
        (self.findings if counts else self.notes).append({"check": check, "found": text, "remedy": remedy, **more})

    def report(self) -> int:
        """Print the findings, then the JSON object as the last line, and return the exit code."""
        code = FOUND if self.findings else GOOD
        for one in [*self.findings, *self.notes][:MAX_SHOWN]:
            sys.stdout.write(f"{one['check']}: {one['found']}\n    {one['remedy']}\n")
        for left in self.not_checked:
            sys.stdout.write(f"not checked: {left}\n")
        answer = {"findings": self.findings[:MAX_SHOWN], "notes": self.notes[:MAX_SHOWN]}
        left_out = max(0, len(self.findings) - MAX_SHOWN)
        return _printed(self.subject, code, **self.facts, **answer, left_out=left_out, not_checked=self.not_checked)


def run(subject: str, check: Callable[[Outcome], None]) -> int:
    """Run a check, print its outcome and return the exit code; 2 where it raises UncheckableError.

    What a check did not foresee leaves no traceback either: findings up to there count, and without one it is 2.
    """
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:  # a name in a broken file need not be one that this terminal can show
        reconfigure(errors="backslashreplace")
    outcome = Outcome(subject)
    try:
        check(outcome)
    except UncheckableError as error:
        return _uncheckable(subject, error)
    except Exception as error:  # noqa: BLE001 - whatever a hostile file brings about, the last line is the answer
        what = f"{subject} is malformed in a way that this script does not know ({type(error).__name__}: {error})"[:300]
        if not outcome.findings:
            return _uncheckable(subject, UncheckableError(what, "Compare the file with one that its program writes."))
        outcome.not_checked.append(what)
    return outcome.report()


def is_there(path: Path, *, is_file: bool = False) -> bool:
    """Return whether a path, or a file, exists; one whose name no file can have does not."""
    try:
        return path.is_file() if is_file else path.exists()
    except (OSError, ValueError):  # too long, or with a zero byte
        return False


def _uncheckable(subject: str, error: UncheckableError) -> int:
    sys.stdout.write(f"could not check: {error}\n    {error.remedy}\n")
    return _printed(subject, UNCHECKED, error=str(error), remedy=error.remedy)


def _printed(subject: str, code: int, **values: Any) -> int:
    sys.stdout.write(json.dumps({"subject": subject, "verdict": VERDICTS[code], **values}, default=str) + "\n")
    return code
