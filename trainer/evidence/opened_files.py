"""Files under the code root as evidence: those that a run opened or left, and, of a smoke run, all that are there."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from trainwright.trainer.base.canonical import digest_file
from trainwright.trainer.base.paths import SKIPPED
from trainwright.trainer.run import RunDirectory, RunKind, RunSpecification
from trainwright.trainer.run.evidence import Code, Data
from trainwright.trainer.run.looked_at import Listing, Opened, OpenedFile
from trainwright.trainer.user_code import opened_files

MAX_NAMED = 2000
MAX_LISTED = 100_000
LISTING_SECONDS = 5.0


def record_opened(run: RunDirectory, specification: RunSpecification) -> None:
    """Write the record of the files that the run opened; of a smoke run also the listing of the code root."""
    root = Path(specification.code_root)
    run.write_evidence(opened_evidence(run, root))
    if specification.kind is RunKind.SMOKE:
        run.write_evidence(list_files(root, opened_files.left_out()))


def opened_evidence(run: RunDirectory, root: Path) -> Opened:
    """Return the files that the run opened, as they were at first, and those that it wrote, as it left them.

    Left out are those that other evidence names: the code that was imported, and the files of built-in sources; the
    latter stand apart where the user's code opened them too.
    """
    code = run.part(Code).files
    known = {*code, *run.part(Data).files}
    folders = tuple(f"{name}/" for name in run.part(Data).files)
    first: dict[str, dict[str, Any]] = {}
    read: set[str] = set()
    sources: set[str] = set()
    written: set[str] = set()
    users: set[str] = set()
    for note in opened_files.noted(run.path):
        name = note["name"]
        if name in known or name.startswith(folders):
            sources |= {name} if note.get("by_user") and name not in code else set()
            continue
        first.setdefault(name, note)
        users |= {name} if note.get("by_user") else set()
        (read if note["kind"] == "r" else written).add(name)
    files = {name: note for name, note in first.items() if name in read and note["kind"] != "w"}
    return Opened(
        files={
            name: _opened(root / name, files[name]).model_copy(update={"by_user": name in users})
            for name in sorted(files)[:MAX_NAMED]
        },
        sources=sorted(sources)[:MAX_NAMED],
        written=_digests(root, sorted(written)[:MAX_NAMED]),
        more=sum(max(0, len(names) - MAX_NAMED) for names in (files, written)),
    )


def list_files(root: Path, left_out: tuple[str, ...]) -> Listing:
    """Return all files under the root with their sizes, the upper folders first, within bounds of number and time."""
    root = root.resolve()
    files: dict[str, int] = {}
    unlisted: list[str] = []
    folders = deque([root])
    until = time.monotonic() + LISTING_SECONDS
    while folders:
        folder = folders.popleft()
        is_full = len(files) > MAX_LISTED or time.monotonic() > until
        if is_full or folder.name in SKIPPED or folder.is_symlink() or f"{folder}{os.sep}".startswith(left_out):
            unlisted.append(folder.relative_to(root).as_posix())
            continue
        for entry in _entries(folder):
            if entry.is_dir():
                folders.append(Path(entry.path))
            elif entry.is_file():
                files[Path(entry.path).relative_to(root).as_posix()] = entry.stat().st_size
    return Listing(files=files, unlisted=unlisted[:MAX_NAMED], is_cut=len(unlisted) > MAX_NAMED)


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as inside:
            return sorted(inside, key=lambda entry: entry.name)
    except OSError:
        return []


def _opened(path: Path, note: dict[str, Any]) -> OpenedFile:
    """Return a file as it was when it was opened; without a digest if it is large and has changed since."""
    digest = note.get("digest")
    if digest is None:
        try:
            found = path.stat()
            same = (found.st_size, found.st_mtime_ns) == (note["bytes"], note["changed"])
            digest = digest_file(path) if same else None
        except OSError:
            digest = None
    return OpenedFile(bytes=note["bytes"], digest=digest)


def _digests(root: Path, names: Iterable[str]) -> dict[str, str]:
    digests = {}
    for name in names:
        try:
            digests[name] = digest_file(root / name)
        except OSError:  # removed again
            continue
    return digests
