"""Parts of a run's view that are read off the project's gates: what closes planning, moved rows, folds, leaks."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel, ConfigDict

from trainwright.tools.gates.decide import evaluate
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.folds import folds_text
from trainwright.tools.gates.leak_prices import price_of
from trainwright.tools.gates.phase_status import phase_status_of
from trainwright.tools.gates.phases import Phase
from trainwright.tools.gates.rows_moved import rows_since
from trainwright.tools.ledger import Look

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy.orm import Session

    from trainwright.tools.workspace import Workspace
    from trainwright.tools.workspace.tables import Run

T = TypeVar("T")


class ClosedBy(BaseModel):
    """A check that keeps a gate closed: the measured beside the required value."""

    model_config = ConfigDict(frozen=True)

    id: str
    measured: str
    required: str


def leak_of(workspace: Workspace, run: Run) -> str | None:
    """Return what the leak of a run was worth, in one sentence."""
    with workspace.session() as session:
        evidence = Evidence(session, workspace, run.project, inspection=Look())
        found = evidence.run(run.id)
        price = price_of(evidence, found) if found is not None else None
    return f"{price.finding}: {price.text}" if price is not None else None


def _read(look: Callable[[Session, Workspace, Run], T], workspace: Workspace, run: Run) -> T:
    """Compute a part of a view, under the lock that what is cached needs not."""
    with workspace.session() as session:
        return look(session, workspace, run)


def planning_closed_by(workspace: Workspace, run: Run) -> list[ClosedBy] | None:
    """Return what a smoke run's record lacks for the planning gate, where it is the gate's smoke run."""
    with workspace.snapshot() as session:
        return workspace.kept.answer(session, run.project, ("planning", run.id), partial(_read, _lacks, workspace, run))


def _lacks(session: Session, workspace: Workspace, run: Run) -> list[ClosedBy] | None:
    evidence = Evidence(session, workspace, run.project, inspection=Look())
    if not evidence.has_valid_config or evidence.smoke is None or evidence.smoke.id != run.id:
        return None
    if phase_status_of(evidence).phase is not Phase.PLANNING:
        return None
    blocking = evaluate(evidence, Phase.PLANNING).blocking
    return [ClosedBy(id=one.id, measured=one.measured, required=one.required) for one in blocking] or None


def rows_of(workspace: Workspace, run: Run) -> str | None:
    """Return how the rows of a smoke run differ from those of the plan, or smoke run, before it."""
    with workspace.snapshot() as session:
        return workspace.kept.answer(session, run.project, ("rows", run.id), partial(_read, _told_rows, workspace, run))


def _told_rows(session: Session, workspace: Workspace, run: Run) -> str | None:
    evidence = Evidence(session, workspace, run.project, inspection=Look())
    found = evidence.run(run.id)
    grown = rows_since(evidence, found) if found is not None and found.is_complete else None
    return str(grown) if grown is not None else None


def folds_of(workspace: Workspace, run: Run) -> str | None:
    """Return the cross-validation that a run is a fold of."""
    config = workspace.run_directory(run.project, run.id).specification().config
    if config.data is None or config.data.split.folds is None:
        return None
    with workspace.session() as session:
        return folds_text(Evidence(session, workspace, run.project, inspection=Look()), config)
