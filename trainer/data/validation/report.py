"""Report of a validation: a verdict for every check, and what was not checked. Light: the server reads it too."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Severity = Literal["error", "warning", "info"]
ORDER: dict[str, int] = {"error": 0, "warning": 1, "info": 2}
MAX_ROWS = 20
"""Row numbers that a verdict names."""


class Verdict(BaseModel):
    """Result of one check."""

    model_config = ConfigDict(frozen=True, extra="ignore", protected_namespaces=())

    family: str
    name: str
    """The check: `nulls`, `range`, `psi`, ..."""
    column: str | None = None
    split: str | None = None
    """The split that was checked; None: all rows."""
    severity: Severity = "error"
    """What it means if it is not passed: error stops a run, warning and info are reported."""
    passed: bool = True
    value: float | int | str | None = None
    """As measured."""
    bound: float | int | str | None = None
    """As expected."""
    count: int = 0
    """Offending rows."""
    rows: list[int] = Field(default_factory=list)
    """Their numbers, counted from 0 in the order of the source; at most 20."""
    text: str = ""
    """What was found, in one sentence."""
    remedy: str = ""
    kind: str | None = None
    """Of a leak: duplicate, near_duplicate, group, time, target, ..."""
    details: dict[str, Any] = Field(default_factory=dict)
    """More of the same, JSON types only."""

    @property
    def stops(self) -> bool:
        """Whether no run may be trained on such data."""
        return not self.passed and self.severity == "error"

    @property
    def place(self) -> str:
        """Name of the check with its column: `age.range`."""
        return f"{self.column}.{self.name}" if self.column else self.name


class NotChecked(BaseModel):
    """Something that was not checked, and why."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    what: str
    why: str


class Report(BaseModel):
    """All verdicts on some data, and what they are of."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    checks: list[Verdict] = Field(default_factory=list)
    not_checked: list[NotChecked] = Field(default_factory=list)
    rows: int = 0
    """Rows of the source."""
    rows_read: int = 0
    """Rows that were checked; fewer where only a sample could be."""
    columns: dict[str, str] = Field(default_factory=dict)
    """Kind by column."""
    target: str | None = None
    expectations: dict[str, Any] = Field(default_factory=dict)
    """As they were applied, without defaults."""
    expectations_digest: str | None = None
    seconds: float = 0.0

    def worst_first(self) -> list[Verdict]:
        """Return the checks that are not passed: errors, warnings, then the rest, the most rows first."""
        failed = [check for check in self.checks if not check.passed]
        return sorted(failed, key=lambda check: (ORDER[check.severity], -check.count, check.place))

    @property
    def stopping(self) -> list[Verdict]:
        """The failed checks that forbid training."""
        return [check for check in self.worst_first() if check.stops]
