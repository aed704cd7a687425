"""Snapshots of a user's code: its files by content beside links to all else, so that runs go on while it is edited."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from tempfile import mkdtemp

from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.workspace import checked_name
from trainwright.trainer.base.canonical import digest_bytes, digest_json
from trainwright.trainer.base.errors import ConfigurationError, ConflictError, NotFoundError
from trainwright.trainer.base.paths import SKIPPED

SUFFIXES = frozenset({".py", ".yaml", ".yml", ".toml", ".cfg", ".ini"})
"""Of files that are copied: code, and what code is configured by. Data are linked, and held to the plan's digests."""
MAX_FILE_BYTES, MAX_BYTES, MAX_ENTRIES = 1 << 20, 20 << 20, 100_000
FOLDER = "snapshots"


def take_snapshot(workspace: Workspace, project: str, root: Path) -> str:
    """Keep the code below a folder as it stands, and return the digest by which it is found again.

    The same code is kept once. Links in the user's folder are kept as links: what they lead to is no part of it.

    Raises:
        ConfigurationError: more than 20 MiB of code, or 100,000 names to look through.
    """
    files = _files(root.resolve(), without=workspace.path.resolve())
    digest = digest_json({name: digest_bytes(content) for name, content in files.items()})
    place = folder_of_snapshot(workspace, project, digest)
    if not place.is_dir():
        place.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(mkdtemp(prefix=".draft-", dir=place.parent))
        _lay(root.resolve(), draft, files, workspace.path.resolve())
        try:
            draft.rename(place)
        except OSError:  # another process has kept the same
            shutil.rmtree(draft)
    return digest


def folder_of_snapshot(workspace: Workspace, project: str, digest: str) -> Path:
    """Return where a snapshot is kept, whether it is there or not."""
    return workspace.project_folder(project) / FOLDER / checked_name(digest.rpartition(":")[2][:32])


def snapshot_folder(workspace: Workspace, project: str, digest: str) -> Path:
    """Return the folder of a snapshot, a code root to run from. Raises NotFoundError."""
    place = folder_of_snapshot(workspace, project, digest)
    if not place.is_dir():
        raise NotFoundError(
            f"The snapshot {digest} of the code is gone.", remedy="Start the experiment again with code of your folder."
        )
    return place


def of_accepted_code(evidence: Evidence) -> Evidence:
    """Return the evidence with its gates held to the code that the baseline was trained with, and not to the folder's.

    Raises:
        ConflictError: no baseline whose code was kept.
    """
    baseline = evidence.baseline
    kept = baseline.directory.specification().code_state if baseline is not None else None
    if kept is None:
        raise ConflictError(
            "No baseline whose code was kept: an experiment is compared with it.",
            remedy=f"start_training(project={evidence.name!r}, kind='baseline', idempotency_key='with its code').",
            document="phases/04_optimization/experiments.md",
        )
    folder = snapshot_folder(evidence.workspace, evidence.name, kept)
    return Evidence(evidence.session, evidence.workspace, evidence.name, code_root=folder, code_state=kept)


def code_of(folder: Path) -> dict[str, str]:
    """Return the text of each copied file of a snapshot, by its path."""
    found = (Path(here) / name for here, _, names in os.walk(folder) for name in names)
    return {
        path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8", errors="replace")
        for path in sorted(found)
        if not path.is_symlink()
    }


def _files(root: Path, *, without: Path) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    seen = 0
    for here, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if _is_looked_into(Path(here, name), without))
        seen += len(folders) + len(names)
        for path in (Path(here, name) for name in sorted(names)):
            if path.suffix in SUFFIXES and not path.is_symlink() and path.stat().st_size <= MAX_FILE_BYTES:
                found[path.relative_to(root).as_posix()] = path.read_bytes()
        if seen > MAX_ENTRIES or sum(map(len, found.values())) > MAX_BYTES:
            raise ConfigurationError(
                f"The code root holds more than {MAX_BYTES >> 20} MiB of code, or {MAX_ENTRIES} names to look through.",
                remedy="Name a folder that holds the code and links to the data: configure(changes={'code_root': …}).",
            )
    return found


def _is_linked(name: str) -> bool:
    """Whether it may be data: not folders of tools, nor hidden names, which hold logins and settings, but DVC's."""
    return name not in SKIPPED and (not name.startswith(".") or name == ".dvc")


def _is_looked_into(folder: Path, without: Path) -> bool:
    return folder.name not in SKIPPED and not folder.name.startswith(".") and folder != without


def _lay(source: Path, target: Path, files: dict[str, bytes], without: Path, below: str = "") -> None:
    """Write the files into a folder, and link everything else of the source into it; a folder without code as one."""
    for entry in os.scandir(source):
        name = f"{below}{entry.name}"
        if name in files:
            (target / entry.name).write_bytes(files[name])
        elif any(known.startswith(f"{name}/") for known in files):
            (target / entry.name).mkdir()
            _lay(Path(entry.path), target / entry.name, files, without, f"{name}/")
        elif _is_linked(entry.name) and Path(entry.path) != without:
            (target / entry.name).symlink_to(entry.path)
