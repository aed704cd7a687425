"""The digests of everything in a run directory that a verdict rests on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainwright.trainer.canonical import digest_bytes, digest_file, digest_json

if TYPE_CHECKING:
    from trainwright.trainer.run.directory import RunDirectory

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


def _metrics_digest(run: RunDirectory) -> str:
    series = run.metrics().all_series()
    rows = {key: digest_json([[p.step, repr(p.value), p.time] for p in points]) for key, points in series.items()}
    return digest_bytes(digest_json(rows).encode())
