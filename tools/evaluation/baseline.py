"""Baseline that an evaluation gate names: a run of any project or a registered model, on the same rows where it can."""

from __future__ import annotations

from typing import Any, NamedTuple

from sqlalchemy import select
from sqlalchemy.orm import Session

from trainwright.tools.evaluation.sealed import Sealed
from trainwright.tools.ledger import ProjectFacts
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.handles import run_named
from trainwright.tools.workspace.records import get_run
from trainwright.tools.workspace.tables import RegisteredModel
from trainwright.trainer.base.errors import NotFoundError, TrainwrightError
from trainwright.trainer.run import RunDirectory, RunState
from trainwright.trainer.run.artifacts import Program
from trainwright.trainer.run.evidence import Data
from trainwright.trainer.run.split_rows import SplitRows, rows_moved

RELEASED = "@v"


class Named(NamedTuple):
    """The run behind a baseline's name, as its project's ledger has it."""

    name: str
    project: str
    run: Sealed | None
    """None where it cannot be compared with."""
    certified: dict[str, dict[str, float]]
    """By split, on the rows of its own project."""
    problem: str = ""
    rows: Sealed | None = None
    """Its planning's smoke run, which recorded its rows; None where there is none."""

    @property
    def program(self) -> Program:
        """Its exported program; empty without one."""
        found: Program = self.run.part(Program) if self.run is not None else Program()
        return found


def run_behind(session: Session, name: str, project: str) -> str:
    """Return the long id of the run that a baseline's name means.

    Args:
        name: `churn/final-1`, a run of `project`, or `churn@v2` for a registered model.

    Raises:
        NotFoundError: there is no such run or version.
        ConflictError: several runs have this beginning.
    """
    of, found, version = name.rpartition(RELEASED)
    if not found or not version.isdigit():
        return run_named(session, name, project=project)
    query = select(RegisteredModel.run).where(RegisteredModel.project == of, RegisteredModel.version == int(version))
    run = session.scalars(query).first()
    if run is None:
        raise NotFoundError(
            f"Project {of!r} has no registered version {version}.",
            remedy=f"project_status(project={of!r}) shows whether it is finished: passing its last gate registers one.",
        )
    return run


def named_baseline(workspace: Workspace, name: str, project: str) -> Named:
    """Return the run behind a baseline's name, sealed and complete, or why it cannot be compared with. Never raises."""
    try:
        with workspace.snapshot() as session:  # a check that asks holds the database for writing
            row = get_run(session, run_behind(session, name, project))
            facts = ProjectFacts(session, row.project)
    except TrainwrightError as error:
        return Named(name, "", None, {}, f"{error.message} {error.remedy}")
    seal, found = facts.seals.get(row.id), facts.evaluations.get(row.id)
    if seal is None or seal.state != RunState.COMPLETED:
        return Named(name, row.project, None, {}, f"run {row.id} has not completed")
    certified = {split: found.certified(split) for split in ("validation", "test")} if found is not None else {}
    of_rows = facts.rows_run(row.id)
    run, rows = (
        Sealed(workspace.run_directory(row.project, one), facts.seals[one].digests) if one in facts.seals else None
        for one in (row.id, of_rows)
    )
    return Named(name, row.project, run, certified, rows=rows)


def _trained_on(named: Named, rows: Sealed | None) -> dict[str, int]:
    """Return how many rows of each held-out split a baseline was trained on; empty where it is not known."""
    if named.rows is None or rows is None:
        return {}
    records = [(one.part(SplitRows), one.directory.artifacts) for one in (named.rows, rows)]
    try:
        moved = rows_moved(*records[0], *records[1])
    except TrainwrightError:  # a record that was changed tells nothing
        return {}
    return {split: moved.from_train.get(split, 0) for split in ("validation", "test")} if moved is not None else {}


def baseline_record(workspace: Workspace, name: str, project: str) -> dict[str, str]:
    """Return what planning finds behind a baseline's name: the run and its program, or the problem. Never raises."""
    found = named_baseline(workspace, name, project)
    if found.run is None:
        return {"name": name, "problem": found.problem}
    program = found.program
    record = {"name": name, "run_id": found.run.directory.run_id, "program": program.digest or ""}
    if not program.path and not any(found.certified.values()):
        record["problem"] = "it exported no program"
    return record


def record_beside(
    named: Named, run: RunDirectory, answers: dict[str, dict[str, Any]], rows: Sealed | None = None
) -> dict[str, Any]:
    """Return what the ledger keeps of the baseline: its metrics on the same rows, else on those of its own project.

    Args:
        named: the baseline.
        run: that is evaluated.
        answers: the clean room's `beside`, by split; empty where its program could not be run.
        rows: the smoke run whose rows these are.
    """
    head = {"name": named.name, "project": named.project}
    if named.run is None:
        return head | {"problem": named.problem}
    head |= {"run_id": named.run.directory.run_id, "program": named.program.digest or ""}
    problem = next((str(one["problem"]) for one in answers.values() if one.get("problem")), "")
    own, its = run.part(Data).fingerprint, named.run.part(Data).fingerprint
    if answers and not problem:
        kept = {
            split: {key: one[key] for key in ("rows", "metrics", "paired") if key in one}
            for split, one in answers.items()
        }
        same = {"same_rows": True, "same_splits": own is not None and own == its}
        return head | same | {"trained_on": _trained_on(named, rows), "splits": kept}
    why = problem or "it exported no program"
    if not any(named.certified.values()):
        return head | {"problem": f"{why}, and no figure of it is certified"}
    kept = {split: {"metrics": values} for split, values in named.certified.items() if values}
    return head | {"same_rows": False, "why": why, "splits": kept}
