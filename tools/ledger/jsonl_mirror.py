"""The JSONL mirror: the ledger as text beside each project (`ledger.jsonl`), one line an entry, append-only.

A line is `{"digest": …, "entry": […]}`, in which `entry` is, byte for byte, what was hashed; a signed one ends with its
`signature`. Lines are written after the commit, so the file never knows more than the database. Before the commit a
marker names the first entry to come, and is removed once its line is written: so a line lost in a crash, which the
next write or start of a server adds, differs from one that somebody cut off.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.tables import LedgerEntry
from trainwright.trainer.base.canonical import canonical_json
from trainwright.trainer.run import write_atomically

NAME = "ledger.jsonl"
MARKER = ".ledger.pending"
READ_BYTES = 1 << 16
log = logging.getLogger("trainwright")


def plain_path(workspace: Workspace, project: str | None) -> Path:
    """Return the path of a project's JSONL mirror; entries of no project are mirrored in the workspace folder."""
    return (workspace.path if project is None else workspace.project_folder(project)) / NAME


def hashed_content(entry: LedgerEntry) -> list[Any]:
    """Return what an entry's digest covers: the digest of the entry before it included."""
    return [entry.sequence, entry.time, entry.project, entry.kind, entry.body, entry.previous]


def line_of(entry: LedgerEntry) -> bytes:
    """Return the entry's line, with its end."""
    signature = f',"signature":"{entry.signature}"' if entry.signature else ""
    return f'{{"digest":"{entry.digest}","entry":{canonical_json(hashed_content(entry))}{signature}}}\n'.encode()


def read_line(line: bytes) -> dict[str, Any] | None:
    """Return {digest, entry} of a line, or None when it is none of ours."""
    try:
        value = json.loads(line)
        whole = isinstance(value["digest"], str) and isinstance(value["entry"][0], int) and len(value["entry"]) == 6
    except (ValueError, TypeError, LookupError, RecursionError):
        return None
    return value if whole else None


def announce(workspace: Workspace, project: str | None, sequence: int) -> None:
    """Mark, within the transaction, that the copy is behind from this entry on. Raises StorageError."""
    path = plain_path(workspace, project).with_name(MARKER)
    if pending_from(path.parent) is None:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, f"{sequence}\n".encode())


def pending_from(folder: Path) -> int | None:
    """Return the first entry whose line may be missing after a crash, or None when no write was interrupted."""
    try:
        return int((folder / MARKER).read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


def copy_forward(workspace: Workspace, project: str | None) -> None:
    """Append the entries that the mirror lacks. Raises nothing: a later call writes what cannot be written now."""
    try:
        path = plain_path(workspace, project)
        path.parent.mkdir(parents=True, exist_ok=True)
        with _locked(path) as file:
            last, torn = _end(file)
            with workspace.session() as session:  # its lock keeps others from marking before the marker is removed
                missing = b"".join(line_of(entry) for entry in _entries_after(session, project, last))
                _write(file, missing.removeprefix(torn) if missing.startswith(torn) else b"\n" + missing)
                path.with_name(MARKER).unlink(missing_ok=True)
    except Exception as error:  # noqa: BLE001 - the entry is in the database: the decision is recorded
        log.warning("the plain ledger of %s could not be continued: %s", project or "the workspace", error)


def copy_all_forward(workspace: Workspace) -> None:
    """Bring the JSONL mirrors of all projects up to date, as a server does when it starts."""
    if workspace.is_archived:
        return
    with workspace.session() as session:
        projects = list(session.scalars(select(LedgerEntry.project).distinct()))
    for project in projects:
        copy_forward(workspace, project)


def cut_off(session: Session, workspace: Workspace, project: str) -> list[str]:
    """Return a sentence when the mirror's last entry is not in the database: its end was cut or rewritten."""
    path = plain_path(workspace, project)
    try:
        with path.open("rb") as file:
            line, _ = _last_line(file.fileno())
    except OSError:
        return []
    found = read_line(line)
    if found is None:
        return []
    entry = session.get(LedgerEntry, found["entry"][0])
    if entry is not None and entry.digest == found["digest"]:
        return []
    return [f"project {project}: entry {found['entry'][0]} of {NAME} is not in the database's ledger"]


def _entries_after(session: Session, project: str | None, sequence: int) -> list[LedgerEntry]:
    query = select(LedgerEntry).where(LedgerEntry.project.is_not_distinct_from(project))
    return list(session.scalars(query.where(LedgerEntry.sequence > sequence).order_by(LedgerEntry.sequence)))


@contextmanager
def _locked(path: Path) -> Iterator[int]:
    """Open the file for appending, never through a link, and hold it against other servers."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield file
    finally:
        os.close(file)


def _end(file: int) -> tuple[int, bytes]:
    """Return the sequence of the last complete line (0: none), and the rest of a line that a crash cut off."""
    line, torn = _last_line(file)
    found = read_line(line)
    if found is not None or not line:
        return (int(found["entry"][0]) if found else 0), torn
    lines = map(read_line, os.pread(file, os.fstat(file).st_size, 0).splitlines())  # its end was edited: verify says so
    return max((int(one["entry"][0]) for one in lines if one is not None), default=0), torn


def _last_line(file: int) -> tuple[bytes, bytes]:
    """Return the last line that has an end, and the bytes after it; read from the file's end."""
    start, tail = os.fstat(file).st_size, b""
    while start > 0 and tail.count(b"\n") < 2:
        size = min(READ_BYTES, start)
        start -= size
        tail = os.pread(file, size, start) + tail
    whole, end, torn = tail.rpartition(b"\n")
    return (whole.rpartition(b"\n")[2], torn) if end else (b"", torn)


def _write(file: int, data: bytes) -> None:
    while data:
        data = data[os.write(file, data) :]
