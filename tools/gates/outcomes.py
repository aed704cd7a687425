"""Outcomes of checks, and the registry that binds a check's id to its function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from trainwright.tools.answers import NextCall
from trainwright.tools.gates.checklist import CheckLine
from trainwright.tools.gates.evidence import Evidence
from trainwright.trainer.base.records import Frozen

Status = Literal["passed", "passed_with_exemption", "failed", "not_applicable"]


class Outcome(Frozen):
    """Result of a check function."""

    status: Status
    measured: str
    required: str
    next: NextCall | None = None
    """The remedy of a failure."""


class CheckResult(Outcome):
    """An outcome beside its line of the checklist."""

    id: str
    text: str
    counts: bool
    """Whether a failure keeps the gate closed."""

    def is_blocking(self) -> bool:
        """Return whether this result keeps the gate closed."""
        return self.counts and self.status == "failed"


Check = Callable[["Evidence", CheckLine], Outcome]
CHECKS: dict[str, Check] = {}


def check(identifier: str) -> Callable[[Check], Check]:
    """Register a check function under the id that its checklist line carries."""

    def register(function: Check) -> Check:
        if identifier in CHECKS:
            raise ValueError(f"two checks are named {identifier}")
        CHECKS[identifier] = function
        return function

    return register


def passed(measured: Any, required: Any) -> Outcome:
    """The evidence meets the requirement."""
    return Outcome(status="passed", measured=str(measured), required=str(required))


def passed_with_exemption(measured: Any, required: Any) -> Outcome:
    """The requirement is not met in full, and the workspace's owner granted the exemption, reported everywhere."""
    return Outcome(status="passed_with_exemption", measured=str(measured), required=str(required))


def failed(measured: Any, required: Any, remedy: NextCall | None) -> Outcome:
    """The evidence is missing or does not meet the requirement. No remedy where no call would fix it."""
    return Outcome(status="failed", measured=str(measured), required=str(required), next=remedy)


def not_applicable(reason: str, required: Any = "") -> Outcome:
    """The requirement has no meaning here; the reason is recorded."""
    return Outcome(status="not_applicable", measured=reason, required=str(required))


def passed_if(met: bool, measured: Any, required: Any, remedy: NextCall | None) -> Outcome:
    """Passed if `met`, otherwise failed with the remedy."""
    return passed(measured, required) if met else failed(measured, required, remedy)
