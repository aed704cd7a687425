"""Samples by split, and what was found in them: the one form that every source comes to."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainwright.trainer.data.fingerprint import SplitRecord
from trainwright.trainer.data.first_look import FirstLook, Found

if TYPE_CHECKING:
    from trainwright.trainer.data.text.language import TextRecord


@dataclass(frozen=True)
class Look:
    """The first look at a large file, of which the record is kept."""

    looks: FirstLook
    key: str
    is_known: bool
    """Whether an earlier run has looked."""
    found: Found | None = None


@dataclass
class Splits:
    """The samples of a run by split, and what was found in them."""

    samples: dict[str, Any]
    """train, and where there are any validation and test."""
    records: dict[str, SplitRecord]
    source: str
    class_names: list[str] | None = None
    feature_names: list[str] | None = None
    preprocessing: dict[str, Any] | None = None
    """What was measured on the train split and applied to all: {"mean": [...], "scale": [...]}."""
    files: list[Path] = field(default_factory=list)
    raw_test: list[str] | None = None
    """Digests of the test samples before they were standardised, which another train split does otherwise."""
    split: dict[str, Any] | None = None
    """The split section when the engine split the data itself."""
    text: TextRecord | None = None
    """How text became tokens, where it did."""
    look: Look | None = None
    """What was found at once in a large file, or by an earlier run."""
