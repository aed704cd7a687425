"""Kinds of GPU that earlier runs were given, by the ledger: bits differ between kinds, so a study keeps to one."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from trainwright.tools import ledger
from trainwright.tools.ledger.events import RunStarted
from trainwright.trainer.base.errors import TrainwrightError
from trainwright.trainer.run import RunKind
from trainwright.trainer.run.evidence import Environment

if TYPE_CHECKING:
    from typing import Any

    from sqlalchemy.orm import Session

    from trainwright.tools.workspace import Workspace


def kind_of_run(session: Session, project: str, run_id: str) -> str | None:
    """Return the kind of GPU that a run began on; None: it was given none."""
    return next((kind for body, kind in _given(session, project) if body["run_id"] == run_id), None)


def kind_of_study(session: Session, project: str, study: str) -> str | None:
    """Return the kind of GPU of a study's first run that was given one; None: none was."""
    return next((kind for body, kind in _given(session, project) if body.get("study") == study), None)


def began_on_cpu(session: Session, workspace: Workspace, project: str, study: str) -> bool:
    """Return whether a study was given no GPU, and its first run that has recorded its device trained on the CPU."""
    if kind_of_study(session, project, study) is not None:
        return False
    for _, body in ledger.entries(session, project, RunStarted.name):
        if body.get("study") == study:
            with suppress(TrainwrightError):  # an edited record is reported where the study is evaluated
                found = workspace.run_directory(project, body["run_id"]).part(Environment)
                if (device := found.fingerprint_basis.get("device")) is not None:
                    return bool(device == "cpu")
    return False


def kind_of_baseline(session: Session, project: str) -> str | None:
    """Return the kind of GPU of the newest baseline that was given one; None: none was."""
    found = [kind for body, kind in _given(session, project) if body.get("kind") == RunKind.BASELINE.value]
    return found[-1] if found else None


def _given(session: Session, project: str) -> list[tuple[dict[str, Any], str]]:
    entries = ledger.entries(session, project, RunStarted.name)
    return [(body, str(body["gpus"][0].get("name", ""))) for _, body in entries if body.get("gpus")]
