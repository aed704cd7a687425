"""Preprocessing by kind: a new one is a file here, and a line of KINDS."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainwright.trainer.data.preprocessing.preprocessing import Preprocessing, Unfitted
from trainwright.trainer.data.preprocessing.standardize import Pixels, Standardize, ToPixels, ToStandardize
from trainwright.trainer.data.preprocessing.table import Table, ToTable

KINDS: dict[str, type[Preprocessing]] = {kind.kind: kind for kind in (Standardize, Pixels, Table)}


def restored(record: Mapping[str, Any]) -> Preprocessing:
    """Return the preprocessing of a record."""
    return KINDS[record["kind"]].restored(record)


__all__ = [
    "KINDS", "Pixels", "Preprocessing", "Standardize", "Table", "ToPixels", "ToStandardize", "ToTable", "Unfitted",
    "restored",
]  # fmt: skip
