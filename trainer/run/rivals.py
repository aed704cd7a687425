"""Record of rivals: what a person would try first on the same data, fitted on the same train rows. Free of torch."""

from __future__ import annotations

from trainwright.trainer.run.artifacts import Array
from trainwright.trainer.run.evidence import Part, Recorded


class KeptOutputs(Recorded):
    """What a rival gives for all rows of one split, in their order, as .npy files."""

    outputs: Array
    targets: Array
    """By which it is seen that the rows are those that planning fixed."""


class Rival(Recorded):
    """One rival."""

    name: str = ""
    told: str = ""
    """In words, with how it was fed."""
    metrics: dict[str, float] = {}
    """Of the validation rows, by the functions that evaluate the model."""
    kept: dict[str, KeptOutputs] = {}
    """By split: validation, and of an export test."""


class TrainRows(Recorded):
    """The train split as a reference is fitted on it, as .npy files."""

    inputs: list[Array]
    """(rows, ...) each, in the order of the call."""
    targets: Array
    """(rows, ...)."""


class Rivals(Part, file="rivals"):
    """Rivals that a baseline's or an export's worker fitted; they decide nothing."""

    rivals: list[Rival] = []
    validation_rows: int = 0
    seconds: float = 0.0
    not_fitted: str | None = None
    """Why there are none, of data for which there is one."""
    train: TrainRows | None = None
    """For the user's reference; None without one, or where the rows are no arrays, or too many."""
