"""Playing one honest project, and comparing what the clean room found with what the training process reported."""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from honest import honest
from walk import Walk

from trainwright.tools.ledger import ProjectFacts
from trainwright.tools.projects import Advance, advance, configure, create_project
from trainwright.tools.workspace import Workspace
from trainwright.trainer.base.errors import TrainwrightError
from trainwright.trainer.run import RunKind
from trainwright.trainer.run.artifacts import FixedRows, Program

LONGEST_SECONDS = 600.0
GOING_ON = frozenset({"wait", "alert"})
"""Ends of `advance` after which it goes on when it is asked again."""


@dataclass
class Found:
    """What became of one project."""

    name: str
    end: str = "stuck"
    seconds: float = 0.0
    added: float = 0.0
    evaluated: int = 0
    """Runs whose figure of the goal's metric is certified."""
    differences: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    """Why the goal's metric of runs was not evaluated."""

    @property
    def agrees(self) -> bool:
        """Whether the goal's metric was evaluated, and every figure was the training process's."""
        return self.evaluated > 0 and not self.differences and not self.reasons

    @property
    def line(self) -> str:
        """One line of the table."""
        state = "agrees" if self.agrees else "differs" if self.differences else "not evaluated"
        said = "; ".join(dict.fromkeys([*self.differences, *self.reasons]))
        share = 100 * self.added / self.seconds if self.seconds else 0.0
        figures = f"{self.evaluated:2} runs  {self.end:9} {self.seconds:6.1f} s  {share:4.1f} %"
        return f"{self.name:18} {state:14} {figures}  {said}"


def play(name: str) -> Found:
    """Take one project to its end in a folder of its own."""
    walk = next(walk for walk in honest() if walk.name == name)
    with tempfile.TemporaryDirectory(prefix="clean-room-") as folder:
        code, workspace = Path(folder) / "code", Workspace.open(Path(folder) / "workspace")
        code.mkdir()
        for file, text in walk.files.items():
            (code / file).write_text(text)
        if walk.prepare is not None:
            walk.prepare(SimpleNamespace(code=code))  # type: ignore[arg-type]
        try:
            return _played(workspace, walk, code)
        except TrainwrightError as error:  # it would not survive the way back from this process
            return Found(name, reasons=[f"{error.message} {error.remedy}"])
        finally:
            workspace.close()


def _played(workspace: Workspace, walk: Walk, code: Path) -> Found:
    began, found = time.monotonic(), Found(walk.name)
    root = {"code_root": code.name} if walk.files else {}
    create_project(workspace, walk.name, intent="an honest project", goal=walk.goal, config={**root, **walk.config})
    while time.monotonic() - began < LONGEST_SECONDS:
        answer = advance(workspace, walk.name, is_attended=False)
        if changes := _proposed(answer):
            configure(workspace, walk.name, changes=changes, reason="as it was proposed")
        elif answer.ended not in GOING_ON or not answer.steps:
            found.end = answer.ended
            if answer.ended != "finished":
                found.reasons.append(answer.reason or (answer.failure.message if answer.failure else f"{answer.next}"))
            break
    found.seconds = time.monotonic() - began
    _compare(workspace, found, walk.goal["metric"])
    return found


def _proposed(answer: Advance) -> dict[str, Any]:
    """Return the changes of configuration that the answer proposes for a project that has not ended."""
    call = answer.next if answer.ended != "finished" else None
    return dict(call.arguments.get("changes") or {}) if call is not None and call.tool == "configure" else {}


def _compare(workspace: Workspace, found: Found, metric: str) -> None:
    """Add what the ledger and the runs say on the evaluations of the project, whose goal has this metric."""
    with workspace.session() as session:
        facts = ProjectFacts(session, found.name)
    for run_id, event in facts.evaluations.items():
        validation = event.splits.get("validation", {})
        found.evaluated += metric in validation.get("metrics", {}) and not event.problem
        found.differences += event.differences
        if event.problem or metric not in validation.get("metrics", {}):
            why = event.problem or validation.get("not_computed", {}).get(metric, "training alone computes it")
            found.reasons.append(f"{metric}: {why}")
        found.added += event.seconds
        run = workspace.run_directory(found.name, run_id)
        if run.specification().kind is not RunKind.EXPORT:  # which wrote and compared its files before, too
            found.added += run.part(Program).seconds
    for run_id in facts.started:
        found.added += workspace.run_directory(found.name, run_id).part(FixedRows).seconds
