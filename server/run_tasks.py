"""Runs and studies as tasks: a handle is the name that answers use, and names the same after the server's end."""

from __future__ import annotations

import re
from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio.to_thread

from trainwright.server.access import own_name, present_access
from trainwright.server.progress import is_study, sight
from trainwright.server.surface import runs, tuning
from trainwright.server.surface.arguments import names_study, run_of, study_of
from trainwright.server.tasks import Task
from trainwright.trainer.base.errors import NotFoundError

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp.types import CallToolResult

    from trainwright.server.context import AppContext
    from trainwright.tools.launchers import Launch
    from trainwright.tools.workspace import Workspace

ATTEMPTS = re.compile(r"[1-9]\d{0,3}", re.ASCII)
ATTEMPT = "#"
"""Between a run and which of its attempts, where that is not its first: a task that has ended stays ended.

A study that was stopped and is started again is the same task.
"""


class RunTasks:
    """A backend of tasks."""

    tools: Collection[str] = frozenset(
        {"start_training", "resume_training", "start_tuning", "export_model", "verify_reproducibility"}
    )

    def __init__(self, app: AppContext) -> None:
        self._app = app

    async def begun(self, result: CallToolResult, context: ServerRequestContext[Any, Any]) -> Task | None:  # noqa: ARG002
        """Return the task, unless what was started has ended already."""
        facts = result.structured_content or {}
        name = facts.get("run_id") or facts.get("study_id")
        task = None if name is None else await anyio.to_thread.run_sync(self._newest, name)
        return task if task is not None and task.status == "working" else None

    async def look(self, name: str, context: ServerRequestContext[Any, Any]) -> Task:  # noqa: ARG002
        """Return a task. Raises NotFoundError, ApprovalNeededError."""
        return await anyio.to_thread.run_sync(self._task, name)

    async def cancel(self, name: str, context: ServerRequestContext[Any, Any]) -> None:  # noqa: ARG002
        """Stop the run or study, which saves a checkpoint. Raises TrainwrightError."""
        await anyio.to_thread.run_sync(self._stop, name)

    def _newest(self, name: str) -> Task:
        return self._task_of(self._named(name)[0], None)

    def _task(self, name: str) -> Task:
        found, attempt = self._named(name)
        return self._task_of(found, attempt)

    def _task_of(self, found: str, attempt: int | None) -> Task:
        """Return an attempt, by default the newest, of a run or study by its long id."""
        workspace = self._app.workspace()
        view, folder, ended_at = _seen(workspace, found)
        launch = _launch(folder)
        if hasattr(view, "study_id"):  # whose process may be lost, and come back by itself: no new task
            launch = launch.model_copy(update={"attempt": 1})
        whole = self._app.with_handles({"name": found})["name"]
        number = attempt or launch.attempt
        if number > launch.attempt:
            raise NotFoundError(f"{whole} has had {launch.attempt} attempts.", remedy=f"Ask about {whole}.")
        full = whole if number == 1 else f"{whole}{ATTEMPT}{number}"
        began, now = datetime.fromtimestamp(launch.launched_at, UTC), datetime.now(UTC)
        if number != launch.attempt:
            return Task(full, "cancelled", f"it goes on as {whole}{ATTEMPT}{launch.attempt}", began, began)
        if ended_at is None:
            return Task(full, "working", sight(workspace, found)().message, began, now)
        told = f"{view.state}; {view.next.tool} goes on" if view.next else str(view.state)
        if view.state == "stopped" and getattr(view, "stop_reason", "requested") == "requested":
            return Task(full, "cancelled", told, began, ended_at)
        return Task(full, "completed", told, began, ended_at, self._answer(view))

    def _answer(self, view: Any) -> dict[str, Any]:
        result = (tuning if hasattr(view, "study_id") else runs).answer_of(view)
        answer = self._app.with_handles(result.model_dump(mode="json", by_alias=True, exclude_none=True))
        assert isinstance(answer, dict)  # noqa: S101 - tells the type checker
        return answer

    def _stop(self, name: str) -> None:
        from trainwright.tools.hyperparameter_tuner import stop_study
        from trainwright.tools.training_orchestrator import stop_and_follow

        workspace, (found, _) = self._app.workspace(), self._named(name)
        (stop_study if is_study(workspace, found) else stop_and_follow)(workspace, found)

    def _named(self, name: str) -> tuple[str, int]:
        """Return the long id and the attempt that a task names. Raises NotFoundError, ApprovalNeededError."""
        workspace = self._app.workspace()
        first, _, attempt = name.partition(ATTEMPT)
        if present_access().projects:
            found = own_name(workspace, first)
        else:
            found = (study_of if names_study(first) else run_of)(workspace, first)
        if attempt and not ATTEMPTS.fullmatch(attempt):
            raise NotFoundError(
                f"There is no task {name[:80]!r}.", remedy="A run's later attempts are digits/baseline-1#2."
            )
        return found, int(attempt or 1)


def _seen(workspace: Workspace, found: str) -> tuple[Any, Path, datetime | None]:
    """Return the view of a run or study, its folder, and when it ended: a run, once its record is sealed."""
    from trainwright.tools.hyperparameter_tuner import study_status
    from trainwright.tools.hyperparameter_tuner.process import study_folder
    from trainwright.tools.training_orchestrator.wait import refresh_run
    from trainwright.tools.workspace.records import get_run, get_study

    if is_study(workspace, found):
        study = study_status(workspace, found)
        with workspace.snapshot() as session:
            ended_at = get_study(session, found).ended_at
        return study, study_folder(workspace, study.project, found), (ended_at or _now()) if study.is_ended else None
    view = refresh_run(workspace, found)
    with workspace.snapshot() as session:
        row = get_run(session, found)
    has_ended = view.is_ended and (row.sealed or view.state == "interrupted")
    return view, workspace.run_directory(row.project, found).path, (row.ended_at or _now()) if has_ended else None


def _launch(folder: Path) -> Launch:
    from trainwright.tools.launchers import Launch, read_launch

    return read_launch(folder) or Launch()


def _now() -> datetime:
    return datetime.now(UTC)
