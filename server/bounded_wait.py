"""Bounded waits: on a thread, with progress for the client, and cancelled as soon as the client gives up."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import anyio
import anyio.to_thread
from mcp.server.mcpserver import Context

from trainwright.trainer.base.errors import TrainwrightError

if TYPE_CHECKING:
    from trainwright.tools.hyperparameter_tuner import StudyView
    from trainwright.tools.training_orchestrator import RunView
    from trainwright.tools.workspace import Workspace

PROGRESS_SECONDS = 1.0
Answer = TypeVar("Answer")


class Progress(NamedTuple):
    """Progress of a run or study."""

    done: float
    total: float | None
    message: str


async def waited(
    context: Context[Any, Any],
    look: Callable[[Callable[[], bool]], Answer],
    progress: Callable[[], Progress],
) -> Answer:
    """Run `look(should_stop)` on a thread and report progress every second until it returns.

    When the client cancels the call, `should_stop` turns true and the thread ends soon after; the run continues.
    """
    given_up = threading.Event()

    async def report() -> None:
        while True:
            await anyio.sleep(PROGRESS_SECONDS)
            with suppress(TrainwrightError):  # the answer itself reports a damaged record
                done, total, message = await anyio.to_thread.run_sync(progress)
                await context.report_progress(done, total, message)

    reporter = asyncio.create_task(report())
    try:
        return await anyio.to_thread.run_sync(look, given_up.is_set, abandon_on_cancel=True)
    finally:
        given_up.set()
        reporter.cancel()


async def watched_run(
    context: Context[Any, Any],
    find: Callable[[], tuple[Workspace, str]],
    wait_seconds: float,
    after_step: int | None = None,
) -> RunView:
    """Return the run once it has ended, raised an alert or passed the step; at the latest after the wait.

    Args:
        find: gives the workspace and the run's id; called on the thread that waits.
    """
    from trainwright.tools.training_orchestrator import wait_for_run

    found: list[tuple[Workspace, str]] = []

    def look(should_stop: Callable[[], bool]) -> RunView:
        found.append(find())
        return wait_for_run(*found[0], wait_seconds, after_step, should_stop=should_stop, known=())

    return await waited(context, look, lambda: run_progress(*found[0]) if found else Progress(0.0, None, "opening"))


async def watched_study(
    context: Context[Any, Any], workspace: Workspace, study_id: str, wait_seconds: float
) -> StudyView:
    """Return the study once it has ended; at the latest after the wait."""
    from trainwright.tools.hyperparameter_tuner import study_status

    def look(should_stop: Callable[[], bool]) -> StudyView:
        return study_status(workspace, study_id, wait_seconds, should_stop=should_stop)

    return await waited(context, look, lambda: study_progress(workspace, study_id))


def run_progress(workspace: Workspace, run_id: str) -> Progress:
    """Return a run's progress, from its status file alone."""
    from trainwright.tools.workspace.records import get_run

    with workspace.session() as session:
        run = get_run(session, run_id)
    status = workspace.run_directory(run.project, run_id).status()
    return Progress(status.step, status.total_steps, f"{status.state.value} {status.stage}".strip())


def study_progress(workspace: Workspace, study_id: str) -> Progress:
    """Return a study's progress: trials that have ended, of those that were requested."""
    from sqlalchemy import func, select

    from trainwright.tools.workspace.records import get_study
    from trainwright.tools.workspace.tables import Trial

    with workspace.session() as session:
        study = get_study(session, study_id)
        ended = select(func.count()).where(Trial.study == study_id, Trial.state != "running")
        done = session.scalar(ended) or 0
    return Progress(done, study.search.get("trials"), study.state)
