"""The digests of an ended run, recorded in the ledger so that a later edit of any of its files is found."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

from sqlalchemy.orm import Session

from trainwright.tools.ledger.projection import ProjectFacts, Tombstone
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.query_cache import Sources
from trainwright.trainer.base.canonical import digest_file, digest_path
from trainwright.trainer.base.file_stamps import while_unchanged
from trainwright.trainer.base.paths import folders_below
from trainwright.trainer.checkpoints.index import (
    CheckpointRecord,
    checkpoint_folders,
    list_checkpoints,
    read_manifest,
    verify_checkpoint,
)
from trainwright.trainer.run import RunDirectory, RunState
from trainwright.trainer.run.artifacts import FixedRows
from trainwright.trainer.run.digests import LARGE_BYTES, METRICS, metrics_digest, remembered_digest, run_digests
from trainwright.trainer.run.key import END, SIGNED, has_signed, rows_statement, signed_digests

T = TypeVar("T")


class Inspection:
    """Reader of runs' files, each file once however many decisions depend on it.

    Args:
        read: reads a large file: again, or (`remembered_digest`) only when it may have changed since this server did.
        sources: of the answer that it reads for.
    """

    def __init__(self, read: Callable[[Path], str] = digest_file, sources: Sources | None = None) -> None:
        self.sources = sources or Sources()
        self._read_file = read
        self._found: dict[str, Any] = {}
        self._digests: dict[Path, dict[str, str] | str] = {}
        self._checkpoints: dict[Path, list[str]] = {}

    def digest(self, path: Path) -> str:
        """Return the digest of a file, or of a folder by what is in it. Raises OSError when it cannot be read."""
        if path.is_dir():
            self.sources.note(*(folder for folder, _, _ in folders_below(path)))
            return digest_path(path, self.digest)
        self.sources.note(path)
        return self._read_file(path)

    def once(self, what: str, find: Callable[[], T]) -> T:
        """Return a result about this machine, computed once for all that is inspected."""
        if what not in self._found:
            self._found[what] = find()
        return cast("T", self._found[what])

    def recall(self, what: Hashable, paths: Iterable[str], find: Callable[[], T]) -> T:
        """Return what was found in files; where digests are remembered, it is too, until one of the paths changes."""
        return find() if self._read_file is digest_file else while_unchanged(what, paths, find)

    def facts(self, session: Session, workspace: Workspace, project: str, before: int | None) -> ProjectFacts:  # noqa: ARG002
        """Return the ledger's projection for a project, up to the entry `before` if given."""
        return ProjectFacts(session, project, before=before)

    def digests(self, run: RunDirectory, sealed: dict[str, str] | None = None) -> dict[str, str] | str:
        """Return the run's digests as they are now, or why its files cannot be read.

        Args:
            sealed: those that it was sealed with.
        """
        if run.path not in self._digests:
            try:
                self._digests[run.path] = self._read(run, sealed or {})
            except Exception as error:  # noqa: BLE001 - a file damaged in any way is a difference, not a crash
                self._digests[run.path] = str(error)
        return self._digests[run.path]

    def checkpoint_problems(
        self, run: RunDirectory, keys: Sequence[str | None], pruned: Mapping[str, Tombstone] | None = None
    ) -> list[str]:
        """Return the problems of the run's checkpoints, every file compared. Raises TrainwrightError.

        Args:
            keys: public keys of the run's attempts.
            pruned: tombstones of its checkpoints by name.
        """
        if run.path not in self._checkpoints:
            stones = pruned or {}
            problems = [
                (record.name, what)
                for record in list_checkpoints(run)
                for what in verify_checkpoint(
                    record.path, self._read_file, is_pruned=is_tombstone_of(stones.get(record.name), record)
                )
            ]
            problems += unsigned_checkpoints(run, keys)
            self._checkpoints[run.path] = [f"run {run.run_id}: checkpoint {name}: {what}" for name, what in problems]
        return self._checkpoints[run.path]

    def _read(self, run: RunDirectory, sealed: dict[str, str]) -> dict[str, str]:  # noqa: ARG002
        return run_digests(run)


class Look(Inspection):
    """Reader for answers: takes from memory whatever this server has read before and is unchanged.

    For answers alone. Gates that decide, and `verify`, inspect.
    """

    def __init__(self, sources: Sources | None = None) -> None:
        super().__init__(remembered_digest, sources)

    def facts(self, session: Session, workspace: Workspace, project: str, before: int | None) -> ProjectFacts:
        """Return the ledger's projection for a project, cached until its rows change."""
        return workspace.kept.answer(
            session, project, ("facts", before), lambda _: ProjectFacts(session, project, before=before)
        )

    def _read(self, run: RunDirectory, sealed: dict[str, str]) -> dict[str, str]:
        def series() -> str:
            if METRICS in sealed and _is_untouched(run, sealed):
                return sealed[METRICS]
            files = [f"{run.path / METRICS}{end}" for end in ("", "-wal")]
            return while_unchanged(("series", run.path), files, partial(metrics_digest, run))

        return run_digests(run, series)


def _is_untouched(run: RunDirectory, sealed: dict[str, str]) -> bool:
    """Return whether long series were last written before the run's last status, which is as it was sealed."""
    status, series = run.path / "status.json", run.path / METRICS
    found, log = series.stat(), series.with_name(f"{METRICS}-wal")
    if found.st_size < LARGE_BYTES or (log.exists() and log.stat().st_size):
        return False
    return found.st_ctime_ns <= status.stat().st_ctime_ns and digest_file(status) == sealed.get("status.json")


def is_tombstone_of(stone: Tombstone | None, record: CheckpointRecord) -> bool:
    """Return whether a tombstone is this checkpoint's: a later one of the same name has another digest."""
    return stone is not None and stone.digest == record.digest


def seal_differences(
    run: RunDirectory, sealed: dict[str, str], inspection: Inspection | None = None, problem: str = ""
) -> list[str]:
    """Return one sentence for every file that was changed, removed or added since the run was sealed.

    Args:
        problem: why the seal has no digests, where it has none.
    """
    changed = changed_files(run, sealed, inspection or Inspection(), problem)
    return [f"run {run.run_id}: {what}" for _, what in changed]


def changed_files(
    run: RunDirectory, sealed: dict[str, str], inspection: Inspection, problem: str = ""
) -> list[tuple[str, str]]:
    """Return (name, what happened to it) of every file that is not as it was sealed; name is empty if unknown."""
    found = inspection.digests(run, sealed)
    if isinstance(found, str):
        return [("", f"its files can no longer be read ({found})")]
    if not sealed:
        why = f": {problem}" if problem else ""
        return [("", f"it was sealed with no record that could be trusted{why}")]
    changed = [name for name in sorted(sealed) if found.get(name) != sealed[name]]
    return [
        *((name, f"{name} was {'changed' if name in found else 'removed'} after it was sealed") for name in changed),
        *((name, f"{name} was added after it was sealed") for name in sorted(found.keys() - sealed)),
    ]


# Run keys: workers' signatures, compared with the files found.


def digests_to_seal(run: RunDirectory, key: str | None, state: RunState) -> tuple[dict[str, str], str | None]:
    """Return the digests to seal an ended run with, and why they are none.

    They are those that the worker signed at its end, so that an edit made since is found like any later one. A run
    without a key (another launcher started its worker), or one that failed or was killed, is sealed as it is found.

    Args:
        key: the public key of the run's newest attempt, as the ledger recorded it.

    Raises:
        TrainwrightError, OSError: the run's files cannot be read.
    """
    if key is None or state not in SIGNED:
        return run_digests(run), None
    signed = signed_digests(run, key)
    if signed is None:
        return {}, f"its worker has not signed that it was {state.value} ({END})"
    return signed, None


def end_differences(run: RunDirectory, key: str | None, state: str, sealed: dict[str, str]) -> list[str]:
    """Return one sentence if the run's signed end is not what was sealed."""
    if key is None or state not in SIGNED or not sealed:
        return []
    signed = signed_digests(run, key)
    if signed is None:
        return [f"run {run.run_id}: {END} does not bear its worker's signature any more"]
    same = {name: digest for name, digest in signed.items() if name != "run.json"}
    was = {name: digest for name, digest in sealed.items() if name != "run.json"}
    return [] if same == was else [f"run {run.run_id}: it was sealed otherwise than its worker signed"]


def rows_problem(run: RunDirectory, key: str | None) -> str | None:
    """Return what is wrong with the record of the rows that a run fixed; None where it is signed, or there is none.

    Args:
        key: the public rows key, as the ledger recorded it at the run's start.

    Raises:
        IntegrityError: the record cannot be read.
    """
    record = None if key is None else run.evidence(FixedRows.file)
    if key is None or record is None or has_signed(key, rows_statement(run.run_id, record), record.get("signature")):
        return None
    return f"the rows that it fixed (artifacts/{FixedRows.file}.json) do not bear its rows key's signature"


def unsigned_checkpoints(run: RunDirectory, keys: Sequence[str | None]) -> list[tuple[str, str]]:
    """Return (checkpoint, problem) for each checkpoint that none of the run's attempts has signed.

    Args:
        keys: public keys of all attempts; with one unknown, or none, nothing can be said.
    """
    if not keys or None in keys:
        return []
    found = []
    for folder in checkpoint_folders(run.checkpoints):
        manifest = read_manifest(folder)
        if manifest is None:
            continue  # not intact: it is passed over, and `verify_checkpoint` says so
        signature = manifest.get("signature")
        if not any(key is not None and has_signed(key, manifest["digest"], signature) for key in keys):
            found.append((folder.name, "the run's worker has not signed it"))
    return found
