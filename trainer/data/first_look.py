"""First look at data: its findings, kept by the content of a large file.

It saves time and is no evidence. The smoke run, which the planning gate evaluates, never reads it. A later run takes
its splits and scaling from it, and both are in the fingerprint that this run computes from its rows: a forged look
gives another fingerprint than the planned one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from torch.utils.data import IterableDataset

from trainwright.trainer.base import seeding
from trainwright.trainer.base.canonical import digest_bytes, digest_json
from trainwright.trainer.base.errors import DataError
from trainwright.trainer.data import cache


def first_sample(samples: Any) -> Any:
    """Return the first sample, of a stream too; the generators are left alone. Raises DataError when there is none."""
    with seeding.preserved():
        if not isinstance(samples, IterableDataset):
            return samples[0]
        for sample in samples:
            return sample
    raise DataError(
        f"{type(samples).__name__} yields no sample.", remedy="Check the paths and filters of the data set."
    )


VERSION = 2
"""Of the findings and how they are made: looks of another version are not read."""
KEPT = 32
"""Looks in one folder; the least recently used are deleted."""
SAID = "said"
"""Name of the part of a kept file that holds everything but the splits, as JSON."""


@dataclass(frozen=True)
class Found:
    """Findings of one look."""

    splits: dict[str, np.ndarray[Any, Any]]
    """Row numbers of each split, sorted."""
    preprocessing: dict[str, Any] | None = None
    alike: list[dict[str, Any]] | None = None
    """As in the `data` evidence: how many inputs of two splits are almost equal."""

    def is_of(self, rows: int) -> bool:
        """Return whether each of so many rows is in exactly one split."""
        seen = np.zeros(rows, dtype=bool)
        for places in self.splits.values():
            if places.ndim != 1 or places.dtype.kind != "i" or not len(places):
                return False
            if places.min() < 0 or places.max() >= rows:
                return False
            seen[places] = True
        return bool(seen.all()) and sum(map(len, self.splits.values())) == rows


@dataclass(frozen=True)
class FirstLook:
    """First looks that are kept in a folder."""

    folder: Path
    reads: bool
    """Whether this run may use an earlier look rather than its own."""

    def key(self, files: list[Path], asked: Mapping[str, Any]) -> str:
        """Return a look's key: the files' contents, and everything else that decides the findings."""
        return digest_json([VERSION, [cache.current().digests.of(path) for path in files], dict(asked)])

    def find(self, key: str, rows: int) -> Found | None:
        """Return the look of this key at so many rows; None if none is kept intact, or this run may not use it."""
        path = self._path(key)
        try:
            if not self.reads:
                return None
            with np.load(BytesIO(path.read_bytes()), allow_pickle=False) as kept:
                said = json.loads(str(kept[SAID]))
                splits = {name: kept[name] for name in said["splits"]}
            os.utime(path)
            found = Found(splits, said["preprocessing"], said["alike"])
        except Exception:  # noqa: BLE001 - missing, torn or foreign: this run makes its own look
            return None
        return found if found.is_of(rows) else None

    def keep(self, key: str, found: Found) -> None:
        """Keep a look. Failing to keep it costs only time."""
        said = {"splits": list(found.splits), "preprocessing": found.preprocessing, "alike": found.alike}
        path = self._path(key)
        fresh = path.with_name(f"{path.name}.{os.getpid()}")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with fresh.open("wb") as file:
                np.savez(file, allow_pickle=False, **{**found.splits, SAID: np.array(json.dumps(said))})
            fresh.replace(path)
            kept = sorted(self.folder.glob("*.npz"), key=lambda one: one.stat().st_mtime)
            for old in kept[:-KEPT]:
                old.unlink(missing_ok=True)
        except OSError:
            fresh.unlink(missing_ok=True)

    def _path(self, key: str) -> Path:
        return self.folder / f"{digest_bytes(key.encode()).partition(':')[2][:32]}.npz"
