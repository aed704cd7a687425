"""The digests of an ended run, recorded in the ledger so that a later edit of any of its files is found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainwright.trainer.canonical import digest_bytes, digest_file, digest_json

if TYPE_CHECKING:
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


def seal_differences(run: RunDirectory, sealed: dict[str, str]) -> list[str]:
    """Return one sentence for every file that was changed, removed or added since the run was sealed."""
    try:
        found = run_digests(run)
    except Exception as error:  # noqa: BLE001 - a file damaged in any way is a difference, not a crash
        return [f"run {run.run_id}: its files can no longer be read ({error})"]
    problems = [
        f"run {run.run_id}: {name} was {'changed' if name in found else 'removed'} after it was sealed"
        for name in sorted(sealed)
        if found.get(name) != sealed[name]
    ]
    return problems + [
        f"run {run.run_id}: {name} was added after it was sealed" for name in sorted(found.keys() - sealed)
    ]


def _metrics_digest(run: RunDirectory) -> str:
    store = run.metrics()
    rows = {key: digest_json([[p.step, repr(p.value), p.time] for p in store.series(key)]) for key in store.keys()}  # noqa: SIM118 - a method of ours, not a mapping's
    return digest_bytes(digest_json(rows).encode())
