"""`trainwright validate-data`: verdicts on a project's data, the worst first."""

from __future__ import annotations

import json
import time
from pathlib import Path

from trainwright.server.commands.terminal import Terminal
from trainwright.tools.data import ValidationAnswer, look_at, request_validation
from trainwright.tools.workspace import Workspace

WAIT_SECONDS = 1.0
MARKS = {"error": "fail", "warning": "warn", "info": "ok"}


def show_validation(path: Path, project: str, *, as_json: bool) -> bool:
    """Validate, print the verdicts, and return whether a run may train on the data. Raises TrainwrightError."""
    workspace, terminal = Workspace.open(path), Terminal()
    try:
        answer = _answer(workspace, project, terminal)
    finally:
        workspace.close()
    if as_json:
        terminal.line(json.dumps(answer.model_dump(mode="json", exclude_none=True), indent=2))
    else:
        _show(terminal, answer)
    return answer.state == "done" and not answer.errors


def _answer(workspace: Workspace, project: str, terminal: Terminal) -> ValidationAnswer:
    request, began = request_validation(workspace, project), time.monotonic()
    while (answer := look_at(request, WAIT_SECONDS)).state == "running":
        terminal.progress("validating", int(time.monotonic() - began), int(request.limit))
    terminal.progress()
    return answer


def _show(terminal: Terminal, answer: ValidationAnswer) -> None:
    if answer.failure is not None:
        terminal.marked("fail", answer.failure)
        return
    for one in answer.findings or []:
        rows = f" (rows {', '.join(map(str, one.rows))}{', …' * (one.count > len(one.rows))})" if one.rows else ""
        terminal.marked(MARKS[one.severity], f"{one.check}: {one.found}{rows}")
        for more in (one.price, one.remedy):
            if more:
                terminal.line(f"      {more}")
    if answer.more:
        terminal.line(f"      {answer.more} more in the report.")
    for left in answer.not_checked or []:
        terminal.line(f"      not checked: {left}", "dim")
    counted = f"{answer.checks} checks of {answer.rows} rows: {answer.errors} errors, {answer.warnings} warnings"
    terminal.marked("fail" if answer.errors else "ok", f"{counted}; {answer.report}")
