"""Observation of a run from its directory alone: the worker's record, its lock, and the latest launch."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from pathlib import Path

from trainwright.tools.launchers import Launch, may_begin, read_launch
from trainwright.trainer.base.errors import IntegrityError, NotFoundError, TrainwrightError
from trainwright.trainer.run import Failure, RunDirectory, RunState, RunStatus

LAST_LINES = 12
LAST_CHARACTERS = 1200


@dataclass(frozen=True)
class Observation:
    """One observation of a run."""

    state: RunState
    status: RunStatus
    launch: Launch
    failure: Failure | None = None
    is_settled: bool = False
    """Ended, and no process is left that could still write: the time to seal."""


def observe(directory: RunDirectory) -> Observation:
    """Observe a run. A damaged or missing record is reported as a failure, never raised."""
    launch = read_launch(directory.path) or Launch(launched_at=0.0)
    try:
        status = directory.status()
        if status.attempt < launch.attempt and not directory.is_locked() and not may_begin(launch):
            status = directory.status()  # the worker may have begun and ended since the first reading
    except (IntegrityError, NotFoundError) as error:
        return _unreadable(directory, launch, error)
    if status.attempt < launch.attempt:
        return _not_taken_up(directory, launch, status)
    settled = status.state.is_ended and not directory.is_locked()
    if status.state is RunState.INTERRUPTED:
        status = status.model_copy(update={"stop_reason": _asked_for(directory)})
    failure = _vanished(directory, status) if status.state is RunState.INTERRUPTED else status.failure
    return Observation(status.state, status, launch, failure, settled)


def last_lines(log: Path) -> list[str]:
    """Return the last lines of a process's log, at most LAST_LINES of LAST_CHARACTERS in all."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 8 * LAST_CHARACTERS))
            text = file.read().decode(errors="replace")
    except OSError:
        return []
    lines = deque((line for line in text.splitlines() if line.strip()), maxlen=LAST_LINES)
    while len(lines) > 1 and sum(map(len, lines)) > LAST_CHARACTERS:
        lines.popleft()
    return [line[-LAST_CHARACTERS:] for line in lines]


def resuming(directory: RunDirectory) -> str:
    """Return the call that resumes the run; its folder is in the project's."""
    project = directory.path.parent.parent.name
    return f"resume_training(project={project!r}, run_id={directory.run_id!r})"


def _asked_for(directory: RunDirectory) -> str | None:
    """Return why the run was asked to stop; None where it was not. Resuming removes the file."""
    try:
        return directory.stop_reason.read_text(errors="replace").strip()[:200] or None
    except OSError:
        return None


def _not_taken_up(directory: RunDirectory, launch: Launch, status: RunStatus) -> Observation:
    """The latest launch has not written a record yet: it is on its way, or it never will."""
    if directory.is_locked():
        return Observation(RunState.STARTING, status, launch)
    if may_begin(launch):
        return Observation(RunState.CREATED, status, launch)
    asked = _asked_for(directory)
    reason = (
        launch.error
        or (f"it was asked to stop ({asked}) before that" if asked else None)
        or ("its process ended before it took up the run" if launch.is_known else "its server died before it could")
    )
    failure = Failure(
        category="interrupted",
        message=f"Attempt {launch.attempt} of the worker never began: {reason}.",
        remedy=f"{resuming(directory)} starts it again; `trainwright doctor` checks the rest.",
        details={"last_lines": last_lines(directory.log)},
    )
    # Without a known process a late one may still turn up, so such a run is not sealed.
    known = launch.is_known or launch.error is not None
    return Observation(RunState.INTERRUPTED, status, launch, failure, is_settled=known)


def _vanished(directory: RunDirectory, status: RunStatus) -> Failure:
    where = f"at step {status.step}" + (f" while {status.stage}" if status.stage else "")
    killed = (
        "it was killed (by a person, the system, or for want of memory), or code of the project ended it with os._exit"
    )
    asked = f"it was asked to stop ({status.stop_reason}) and could not do so in order, so its processes were ended"
    return Failure(
        category="interrupted",
        message=f"The worker process ended {where} without a last record: {asked if status.stop_reason else killed}.",
        remedy=f"{resuming(directory)} continues from the newest intact checkpoint.",
        details={"last_lines": last_lines(directory.log)},
    )


def _unreadable(directory: RunDirectory, launch: Launch, error: TrainwrightError) -> Observation:
    if directory.is_locked():  # a living worker replaces its record within a second
        status = RunStatus(state=RunState.RUNNING, attempt=launch.attempt, stage="status unreadable")
        return Observation(RunState.RUNNING, status, launch)
    failure = Failure.model_validate(error.as_dict())
    status = RunStatus(state=RunState.FAILED, attempt=launch.attempt, failure=failure)
    return Observation(RunState.FAILED, status, launch, failure, is_settled=directory.path.exists())
