"""Lost workers of a study's runs: which are replaced, and when a trial has failed or the study halts.

A kill from outside is never a trial's failure: the trial goes on from its checkpoint, however often. What ended itself
would do so again from the same checkpoint, for the training is exact, so a few deaths there decide. Every resuming
stands in the ledger with the death before it, a worker's that never began too; so no kill resets the count.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pydantic import ValidationError
from sqlalchemy.orm import Session

from trainwright.tools import ledger
from trainwright.tools.ledger.events import AblationChanged, RunResumed, StudyChanged
from trainwright.tools.training_orchestrator.observation import Observation
from trainwright.tools.training_orchestrator.resume import ITSELF, OUTSIDE, STALLED, CodeAwayError, Death
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.tables import Run
from trainwright.trainer.base.errors import GateRefusedError, LimitReachedError, StorageError, TrainwrightError
from trainwright.trainer.run import Failure

MAX_FAULTS = 3
"""Deaths of its own after the same checkpoint, with which a trial has failed."""
MAX_STALLS = 2
"""Times that a trial may hang before it has failed, wherever it does."""
MAX_LOST = 30
"""Kills from outside after the same checkpoint, since the study was last started, at which the study halts."""
CRASHED = "crashed"
"""Category of such a trial's failure."""


class WorkersLostError(TrainwrightError):
    """Something outside ends a run's workers before they get anywhere: no trial is to blame, and none can go on."""

    category = "interrupted"


def failure_by(workspace: Workspace, run: Run, seen: Observation, death: Death) -> Failure | None:
    """Return the failure that a death makes of its run; None: the worker is to be replaced.

    Raises:
        WorkersLostError: so many were killed from outside without getting any further that the study has to halt.
    """
    with workspace.session() as session:
        earlier = _earlier(session, run)
        since = _last_start(session, run)
    if death.by == STALLED:
        return _stalled(run) if sum(one.by == STALLED for _, one in earlier) + 1 >= MAX_STALLS else None
    alike = [at for at, one in earlier if one.by == death.by and one.saved_step == death.saved_step]
    if death.by == ITSELF and len(alike) + 1 >= MAX_FAULTS:
        return Failure(
            category=CRASHED,
            message=f"The run's process ended itself {MAX_FAULTS} times {_place(death)}: {death.why}.",
            remedy=f"run_status(run_id='{run.id}') shows its last lines; narrow the space or correct the code.",
        )
    if death.by == OUTSIDE and sum(at > since for at in alike) + 1 >= MAX_LOST:
        raise _lost(run, seen)
    return None


def _earlier(session: Session, run: Run) -> list[tuple[int, Death]]:
    """Return the deaths that the run was resumed after, each with its ledger entry."""
    found = []
    for sequence, body in ledger.entries(session, run.project, RunResumed.name):
        if body.get("run_id") == run.id and body.get("died"):
            try:
                found.append((sequence, Death.model_validate(body["died"])))
            except ValidationError:  # an entry that was damaged; `verify` names it
                continue
    return found


def _last_start(session: Session, run: Run) -> int:
    """Return the ledger entry with which the run's study was last started; 0 where there is none."""
    kinds = (StudyChanged.name, AblationChanged.name)
    entries = [entry for kind in kinds for entry in ledger.entries(session, run.project, kind)]
    starts = [at for at, body in entries if body.get("study_id") == run.study and body.get("search") is not None]
    return max(starts, default=0)


def _place(death: Death) -> str:
    return f"after its checkpoint of step {death.saved_step}" if death.saved_step >= 0 else "before it saved any"


def _stalled(run: Run) -> Failure:
    return Failure(
        category=STALLED,
        message="The run made no step for too long; resumed from its checkpoint, it hung again.",
        remedy=f"run_status(run_id='{run.id}') shows the last stage and step.",
    )


def _lost(run: Run, seen: Observation) -> WorkersLostError:
    last = f" The last one: {seen.failure.message}" if seen.failure is not None else ""
    return WorkersLostError(
        f"{MAX_LOST} workers of run {run.id} were ended from outside, none of which got any further.{last}",
        remedy="`trainwright doctor` checks the machine. Nothing is lost: start_tuning with the same search goes on.",
        details={"next": {"tool": "start_tuning", "arguments": {"project": run.project}}, "run": run.id},
    )


# Failures of a conductor: those that leave a study stopped, so that it can go on later, and those that end it.

STOPPING = (GateRefusedError, LimitReachedError, StorageError, WorkersLostError, CodeAwayError)
"""Errors whose cause lies outside of the study: it goes on once that is put right."""


@contextmanager
def recorded_failures(study_id: str, end: Callable[[str, TrainwrightError], None]) -> Iterator[None]:
    """Record in a study what fails inside; what is no error of Trainwright's is printed, recorded and raised again.

    Args:
        end: writes the study's state, `stopped` or `failed`, with the failure.
    """
    try:
        yield
    except STOPPING as error:
        end("stopped", error)
    except TrainwrightError as error:
        end("failed", error)
    except Exception as error:
        traceback.print_exc()
        remedy = f"Read {study_id}/conductor.log in the project folder; the same start_tuning goes on."
        text = f"The conductor failed: {type(error).__name__}: {error}"
        end("stopped", TrainwrightError(text, remedy=remedy))
        raise
