"""Answers about a validation on request: the worst verdicts first, within few tokens; the report has the rest."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal

from pydantic import BaseModel

from trainwright.tools.answers import Answer, NextCall
from trainwright.tools.data.requests import TOLD, ValidationRequest, note_told, why_none
from trainwright.tools.launchers import jobs
from trainwright.trainer.base.text import cut
from trainwright.trainer.data.validation.report import Report, Verdict

MAX_FINDINGS = 8
_short = partial(cut, longest=150)
CORRECTED = "after the rows, or the expectation, are corrected"
REPORT = "report.json"
LONGEST_SUGGESTION = 2600
"""Characters of suggested expectations that an answer holds; longer ones are in their file alone."""


class FindingView(BaseModel):
    """A check that is not passed."""

    check: str
    severity: str
    found: str
    rows: list[int] = []
    """The first ones, counted from 0 in the order of the source."""
    count: int = 0
    remedy: str
    price: str | None = None
    """What the leak was worth, as a leak_price run measured."""


class ValidationAnswer(Answer):
    """Verdicts on a project's data, the worst first."""

    project: str
    state: Literal["running", "done", "failed"]
    rows: int | None = None
    checks: int | None = None
    errors: int | None = None
    """Checks whose failure stops a run."""
    warnings: int | None = None
    findings: list[FindingView] | None = None
    more: int | None = None
    """Findings beyond these; the report has them all."""
    not_checked: list[str] | None = None
    failure: str | None = None
    report: str | None = None
    """JSON with every verdict."""
    suggested: str | None = None
    """Text of an expectations file, with its margin in the first lines; or where it is, if it is long."""


def look_at(
    request: ValidationRequest,
    wait_seconds: float,
    *,
    suggest: bool = False,
    should_stop: Callable[[], bool] = lambda: False,
) -> ValidationAnswer:
    """Return the answer to a request once there is one; at the latest after the wait."""
    try:
        found = jobs.answer_of(request.folder, wait_seconds, should_stop, limit=request.limit, order=request.order)
    except jobs.NoAnswerError as end:
        jobs.forget(request.folder, TOLD)
        return _failed(request, why_none(request, end), "starts it anew; with less data if memory ran out")
    if found is None:
        again = NextCall(tool="validate_data", arguments={"project": request.project}, why="to see the verdicts")
        return ValidationAnswer(project=request.project, state="running", next=again)
    if "failure" in found:
        jobs.forget(request.folder, TOLD)
        failure = found["failure"]
        return _failed(request, f"{failure['message']} {failure['remedy']}", CORRECTED)
    if request.is_elsewhere:
        note_told(request, suggest=suggest)
    _serve(request)
    return _told(request, Report.model_validate(found["report"]), suggest=suggest)


def _failed(request: ValidationRequest, failure: str, why: str) -> ValidationAnswer:
    again = NextCall(tool="validate_data", arguments={"project": request.project}, why=why)
    return ValidationAnswer(project=request.project, state="failed", failure=failure, next=again)


def _serve(request: ValidationRequest) -> None:
    """Copy report and suggestion into the project."""
    request.served.mkdir(parents=True, exist_ok=True)
    for name in (REPORT, "expectations.yaml"):
        source, target = request.folder / name, request.served / name
        if source.is_file() and not source.is_symlink():
            fresh = target.with_name(f".{name}.{os.getpid()}")
            shutil.copyfile(source, fresh)
            fresh.replace(target)


def _told(request: ValidationRequest, report: Report, *, suggest: bool) -> ValidationAnswer:
    worst = report.worst_first()
    errors = sum(check.severity == "error" for check in worst)
    proposal = None
    if suggest:
        text = (request.served / "expectations.yaml").read_text(encoding="utf-8")
        proposal = text if len(text) <= LONGEST_SUGGESTION else str(request.served / "expectations.yaml")
    shown = worst[: 3 if suggest else MAX_FINDINGS]
    return ValidationAnswer(
        project=request.project,
        state="done",
        rows=report.rows,
        checks=len(report.checks),
        errors=errors,
        warnings=sum(check.severity == "warning" for check in worst),
        findings=[_view(check, request.prices) for check in shown],
        more=len(worst) - len(shown) or None,
        not_checked=[_short(f"{one.what}: {one.why}") for one in report.not_checked[:6]],
        report=str(request.served / REPORT),
        suggested=proposal,
        next=_after_fixing(request) if errors else _onward(request, report, is_suggested=suggest),
    )


def _view(check: Verdict, prices: Mapping[str, str]) -> FindingView:
    return FindingView(
        check=check.place,
        severity=check.severity,
        found=_short(check.text),
        rows=check.rows[:5],
        count=check.count,
        remedy=_short(check.remedy),
        price=prices.get(check.place),
    )


def _after_fixing(request: ValidationRequest) -> NextCall:
    return NextCall(tool="validate_data", arguments={"project": request.project}, why=CORRECTED)


def _onward(request: ValidationRequest, report: Report, *, is_suggested: bool) -> NextCall:
    if is_suggested:
        changes = {"data.expectations": "expectations.yaml"}
        arguments: dict[str, Any] = {"project": request.project, "changes": changes, "reason": "expectations"}
        return NextCall(tool="configure", arguments=arguments, why="after writing the text there, under code_root")
    if request.without_leak is not None:
        return request.without_leak
    if not report.expectations:
        arguments = {"project": request.project, "suggest": True}
        return NextCall(tool="validate_data", arguments=arguments, why="no expectations yet: suggests a file of them")
    return NextCall(tool="project_status", arguments={"project": request.project}, why="nothing stops a run")
