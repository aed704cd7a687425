"""Prices by the hour and of storage, from a dated file of the workspace's owner or of the user.

Light: free of torch. No price is looked up: each row says its day and its source. A list comes with the package, and
counts while the owner has none. A row without a price is one that nobody has filled in yet: nothing computes with it,
and it is named where it would be needed.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import AliasChoices, Field, ValidationError, model_validator

from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.base.plain_yaml import PlainLoader
from trainwright.trainer.base.records import Closed

OWNERS = "prices.yaml"
"""Of the workspace's folder."""
OWN = "own"
"""Platform of a machine that is the user's: nothing is provisioned there, and its CPU is the one that measured."""
OLD_DAYS = 30
"""Age of a price from which on it is warned of."""
MAX_BYTES = 2**18
"""Of a file of prices."""
TO_WRITE = "trainwright prices"
"""Command that writes the template."""
MISSING = (
    f"There is no price: neither {OWNERS} in the workspace's folder nor the list that comes along has the accelerator. "
    f"The owner writes one (`{TO_WRITE}` writes the template), sets price_per_gpu_hour in settings.yaml, or a call "
    "says limits.dollars_per_hour."
)
COLUMNS = ("platform", "accelerator", "price_per_hour", "date", "source", "spot")
STORAGE_COLUMNS = ("platform", "price_per_gb_month", "date", "source")
DOLLARS = "USD"


class _Dated(Closed):
    """A price with its day and its source; both may be missing while the price is."""

    platform: str = Field(min_length=1, max_length=60)
    date: dt.date | None = None
    source: str = Field(min_length=1, max_length=300)

    def age_days(self, today: dt.date | None = None) -> int:
        """Return the days since the price was seen; 0 where it was not filled in."""
        today = today or dt.datetime.now(tz=dt.UTC).date()
        return 0 if self.date is None else (today - self.date).days

    def is_old(self, today: dt.date | None = None) -> bool:
        """Return whether the price is to be warned of."""
        return self.age_days(today) > OLD_DAYS


class Price(_Dated):
    """One accelerator for one hour on one platform."""

    accelerator: str = Field(min_length=1, max_length=60)
    """As accelerators.yaml names it; CPU: a machine without one."""
    price_per_hour: float | None = Field(
        default=None, ge=0, le=10_000, allow_inf_nan=False,
        validation_alias=AliasChoices("price_per_hour", "dollars_per_hour"),
    )  # fmt: skip
    """Of one accelerator, with the processor and memory that it needs; None: not filled in."""
    spot: bool = False
    """Whether the platform may take the machine away."""

    @model_validator(mode="after")
    def _has_a_day(self) -> Price:
        if self.price_per_hour is not None and self.date is None:
            raise ValueError("a price needs the date on which it was seen")
        if self.price_per_hour == 0 and self.platform.lower() != OWN:
            raise ValueError(f"a price is greater than 0, but of a machine of yours (platform {OWN})")
        return self

    def told(self, today: dt.date | None = None, *, where: str = OWNERS) -> str:
        """Return platform, day and file in a few words, with a warning where the price is old."""
        old = f"; {self.age_days(today)} days old: prices move, so look it up again" if self.is_old(today) else ""
        day = "no date" if self.date is None else self.date.isoformat()
        return f"{self.platform} on {day} ({where}){old}"


class StoragePrice(_Dated):
    """One gigabyte (1e9 bytes) for one month on one platform."""

    price_per_gb_month: float | None = Field(default=None, ge=0, le=1_000, allow_inf_nan=False)
    """None: not filled in."""

    @model_validator(mode="after")
    def _has_a_day(self) -> StoragePrice:
        if self.price_per_gb_month is not None and self.date is None:
            raise ValueError("a price needs the date on which it was seen")
        return self


R = TypeVar("R", bound=_Dated)


@dataclass(frozen=True)
class PriceList:
    """Prices of a file, in one currency."""

    currency: str
    rows: tuple[Price, ...]
    """That are filled in."""
    storage: tuple[StoragePrice, ...] = ()
    """That are filled in."""
    empty: tuple[Price, ...] = ()
    """Rows without a price."""
    is_example: bool = False
    """Whether the file says that its figures are invented."""
    is_second_hand: bool = False
    """Whether the file says that others read its figures: the list that comes with the package."""
    path: Path = field(default_factory=lambda: Path(OWNERS))

    def __iter__(self) -> Iterator[Price]:
        return iter(self.rows)

    @property
    def told(self) -> str:
        """The list in a few words: the owner's file by its name, or that it came along and what replaces it."""
        return f"second-hand, comes along; `{TO_WRITE}` writes yours" if self.is_second_hand else self.path.name


class _File(Closed):
    """The file's form."""

    as_of: Any = None
    """A note of the writer's; each row has its own day."""
    example: bool = False
    second_hand: bool = False
    currency: str = Field(default=DOLLARS, pattern=r"^[A-Z]{3}$")
    columns: list[str] = Field(default_factory=lambda: list(COLUMNS), max_length=12)
    rows: list[list[Any]] = Field(max_length=1_000)
    storage_columns: list[str] = Field(default_factory=lambda: list(STORAGE_COLUMNS), max_length=12)
    storage: list[list[Any]] = Field(default_factory=list, max_length=200)


def load_prices(path: Path) -> PriceList:
    """Return the prices of a file.

    Raises:
        ConfigurationError: the file cannot be read, or a row does not fit; names the row.
    """
    try:
        return _read(path)
    except (OSError, yaml.YAMLError, ValueError) as error:
        raise ConfigurationError(
            f"{path.name} does not fit: {' '.join(str(error).split())[:300]}.",
            remedy=f"The workspace's owner corrects it: columns {', '.join(COLUMNS)}, and a row for each price; "
            f"`{TO_WRITE} FILE` writes the form into a new file.",
        ) from error


def _read(path: Path) -> PriceList:
    if path.stat().st_size > MAX_BYTES:
        raise ValueError(f"it has more than {MAX_BYTES} bytes")
    given = yaml.load(path.read_text(encoding="utf-8"), Loader=PlainLoader)  # noqa: S506 - a safe loader
    if not isinstance(given, dict) or not isinstance(given.get("rows"), list):
        raise ValueError("it needs `rows`, a list of lists, and may have `columns`, a list of names")
    try:
        file = _File.model_validate(given)
    except ValidationError as error:
        raise ValueError(_worded(error)) from error
    rows = list(_models(Price, "row", file.columns, file.rows))
    storage = list(_models(StoragePrice, "storage row", file.storage_columns, file.storage))
    return PriceList(
        currency=file.currency,
        rows=tuple(row for row in rows if row.price_per_hour is not None),
        storage=tuple(row for row in storage if row.price_per_gb_month is not None),
        empty=tuple(row for row in rows if row.price_per_hour is None),
        is_example=file.example,
        is_second_hand=file.second_hand,
        path=path,
    )


def _models(kind: type[R], what: str, columns: list[str], rows: list[list[Any]]) -> Iterator[R]:
    for number, row in enumerate(rows, 1):
        if len(row) != len(columns):
            raise ValueError(f"{what} {number} has not a cell for each of {', '.join(columns)}: {row}")
        try:
            yield kind.model_validate(dict(zip(columns, row, strict=True)))
        except ValidationError as error:
            raise ValueError(f"{what} {number}, {_worded(error)}") from error


def _worded(error: ValidationError) -> str:
    first = error.errors()[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"


def cheapest(prices: Iterable[Price], accelerator: str) -> Price | None:
    """Return the cheapest lasting price of an accelerator, as accelerators.yaml names it; None where there is none."""
    found = [price for price in prices if not price.spot and is_same(price.accelerator, accelerator)]
    return min(found, key=lambda price: price.price_per_hour or 0.0, default=None)


def is_same(one: str, other: str) -> bool:
    """Return whether two names of accelerators differ in nothing but case and separators."""
    return _folded(one) == _folded(other)


def _folded(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())
