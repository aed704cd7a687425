"""Validation of a run's data as evidence: verdicts by check, made before any step. Free of torch and polars."""

from __future__ import annotations

from pydantic import Field

from trainwright.trainer.base.canonical import digest_json
from trainwright.trainer.data.validation.report import NotChecked, Report, Verdict
from trainwright.trainer.run.evidence import Part

__all__ = ["NotChecked", "Report", "Validation", "Verdict"]


class Validation(Part, file="validation"):
    """Verdicts on the data of a run, or the earlier run that has them: unchanged data is not validated twice."""

    report: Report = Field(default_factory=Report)
    day: str | None = None
    """UTC day of the verdicts, where they depend on it."""
    known_from: str | None = None
    """Planning's smoke run, whose verdicts hold: this run has the same data and expectations."""
    problem: str | None = None
    """Why nothing was validated."""
    is_exempt: bool = False
    """Whether the problem is none to correct: streams are checked while they are trained on. Others close planning."""
    remedy: str | None = None
    family: str | None = None
    """Checks that could not be made."""

    def digest(self) -> str:
        """Return the digest by which the signed record of fixed rows names these verdicts."""
        return digest_json(self.model_dump(mode="json", exclude_unset=True))
