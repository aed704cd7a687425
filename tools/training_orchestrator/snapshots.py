"""Snapshots of a user's code: its files by content beside links to all else, so that runs go on while it is edited."""

from __future__ import annotations

import difflib
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from tempfile import mkdtemp
from typing import NamedTuple

from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.ideas import MANIFEST, accepted_code, digests_of_snapshot, folder_of_snapshot, with_code
from trainwright.tools.workspace import Workspace
from trainwright.trainer.base.canonical import digest_bytes, digest_json
from trainwright.trainer.base.errors import ConfigurationError, GateRefusedError, IntegrityError, NotFoundError
from trainwright.trainer.base.paths import SKIPPED
from trainwright.trainer.run import write_atomically
from trainwright.trainer.user_code.import_record import meanings_of

SUFFIXES = frozenset({".py", ".yaml", ".yml", ".toml", ".cfg", ".ini"})
"""Of files that are copied: code, and what code is configured by. Data are linked, and held to the plan's digests."""
MAX_FILE_BYTES, MAX_BYTES, MAX_ENTRIES = 1 << 20, 20 << 20, 100_000


def take_snapshot(workspace: Workspace, project: str, root: Path) -> str:
    """Keep the code below a folder as it stands, and return the digest by which it is found again.

    The same code is kept once. Links to folders and data are kept as links: what they lead to is no part of it.

    Raises:
        ConfigurationError: more than 20 MiB of code, or 100,000 names to look through.
    """
    files = _files(root.resolve(), without=workspace.path.resolve())
    digest = digest_json({name: digest_bytes(content) for name, content in files.items()})
    place, own = folder_of_snapshot(workspace, project, digest), workspace.path.resolve()
    if place.is_dir():
        _write_anew(files, place)
        _link_anew(root.resolve(), place, own)
        return digest
    place.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(mkdtemp(prefix=".draft-", dir=place.parent))
    try:
        _lay(_Laying(root.resolve(), files, own), draft)
        (draft / MANIFEST).write_text(json.dumps({name: digest_bytes(content) for name, content in files.items()}))
        draft.rename(place)
    except OSError:
        shutil.rmtree(draft, ignore_errors=True)
        if not place.is_dir():  # no other process has kept the same
            raise
    return digest


def snapshot_folder(workspace: Workspace, project: str, digest: str) -> Path:
    """Return the folder of a snapshot, a code root to run from.

    Raises:
        NotFoundError: it is gone.
        IntegrityError: a file of it was changed.
    """
    place = folder_of_snapshot(workspace, project, digest)
    if not (place / MANIFEST).is_file():
        raise NotFoundError(
            f"The snapshot {digest} of the code is gone.", remedy="Start the experiment again with code of your folder."
        )
    kept = digests_of_snapshot(place)
    changed = [name for name, one in kept.items() if not _is(place / name, one)]
    if digest_json(kept) != digest or changed:
        raise IntegrityError(
            f"The snapshot {place.name} of the code was edited{f' ({changed[0]})' if changed else ''}.",
            remedy="Edit the code in the project's folder, and start another experiment with that.",
        )
    return place


def _is_whole(place: Path) -> bool:
    if not (place / MANIFEST).is_file():
        return False
    return all(_is(place / name, digest) for name, digest in digests_of_snapshot(place).items())


def _write_anew(files: Mapping[str, bytes], place: Path) -> None:
    """Write the files of a snapshot that were edited or removed."""
    if _is_whole(place):
        return
    for name, content in files.items():
        if not _is(place / name, digest_bytes(content)):
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).unlink(missing_ok=True)
            (place / name).write_bytes(content)
    kept = {name: digest_bytes(content) for name, content in files.items()}
    write_atomically(place / MANIFEST, json.dumps(kept).encode())


def _is(path: Path, digest: str) -> bool:
    return path.is_file() and not path.is_symlink() and digest_bytes(path.read_bytes()) == digest


def of_accepted_code(evidence: Evidence) -> Evidence:
    """Return the evidence with its gates held to the code that the baseline was trained with, and not to the folder's.

    Raises:
        GateRefusedError: no baseline of the present configuration whose code was kept, or is there still.
        ConfigurationError: too much code to keep.
    """
    baseline, kept = evidence.baseline, accepted_code(evidence)
    is_there = kept is not None and _is_whole(folder_of_snapshot(evidence.workspace, evidence.name, kept))
    if not is_there and baseline is not None and not evidence.surroundings(baseline):
        taken = take_snapshot(evidence.workspace, evidence.name, evidence.code_root)
        kept = taken if kept in {None, taken} else kept
    if kept is None:
        raise GateRefusedError(
            "No baseline of this configuration whose code was kept: an experiment is compared with it.",
            remedy=f"advance(project={evidence.name!r}) leads to one.",
            document="phases/04_optimization/experiments.md",
        )
    try:
        snapshot_folder(evidence.workspace, evidence.name, kept)
    except (NotFoundError, IntegrityError) as error:
        raise GateRefusedError(
            f"{error.message.rstrip('.')}, with which the baseline was trained.",
            remedy="Put the code of the baseline back into the folder, and call again; or measure the present code: "
            f"start_training(project={evidence.name!r}, kind='smoke').",
            document="phases/04_optimization/experiments.md",
        ) from error
    return with_code(evidence, kept)


def code_of(folder: Path) -> dict[str, str]:
    """Return the text of each copied file of a snapshot, by its path."""
    kept = digests_of_snapshot(folder)
    return {name: (folder / name).read_text(encoding="utf-8", errors="replace") for name in kept}


def changed_lines(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[int, int]:
    """Return how many lines were added and removed between two states of the code, {file: text}."""
    lines = [
        line
        for name in before.keys() | after.keys()
        if before.get(name) != after.get(name)
        for line in difflib.unified_diff(before.get(name, "").splitlines(), after.get(name, "").splitlines(), n=0)
        if not line.startswith(("+++", "---", "@@"))
    ]
    return sum(line[0] == "+" for line in lines), sum(line[0] == "-" for line in lines)


def meaning_of_code(texts: Mapping[str, str]) -> str:
    """Return the digest of what code does, {file: text}: comments, docstrings and formatting are not in it."""
    sources = {name: text.encode() for name, text in texts.items()}
    python = meanings_of({name: source for name, source in sources.items() if name.endswith(".py")})
    return digest_json({name: digest_bytes(source) for name, source in sources.items()} | python)


def _files(root: Path, *, without: Path) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    seen = 0
    for here, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if _is_looked_into(Path(here, name), without))
        seen += len(folders) + len(names)
        for path in (Path(here, name) for name in sorted(names) if _is_linked(name)):
            if path.suffix in SUFFIXES and path.is_file() and _is_code(path):
                found[path.relative_to(root).as_posix()] = path.read_bytes()
        if seen > MAX_ENTRIES or sum(map(len, found.values())) > MAX_BYTES:
            raise ConfigurationError(
                f"The code root holds more than {MAX_BYTES >> 20} MiB of code, or {MAX_ENTRIES} names to look through.",
                remedy="Name a folder that holds the code and links to the data: configure(changes={'code_root': …}).",
            )
    return found


def _is_code(path: Path) -> bool:
    """Whether it is a module, or a settings file of no more than 1 MiB, since larger ones hold data."""
    return path.suffix == ".py" or path.stat().st_size <= MAX_FILE_BYTES


def _is_linked(name: str) -> bool:
    """Whether it may be data: not folders of tools, nor hidden names, which hold logins and settings, but DVC's."""
    return name not in SKIPPED and (not name.startswith(".") or name == ".dvc")


def _is_looked_into(folder: Path, without: Path) -> bool:
    return folder.name not in SKIPPED and not folder.name.startswith(".") and folder != without


class _Laying(NamedTuple):
    """What a snapshot is laid from: a root, its copied files, and the folder that is left out."""

    root: Path
    files: dict[str, bytes]
    without: Path


def _lay(of: _Laying, target: Path) -> None:
    """Write the files into a folder, and link everything else of the root into it; a folder without code as one."""
    folders = {"."} | {str(one) for name in of.files for one in PurePosixPath(name).parents}
    for folder in sorted(folders):  # those above come first
        (target / folder).mkdir(exist_ok=True)
        for entry in os.scandir(of.root / folder):
            name = (PurePosixPath(folder) / entry.name).as_posix()
            if name in of.files:
                (target / name).write_bytes(of.files[name])
            elif name not in folders and _is_linked(entry.name) and Path(entry.path) != of.without:
                (target / name).symlink_to(entry.path)


def _link_anew(source: Path, target: Path, without: Path) -> None:
    """Link what the source has by now and a folder of the snapshot has not, or has by a link that leads nowhere."""
    for entry in os.scandir(source):
        place = target / entry.name
        if place.is_dir() and not place.is_symlink():
            _link_anew(Path(entry.path), place, without)
        elif _is_linked(entry.name) and Path(entry.path) != without and not place.exists():
            place.unlink(missing_ok=True)
            place.symlink_to(entry.path)
