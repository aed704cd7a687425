"""Profile of the train split's columns, and where the data come from: what a data version's card and diff show."""

from __future__ import annotations

from trainwright.trainer.run.evidence import Part, Recorded

QUANTILES = 21
"""0, 5, … 100 %."""


class ColumnProfile(Recorded):
    """Values of one column of the train split, as the source has them."""

    count: int = 0
    missing: int = 0
    mean: float | None = None
    deviation: float | None = None
    quantiles: list[float] = []
    """Of a column of numbers: 0, 5, … 100 %."""
    shares: dict[str, float] = {}
    """Of a column of few values: the share of each among those there are."""


class Profile(Part, file="data_profile"):
    """Columns of the train split, of tables; without them `problem` says why."""

    columns: dict[str, ColumnProfile] = {}
    rows: int = 0
    """That were read: all, or a sample drawn by a fixed seed."""
    problem: str | None = None


class Origin(Part, file="data_origin"):
    """Where the data come from, beside their content: licence, and DVC's record of them."""

    licence: str | None = None
    licence_from: str | None = None
    """The configuration, or the card's file below the code root."""
    dvc: dict[str, str] = {}
    """DVC's digest by path below the code root, `md5:…`, of what a `.dvc` file or dvc.lock names."""
