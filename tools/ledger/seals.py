"""The digests of an ended run, recorded in the ledger so that a later edit of any of its files is found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainwright.trainer.canonical import digest_bytes, digest_file, digest_json
from trainwright.trainer.checkpoints.index import list_checkpoints, verify_checkpoint

if TYPE_CHECKING:
    from pathlib import Path

    from trainwright.trainer.run import RunDirectory

METRICS = "metrics.sqlite"


def run_digests(run: RunDirectory) -> dict[str, str]:
    """Return {relative name: digest} of everything that verdicts on the run rest on.

    Metrics count by their rows, not by the database file's bytes, which change when SQLite tidies up.
    Checkpoint tensors are covered by the digests in their manifests; `verify_checkpoint` compares those.
    """
    names = ["run.json", "status.json", "events.jsonl"]
    files = [run.path / name for name in names]
    files += sorted(path for path in run.artifacts.rglob("*") if path.is_file() and not path.is_symlink())
    files += sorted(run.checkpoints.glob("*/manifest.json")) + sorted(run.checkpoints.glob("index.json"))
    digests = {str(path.relative_to(run.path)): digest_file(path) for path in files if path.is_file()}
    if (run.path / METRICS).exists():
        digests[METRICS] = _metrics_digest(run)
    return digests


class Inspection:
    """What is read of runs' files, each file once however many decisions rest on it."""

    def __init__(self) -> None:
        self._digests: dict[Path, dict[str, str] | str] = {}
        self._checkpoints: dict[Path, list[str]] = {}

    def digests(self, run: RunDirectory) -> dict[str, str] | str:
        """Return the run's digests as they are now, or why its files cannot be read."""
        if run.path not in self._digests:
            try:
                self._digests[run.path] = run_digests(run)
            except Exception as error:  # noqa: BLE001 - a file damaged in any way is a difference, not a crash
                self._digests[run.path] = str(error)
        return self._digests[run.path]

    def checkpoint_problems(self, run: RunDirectory) -> list[str]:
        """Return what is wrong with the run's checkpoints, every file compared. Raises TrainwrightError."""
        if run.path not in self._checkpoints:
            self._checkpoints[run.path] = [
                f"run {run.run_id}: checkpoint {record.name}: {problem}"
                for record in list_checkpoints(run)
                for problem in verify_checkpoint(record.path)
            ]
        return self._checkpoints[run.path]


def seal_differences(run: RunDirectory, sealed: dict[str, str], inspection: Inspection | None = None) -> list[str]:
    """Return one sentence for every file that was changed, removed or added since the run was sealed."""
    return [f"run {run.run_id}: {what}" for _, what in changed_files(run, sealed, inspection or Inspection())]


def changed_files(run: RunDirectory, sealed: dict[str, str], inspection: Inspection) -> list[tuple[str, str]]:
    """Return (name, what happened to it) of every file that is not as it was sealed; name is empty if unknown."""
    found = inspection.digests(run)
    if isinstance(found, str):
        return [("", f"its files can no longer be read ({found})")]
    changed = [name for name in sorted(sealed) if found.get(name) != sealed[name]]
    return [
        *((name, f"{name} was {'changed' if name in found else 'removed'} after it was sealed") for name in changed),
        *((name, f"{name} was added after it was sealed") for name in sorted(found.keys() - sealed)),
    ]


def _metrics_digest(run: RunDirectory) -> str:
    store = run.metrics()
    rows = {key: digest_json([[p.step, repr(p.value), p.time] for p in store.series(key)]) for key in store.keys()}  # noqa: SIM118 - a method of ours, not a mapping's
    return digest_bytes(digest_json(rows).encode())
