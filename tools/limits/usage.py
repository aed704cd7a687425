"""Usage by runs, and reservations of those under way, by the ledger and the run directories.

An ended run counts what its worker recorded, as the ledger sealed it. A run under way counts its whole reservation,
or what it has used where that is more. Disk of an ended run is what its seal says; of one whose weights were pruned
since, and of one under way, what lies there now.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial, reduce
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from sqlalchemy import select
from sqlalchemy.orm import Session

from trainwright.tools.launchers import is_living
from trainwright.tools.ledger.events import Pruned
from trainwright.tools.limits.amounts import AMOUNTS, Amounts, Reservation
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.query_cache import Sources
from trainwright.tools.workspace.tables import LedgerEntry, Project, Run
from trainwright.trainer.base.canonical import digest_file
from trainwright.trainer.base.errors import TrainwrightError
from trainwright.trainer.run import RunDirectory
from trainwright.trainer.run.evidence import Environment

RUN_KINDS = ("run_started", "run_resumed", "run_sealed")
RECORD_FILES = ("status.json", "events.jsonl", "artifacts/environment.json")
"""Files that record the time and the devices that a run has used."""


@dataclass(frozen=True)
class Usage:
    """Used amounts, and the reserved ones on top of them."""

    used: Amounts
    reserved: Amounts
    living: int
    """Runs under way."""


@dataclass
class _Account:
    """One run, as the ledger records it."""

    project: str
    started_at: float
    reserved: Reservation | None = None
    used: Amounts | None = None
    """None until it is sealed, and again while a resumed run is under way."""


def usages(
    session: Session, workspace: Workspace, project: str, *, without: str | None = None, look: bool = False
) -> tuple[Usage, Usage]:
    """Return the use of the project's and of all projects' runs.

    Args:
        without: a run that is left out: one that is to be resumed.
        look: for an answer, which takes what is kept; a reservation counts again.
    """

    def read(name: str, _: Sources | None = None) -> tuple[Amounts, dict[str, _Account]]:
        return _of_project(session, workspace, name, without)

    names = {*session.scalars(select(LedgerEntry.project).distinct()), *session.scalars(select(Project.name)), project}
    found = {
        name: workspace.kept.answer(session, name, "usage", partial(read, name)) if look else read(name)
        for name in sorted(filter(None, names))
    }
    unsealed = {run_id: account for _, accounts in found.values() for run_id, account in accounts.items()}
    measured = {run_id: _measured(workspace, run_id, account) for run_id, account in unsealed.items()}
    whole = reduce(Amounts.__add__, (used for used, _ in found.values()), Amounts())
    used, own = found[project]
    return _with_unsealed(used, own, measured), _with_unsealed(whole, unsealed, measured)


def _of_project(
    session: Session, workspace: Workspace, project: str, without: str | None
) -> tuple[Amounts, dict[str, _Account]]:
    """Return the total use of a project's sealed runs, and the others; bytes of the pruned ones are counted again."""
    accounts = _accounts(session, project)
    accounts.pop(without or "", None)
    total, pruned = Amounts(), _pruned(session, project)
    for run_id, account in accounts.items():
        if account.used is not None and run_id in pruned:
            size = folder_bytes(workspace.run_folder(project, run_id))
            total += account.used.model_copy(update={"disk_bytes": size})
        elif account.used is not None:
            total += account.used
    return total, {run_id: account for run_id, account in accounts.items() if account.used is None}


def sealed_use(session: Session, workspace: Workspace, run: Run, digests: dict[str, str]) -> Amounts:
    """Return the use that counts for an ended run.

    If the files that record it do not match the seal, this is the whole reservation: whoever edits the record
    of a run before a server has read it gains nothing by restoring it.

    Args:
        digests: those of its future seal; empty if the record cannot be trusted.
    """
    account = _accounts(session, run.project)[run.id]
    directory = workspace.run_directory(run.project, run.id)
    measured = measured_use(directory, account.reserved, started_at=account.started_at)
    found = {name: digest_file(directory.path / name) for name in RECORD_FILES if (directory.path / name).is_file()}
    same = bool(digests) and found == {name: digests[name] for name in RECORD_FILES if name in digests}
    return measured if same else at_worst(account.reserved, measured)


def use_differences(directory: RunDirectory, sealed: dict[str, Any], permit: dict[str, Any]) -> list[str]:
    """Return one sentence if a seal disagrees with the run's record, which is unchanged since, about the use.

    A record without a time is not compared: such a run counts until a server first read it.

    Args:
        sealed: what the seal says that it used.
        permit: that of the run's last attempt.

    Raises:
        ValueError, KeyError, TypeError: the entries are not what a server writes.
    """
    used, seconds = Amounts.model_validate(sealed), _recorded_seconds(directory)
    if seconds is None:
        return []
    reserved = Reservation.model_validate(permit["reserved"])
    measured = _amounts(directory, reserved, seconds, used.disk_bytes)
    if used in (measured, at_worst(reserved, measured)):
        return []
    differences = "; ".join(
        f"{name} {getattr(used, name):.6g}, by its record {getattr(measured, name):.6g}"
        for name in AMOUNTS
        if getattr(used, name) != getattr(measured, name)
    )
    return [f"run {directory.run_id}: its seal says otherwise what it used: {differences}"]


def at_worst(reserved: Reservation | None, measured: Amounts) -> Amounts:
    """Return the reserved time, GPU hours and money, or the measured ones where they are more."""
    return measured + reserved.share.beyond(measured).model_copy(update={"disk_bytes": 0.0}) if reserved else measured


def measured_use(directory: RunDirectory, reserved: Reservation | None, *, started_at: float) -> Amounts:
    """Return what a run has used, by its worker's record: time of all attempts, devices it worked on, present bytes.

    A run whose record is damaged or gone counts from its start until now: nobody gains time by damaging a record.

    Args:
        started_at: Unix seconds.
    """
    seconds = _recorded_seconds(directory)
    if seconds is None:
        seconds = max(0.0, time.time() - started_at)
    return _amounts(directory, reserved, seconds, folder_bytes(directory.path))


def folder_bytes(folder: Path) -> int:
    """Return the bytes of all files below the folder; files that vanish meanwhile count as none."""
    total, waiting = 0, [os.fspath(folder)]
    while waiting:
        with suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:  # many files, often
                with suppress(OSError):
                    if not entry.is_dir():
                        total += entry.stat(follow_symlinks=False).st_size
                    elif not entry.is_symlink():
                        waiting.append(entry.path)
    return total


def _pruned(session: Session, project: str) -> set[str]:
    """Return the runs whose weights were deleted to make room."""
    query = select(LedgerEntry.body).where(LedgerEntry.kind == Pruned.name, LedgerEntry.project == project)
    found: set[str] = set()
    for body in session.scalars(query):
        with suppress(ValueError, KeyError, TypeError):  # an entry that was damaged says nothing; `verify` names it
            found |= {str(gone["run_id"]) for gone in json.loads(body)["checkpoints"]}
    return found


def _measured(workspace: Workspace, run_id: str, account: _Account) -> tuple[Amounts, bool]:
    """Return what a run has used that is not sealed, and whether it is under way."""
    directory = workspace.run_directory(account.project, run_id)
    own = measured_use(directory, account.reserved, started_at=account.started_at)
    return own, is_living(directory)


def _with_unsealed(used: Amounts, others: dict[str, _Account], measured: dict[str, tuple[Amounts, bool]]) -> Usage:
    reserved, living = Amounts(), 0
    for run_id, account in others.items():
        own, is_under_way = measured[run_id]
        used += own
        if is_under_way:
            living += 1
            reserved += account.reserved.share.beyond(own) if account.reserved else Amounts()
    return Usage(used, reserved, living)


def _accounts(session: Session, project: str) -> dict[str, _Account]:
    """Return every run of the project's ledger, and rows without an entry, by id."""
    rows = session.execute(select(Run.id, Run.project, Run.created_at).where(Run.project == project))
    accounts = {row.id: _Account(row.project, row.created_at.replace(tzinfo=UTC).timestamp()) for row in rows}
    query = select(LedgerEntry).where(LedgerEntry.kind.in_(RUN_KINDS), LedgerEntry.project == project)
    for entry in session.scalars(query.order_by(LedgerEntry.sequence)):
        with suppress(ValueError, KeyError, TypeError):  # an entry that was damaged says nothing; `verify` names it
            _take(accounts, entry, json.loads(entry.body))
    return accounts


def _take(accounts: dict[str, _Account], entry: LedgerEntry, body: dict[str, Any]) -> None:
    started_at = datetime.fromisoformat(entry.time).timestamp()
    account = accounts.setdefault(body["run_id"], _Account(str(entry.project), started_at))
    if entry.kind == "run_sealed":
        account.used = Amounts.model_validate(body["used"]) if "used" in body else None
        return
    account.used = None
    with suppress(ValidationError):
        account.reserved = Reservation.model_validate(body["permit"]["reserved"])


def _amounts(directory: RunDirectory, reserved: Reservation | None, seconds: float, disk_bytes: float) -> Amounts:
    price = reserved.price_per_gpu_hour if reserved else 0.0
    gpus = _recorded_gpus(directory)
    if gpus is None:
        gpus = reserved.gpus if reserved else 0
    return Amounts.of_work(seconds, gpus, price, disk_bytes)


def _recorded_seconds(directory: RunDirectory) -> float | None:
    """Return the seconds of all attempts; None if the record is damaged or has no attempt."""
    try:
        seconds = directory.seconds_worked()
        return seconds if seconds > 0.0 or directory.last_status().attempt == 0 else None
    except (TrainwrightError, ValidationError):
        return None


def _recorded_gpus(directory: RunDirectory) -> int | None:
    """Return the devices that the worker found; None when it has not recorded them."""
    try:
        basis = directory.part(Environment).fingerprint_basis
        return 0 if basis["device"] == "cpu" else int(basis["world_size"])
    except (TrainwrightError, KeyError, TypeError, ValueError):
        return None
