"""Following a study, and bringing its conductor back when it died."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from trainwright.tools.hyperparameter_tuner.process import ensure_conductor
from trainwright.tools.hyperparameter_tuner.views import StudyView, view_study
from trainwright.tools.training_orchestrator.wait import LONGEST_WAIT_SECONDS

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
    """Return the study when it has ended, at the latest after the wait (at most 50 s). Raises NotFoundError."""
    deadline = time.monotonic() + min(max(wait_seconds, 0.0), LONGEST_WAIT_SECONDS)
    while True:
        view = view_study(workspace, study_id)
        if view.is_ended:
            return view
        ensure_conductor(workspace, view.project, study_id)
        if should_stop() or time.monotonic() >= deadline:
            return view_study(workspace, study_id, estimate=True)
        time.sleep(min(poll_seconds, max(0.0, deadline - time.monotonic())))
