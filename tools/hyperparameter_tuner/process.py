"""The conductor's process: its lock, whether it is alive, and restarting it when it is not."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from filelock import FileLock
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from trainwright.tools import ledger
from trainwright.tools.hyperparameter_tuner.trials import RUNNING
from trainwright.tools.launchers import LAUNCH, Launch, jobs
from trainwright.tools.launchers.environment import inherited_environment
from trainwright.tools.ledger.events import AblationChanged, StudyChanged
from trainwright.tools.training_orchestrator.observation import last_lines
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.records import ACTIVE, get_study
from trainwright.tools.workspace.signing import VARIABLE
from trainwright.tools.workspace.tables import Run, Study, Trial, now
from trainwright.tools.workspace.workspace import checked_name
from trainwright.trainer.base.errors import TrainwrightError
from trainwright.trainer.run import RunState

CONDUCTOR = "trainwright.tools.hyperparameter_tuner.conductor"
LOG = "conductor.log"

MAX_LAUNCHES = 20
"""Conductors that a study may lose without getting any further before it is stopped; starting it again resets that."""


def study_folder(workspace: Workspace, project: str, study_id: str) -> Path:
    """Return the study's folder."""
    return workspace.project_folder(project) / "studies" / checked_name(study_id)


def conductor_lock(folder: Path) -> FileLock:
    """Return the lock (an flock) that a study's conductor holds while it lives."""
    return FileLock(folder / "conductor.lock")


def ensure_conductor(workspace: Workspace, project: str, study_id: str) -> None:
    """Start a conductor if the study is under way and has none; any number of callers may ask at once."""
    folder = study_folder(workspace, project, study_id)
    jobs.ensure(
        conductor_lock(folder), CONDUCTOR, study_id,
        alone=workspace.session(), following=partial(_following, folder, study_id),
        cwd=workspace.path, env=environment_of(workspace),
    )  # fmt: skip


def _following(folder: Path, study_id: str, session: Session, last: Launch | None) -> Launch | None:
    """Return the next conductor's launch; None where the study is over, and where it lost too many: it is stopped."""
    study = get_study(session, study_id)
    if study.state not in ACTIVE:
        return None
    reached = _reached(session, study_id)
    lost = last.attempt if last is not None and reached <= last.reached else 0
    if last is not None and lost >= MAX_LAUNCHES:
        failure = _lost_for_good(folder, last)
        ledger.record(session, study.project, change_of(study, "stopped", failure=failure, ended_at=now()))
        return None
    return Launch(attempt=lost + 1, reached=reached)


def environment_of(workspace: Workspace) -> dict[str, str]:
    """Return the environment of the workspace's conductors: they start workers, so what the owner gives to data too."""
    given = {name: value for name, value in os.environ.items() if workspace.settings.gives_to_data(name)}
    return conductor_environment(os.environ) | given


def conductor_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return a conductor's environment: a worker's, and where the signing key is. It writes into the ledger itself."""
    own = {name: environment[name] for name in (VARIABLE,) if name in environment}
    return inherited_environment(environment) | own | {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}


def forget_launches(folder: Path) -> None:
    """Reset the count of a study's conductors."""
    (folder / LAUNCH).unlink(missing_ok=True)


def _reached(session: Session, study_id: str) -> int:
    """Return how much of the study has ended: trials, and completed runs, its repetitions' among them."""
    ended = select(func.count()).select_from(Trial).where(Trial.study == study_id, Trial.state != RUNNING)
    runs = select(func.count()).select_from(Run).where(Run.study == study_id, Run.state == RunState.COMPLETED)
    return int(session.scalar(ended) or 0) + int(session.scalar(runs) or 0)


def _lost_for_good(folder: Path, last: Launch) -> dict[str, Any]:
    said = last.error or " | ".join(last_lines(folder / LOG)[-3:]) or "nothing"
    error = TrainwrightError(
        f"The study lost {last.attempt} conductor processes, and got no further; the last one said: {said}.",
        remedy="`trainwright doctor` checks the machine; start_tuning with the same search goes on with the study.",
    )
    return error.as_dict()


# Ledger entries about a study: an ablation study's are of a kind of their own, which no gate reads.


def change_of(study: Study, state: str, **fields: Any) -> StudyChanged | AblationChanged:
    """Return the event that brings a study to a state."""
    kind = AblationChanged if study.is_ablation else StudyChanged
    return kind(study_id=study.id, state=state, **fields)
