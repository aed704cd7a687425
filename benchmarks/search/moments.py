"""When what happened in a study's trials, read from ledger, run directories and run table after its end."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from statistics import median

from ours import Project, Searched
from sqlalchemy import select

from trainwright.tools.launchers import read_launch
from trainwright.tools.ledger.events import read_body
from trainwright.tools.workspace.records import runs_of
from trainwright.tools.workspace.tables import LedgerEntry, Run
from trainwright.trainer.run import RunDirectory


@dataclass(frozen=True)
class Moments:
    """One trial's, in seconds since 1970."""

    number: int
    planned: float
    """Its configuration was settled, and the order written."""
    launched: float
    started: float
    """The worker's first record: its imports are made."""
    probed: float
    """The environment was probed; data and model come next."""
    first_epoch: float
    """The first epoch begins: the end of the first one, less the median of the others."""
    last_epoch: float
    ended: float
    sealed: float
    epochs: int
    steps: int


def moments_of(project: Project, searched: Searched) -> list[Moments]:
    """Return the moments of a study's trials by number; those of its confirmation are none."""
    with project.workspace.session() as session:
        runs = [run for run in runs_of(session, project.name) if run.study == searched.study_id]
        query = select(LedgerEntry).where(LedgerEntry.project == project.name, LedgerEntry.kind == "run_sealed")
        sealed = {read_body(entry.body)["run_id"]: entry.time for entry in session.scalars(query)}
    trials = [run for run in runs if (run.label or "").startswith("trial ")]
    found = [
        moments_of_run(run, project.workspace.run_directory(project.name, run.id), sealed[run.id]) for run in trials
    ]
    return sorted(found, key=lambda one: one.number)


def moments_of_run(run: Run, directory: RunDirectory, sealed: str) -> Moments:
    """Return the moments of one trial's run.

    Raises:
        RuntimeError: it was not launched by us, or had more than one attempt.
    """
    launch, events = read_launch(directory.path), directory.events()
    if launch is None or launch.attempt != 1:
        raise RuntimeError(f"{run.id} has no single attempt")
    at = {event.kind: event.time for event in events}
    ends = [event.time for event in events if event.kind == "epoch"]
    lengths = [after - before for before, after in pairwise(ends)]
    return Moments(
        number=int(str(run.label).split()[-1]),
        planned=run.created_at.replace(tzinfo=UTC).timestamp(),
        launched=launch.launched_at,
        started=at["started"],
        probed=at["probe"],
        first_epoch=ends[0] - median(lengths or [0.0]),
        last_epoch=ends[-1],
        ended=at["ended"],
        sealed=datetime.fromisoformat(sealed).timestamp(),
        epochs=len(ends),
        steps=directory.last_status().step,
    )
