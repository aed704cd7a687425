"""Stopping a study: its conductor, and the run that is under way; both go on when the search is started again."""

from __future__ import annotations

import signal
import time
from contextlib import suppress

from trainwright.tools import ledger
from trainwright.tools.hyperparameter_tuner.follow_run import STUDY_STOPPED
from trainwright.tools.hyperparameter_tuner.process import change_of, study_folder
from trainwright.tools.hyperparameter_tuner.views import StudyView, view_study
from trainwright.tools.launchers import read_launch
from trainwright.tools.training_orchestrator import stop_and_follow
from trainwright.tools.training_orchestrator.observation import observe
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.records import ACTIVE, get_study, runs_of
from trainwright.tools.workspace.tables import Run, now
from trainwright.trainer.base.errors import ConflictError
from trainwright.trainer.run import RunState

TRIES, POLL_SECONDS = 100, 0.1
"""How often to look for the process of a run that was started just before its study was stopped."""


def stop_study(workspace: Workspace, study_id: str, *, project: str | None = None) -> StudyView:
    """Stop a study; `start_study` with the same search resumes it.

    The run that is under way is stopped with a checkpoint, and resumed with the study.

    Args:
        project: the project that the study must belong to; any by default.

    Raises:
        NotFoundError: there is no such study.
        ConflictError: it has ended, or is another project's.
    """
    with workspace.session() as session:
        study = get_study(session, study_id)
        if project is not None and study.project != project:
            raise ConflictError(
                f"Study {study_id} belongs to project {study.project!r}, not to {project!r}.",
                remedy=f"stop_training(project={study.project!r}, run_id={study_id!r}).",
            )
        if study.state not in ACTIVE:
            raise ConflictError(
                f"Study {study_id} is {study.state}; there is nothing to stop.",
                remedy=f"tuning_status(study_id='{study_id}') tells how it ended.",
            )
        ledger.record(session, study.project, change_of(study, "stopped", ended_at=now()))
        under_way = [run for run in runs_of(session, study.project) if run.study == study_id and not run.sealed]
    launch = read_launch(study_folder(workspace, study.project, study_id))
    if launch is not None and launch.process is not None:
        launch.process.send_signal(signal.SIGTERM)
    for run in under_way:
        if RunState(run.state) is not RunState.INTERRUPTED:
            _stop(workspace, run)
    return view_study(workspace, study_id)


def _stop(workspace: Workspace, run: Run) -> None:
    """Stop a run that may just have been started: nobody follows it any more, so wait until its process is known."""
    directory = workspace.run_directory(run.project, run.id)
    for _ in range(TRIES):
        with suppress(ConflictError):
            stop_and_follow(workspace, run.id, reason=STUDY_STOPPED)
            return
        if observe(directory).state.is_ended:
            return
        time.sleep(POLL_SECONDS)
