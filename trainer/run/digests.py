"""Digests of everything in a run directory that a verdict depends on; unchanged large files are read once.

A file counts as unchanged when device, inode, size and both times are equal. The inode's time of change is the
kernel's: it follows every write, and no program sets it back. One that is younger than the clock's grain is not relied
on (git calls such entries racy). A change that a mapped page may still hide is found where files are read anew: by
gates when they decide, and by `verify`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from blake3 import blake3

from trainwright.trainer.base.canonical import digest_bytes, digest_file, digest_json
from trainwright.trainer.base.file_stamps import while_unchanged
from trainwright.trainer.base.paths import files_among

if TYPE_CHECKING:
    from trainwright.trainer.run.directory import RunDirectory


LARGE_BYTES = 1 << 20
"""Smaller files are read each time: that costs less than a millisecond."""


def remembered_digest(path: Path) -> str:
    """Return the digest of the file's content as `digest_file` does, from memory where it is known to be unchanged.

    Raises OSError when it cannot be read.
    """
    if path.stat().st_size < LARGE_BYTES:
        return digest_file(path)
    return while_unchanged(("digest", path), [str(path)], partial(digest_file, path))


METRICS = "metrics.sqlite"


def run_digests(run: RunDirectory, series: Callable[[], str] | None = None) -> dict[str, str]:
    """Return {relative name: digest} of everything that verdicts on the run depend on.

    Metrics count by their rows, not by the database file's bytes, which change when SQLite tidies up.
    Checkpoint tensors are covered by the digests in their manifests; `verify_checkpoint` compares those.

    Args:
        series: gives the digest of the metrics, where they need not be read anew.
    """
    names = ["run.json", "status.json", "events.jsonl"]
    files = [run.path / name for name in names]
    files += sorted(path for path in files_among(run.artifacts.rglob("*")) if not path.is_symlink())
    files += sorted(run.checkpoints.glob("*/manifest.json")) + sorted(run.checkpoints.glob("index.json"))
    digests = {str(path.relative_to(run.path)): digest_file(path) for path in files if path.is_file()}
    if (run.path / METRICS).exists():
        digests[METRICS] = series() if series is not None else metrics_digest(run)
    return digests


class SeriesDigests:
    """Digests of metrics by key, of rows taken in order of their steps; one of the same step replaces the last."""

    def __init__(self) -> None:
        self._series: dict[str, tuple[Any, int, bytes]] = {}
        """Hasher of all rows but the last; step and text of the last."""

    def add(self, key: str, step: int, value: float, time: float) -> None:
        """Add a row as it will be read: -0.0 is stored as 0.0."""
        text = f'[{step},"{value + 0.0!r}",{time!r}]'.encode()
        hasher, last, before = self._series.get(key) or (blake3(b"["), step, b"")
        if step < last:
            raise ValueError(f"{key}: step {step} comes after step {last}")
        if step > last:
            hasher.update(before + b",")
        self._series[key] = (hasher, step, text)

    def add_all(self, key: str, rows: Sequence[tuple[int, float, float]]) -> None:
        """Add many rows of a key at once: (step, value, time), each step once and in order."""
        self.add(key, *rows[0])
        if len(rows) > 1:
            texts = [f'[{step},"{value + 0.0!r}",{time!r}]' for step, value, time in rows[1:]]
            hasher, _, before = self._series[key]
            hasher.update(before + "".join([",", *(f"{text}," for text in texts[:-1])]).encode())
            self._series[key] = (hasher, rows[-1][0], texts[-1].encode())

    def combined(self) -> str:
        """Return the digest of all rows of all keys."""
        rows = {}
        for key, (hasher, _, text) in self._series.items():
            done = hasher.copy()
            done.update(text + b"]")
            rows[key] = f"blake3:{done.hexdigest()}"
        return digest_bytes(digest_json(rows).encode())


def metrics_digest(run: RunDirectory) -> str:
    """Return the digest of all of the run's metrics. Raises IntegrityError."""
    found = SeriesDigests()
    for key, points in run.metrics().all_points():
        found.add_all(key, points)
    return found.combined()
