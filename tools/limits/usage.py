"""What runs have used and what those under way hold reserved: by the ledger, and by the run directories.

An ended run counts what its worker recorded, as the ledger sealed it. A run under way counts its whole reservation,
or what it has used where that is more. Disk is what lies there now.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError
from sqlalchemy import select

from trainwright.tools.limits.amounts import Amounts, Reservation
from trainwright.tools.workspace.tables import LedgerEntry, Run
from trainwright.trainer.errors import TrainwrightError

if TYPE_CHECKING:
    from pathlib import Path

    from sqlalchemy.orm import Session

    from trainwright.tools.workspace import Workspace
    from trainwright.trainer.run import RunDirectory

RUN_KINDS = ("run_started", "run_resumed", "run_sealed")


@dataclass(frozen=True)
class Usage:
    """What is used, and what is set aside on top of it."""

    used: Amounts
    reserved: Amounts
    living: int
    """Runs under way."""


@dataclass
class _Account:
    """One run, as the ledger tells it."""

    project: str
    started_at: float
    reserved: Reservation | None = None
    used: Amounts | None = None
    """None until it is sealed, and again while a resumed run is under way."""


def project_usage(session: Session, workspace: Workspace, project: str, *, without: str | None = None) -> Usage:
    """Return what the project's runs use, one of them (a run that is to be resumed) left out if it is named."""
    return _usage(session, workspace, project, without)


def workspace_usage(session: Session, workspace: Workspace, *, without: str | None = None) -> Usage:
    """Return what the runs of all projects use."""
    return _usage(session, workspace, None, without)


def run_use(session: Session, workspace: Workspace, run: Run) -> Amounts:
    """Return what one run has used so far."""
    account = _accounts(session, run.project)[run.id]
    directory = workspace.run_directory(run.project, run.id)
    return measured_use(directory, account.reserved, started_at=account.started_at)


def measured_use(directory: RunDirectory, reserved: Reservation | None, *, started_at: float) -> Amounts:
    """Return what a run has used, by its worker's record: time of all attempts, devices it worked on, present bytes.

    A run whose record is damaged or gone counts from its start until now: nobody gains time by damaging a record.

    Args:
        started_at: Unix seconds.
    """
    price = reserved.price_per_gpu_hour if reserved else 0.0
    gpus = _recorded_gpus(directory)
    if gpus is None:
        gpus = reserved.gpus if reserved else 0
    return Amounts.of_work(_seconds(directory, started_at), gpus, price, folder_bytes(directory.path))


def is_living(directory: RunDirectory) -> bool:
    """Return whether a worker holds the run, or may still take it up."""
    # Imported late: the orchestrator's package asks for reservations itself.
    from trainwright.tools.training_orchestrator.detached import read_launch

    if directory.is_locked():
        return True
    launch = read_launch(directory.path)
    if launch is None or not launch.may_still_begin():
        return False
    try:
        return directory.status().attempt < launch.attempt
    except TrainwrightError:
        return False


def folder_bytes(folder: Path) -> int:
    """Return the bytes of all files below the folder; files that vanish meanwhile count as none."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                total += os.lstat(os.path.join(place, name)).st_size  # noqa: PTH118 - many files, often
    return total


def _usage(session: Session, workspace: Workspace, project: str | None, without: str | None) -> Usage:
    used, reserved, living = Amounts(), Amounts(), 0
    for run_id, account in _accounts(session, project).items():
        if run_id == without:
            continue
        directory = workspace.run_directory(account.project, run_id)
        if account.used is not None:
            used += account.used.model_copy(update={"disk_bytes": folder_bytes(directory.path)})
            continue
        own = measured_use(directory, account.reserved, started_at=account.started_at)
        used += own
        if is_living(directory):
            living += 1
            reserved += account.reserved.share.beyond(own) if account.reserved else Amounts()
    return Usage(used, reserved, living)


def _accounts(session: Session, project: str | None) -> dict[str, _Account]:
    """Return every run of the ledger, and rows without an entry, by id."""
    rows = session.execute(select(Run.id, Run.project, Run.created_at).where(_of(Run.project, project)))
    accounts = {row.id: _Account(row.project, row.created_at.replace(tzinfo=UTC).timestamp()) for row in rows}
    query = select(LedgerEntry).where(LedgerEntry.kind.in_(RUN_KINDS), _of(LedgerEntry.project, project))
    for entry in session.scalars(query.order_by(LedgerEntry.sequence)):
        with suppress(ValueError, KeyError, TypeError):  # an entry that was damaged says nothing; `verify` names it
            _take(accounts, entry, json.loads(entry.body))
    return accounts


def _of(column: Any, project: str | None) -> Any:
    return column.is_not(None) if project is None else column == project


def _take(accounts: dict[str, _Account], entry: LedgerEntry, body: dict[str, Any]) -> None:
    started_at = datetime.fromisoformat(entry.time).timestamp()
    account = accounts.setdefault(body["run_id"], _Account(str(entry.project), started_at))
    if entry.kind == "run_sealed":
        account.used = Amounts.model_validate(body["used"]) if "used" in body else None
        return
    account.used = None
    with suppress(ValidationError):
        account.reserved = Reservation.model_validate(body["permit"]["reserved"])


def _seconds(directory: RunDirectory, started_at: float) -> float:
    try:
        seconds = directory.seconds_worked()
        if seconds > 0.0 or directory.last_status().attempt == 0:
            return seconds
    except (TrainwrightError, ValidationError):
        pass
    return max(0.0, time.time() - started_at)


def _recorded_gpus(directory: RunDirectory) -> int | None:
    """Return the devices that the worker found; None when it has not recorded them."""
    try:
        basis = (directory.evidence("environment") or {}).get("fingerprint_basis", {})
        return 0 if basis["device"] == "cpu" else int(basis["world_size"])
    except (TrainwrightError, KeyError, TypeError, ValueError):
        return None
