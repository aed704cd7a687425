"""Following a study, and bringing its conductor back when it died."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from trainwright.tools.answers import NextCall
from trainwright.tools.hyperparameter_tuner.process import ensure_conductor
from trainwright.tools.hyperparameter_tuner.views import StudyView, view_study
from trainwright.tools.training_orchestrator.wait import LONGEST_WAIT_SECONDS
from trainwright.trainer.base.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from trainwright.tools.workspace import Workspace

POLL_SECONDS = 0.5


def study_status(
    workspace: Workspace,
    study_id: str,
    wait_seconds: float = 0.0,
    *,
    poll_seconds: float = POLL_SECONDS,
    should_stop: Callable[[], bool] = lambda: False,
) -> StudyView:
    """Return the study when it has ended, at the latest after the wait (at most 50 s). Raises NotFoundError.

    On a full disk no conductor can be started: the answer then comes at once, with the failure and what makes room.
    """
    deadline = time.monotonic() + min(max(wait_seconds, 0.0), LONGEST_WAIT_SECONDS)
    while True:
        view = view_study(workspace, study_id)
        if view.is_ended:
            return view
        try:
            ensure_conductor(workspace, view.project, study_id)
        except StorageError as error:
            return _without_room(view_study(workspace, study_id, estimate=True), error)
        if should_stop() or time.monotonic() >= deadline:
            return view_study(workspace, study_id, estimate=True)
        time.sleep(min(poll_seconds, max(0.0, deadline - time.monotonic())))


def _without_room(view: StudyView, error: StorageError) -> StudyView:
    """Return the view of a study that waits for room on the disk: it goes on with the next look after there is some."""
    room = NextCall(tool="prune_checkpoints", arguments={"project": view.project}, why="the disk is full")
    failure = StorageError(
        f"The study's process is gone and cannot be started again: {error.message}",
        remedy="Free some MiB on the workspace's disk; prune_checkpoints then shows which weights can go. Nothing is "
        f"lost: tuning_status(study_id='{view.study_id}') goes on with the study.",
        details={"next": room.model_dump(include={"tool", "arguments"})},
    )
    return view.model_copy(update={"failure": failure.as_dict(), "next": room})
