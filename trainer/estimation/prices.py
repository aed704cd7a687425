"""Prices of accelerators by the hour, from a dated file of the workspace's owner, the cheapest of each.

Light: free of torch. No price is built in and none is looked up: each row says its day and its source. The file
that lies beside this one is an example of the form; its figures are second-hand, and nothing computes with them.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.base.plain_yaml import PlainLoader

EXAMPLE = Path(__file__).with_name("prices.example.yaml")
OWNERS = "prices.yaml"
"""Of the workspace's folder."""
OLD_DAYS = 30
"""Age of a price from which on it is warned of."""
MISSING = (
    f"There is no price: no {OWNERS} in the workspace's folder names this accelerator, and none is built in. "
    f"The owner writes one ({EXAMPLE.name} shows the form), sets price_per_gpu_hour in settings.yaml, or a call "
    "says limits.dollars_per_hour."
)
COLUMNS = ("platform", "accelerator", "dollars_per_hour", "date", "source", "spot")


class Price(BaseModel):
    """One accelerator for one hour on one platform."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    platform: str = Field(min_length=1)
    accelerator: str = Field(min_length=1)
    """As accelerators.yaml names it."""
    dollars_per_hour: float = Field(gt=0)
    date: dt.date
    source: str = Field(min_length=1)
    spot: bool = False

    def age_days(self, today: dt.date | None = None) -> int:
        """Return the days since the price was seen."""
        return ((today or dt.datetime.now(tz=dt.UTC).date()) - self.date).days

    def told(self, today: dt.date | None = None) -> str:
        """Return platform, day and file in a few words, with a warning where the price is old."""
        age = self.age_days(today)
        old = f"; {age} days old: prices move, so look it up again" if age > OLD_DAYS else ""
        return f"{self.platform} on {self.date.isoformat()} ({OWNERS}){old}"


def load_prices(path: Path) -> list[Price]:
    """Return the prices of a file.

    Raises:
        ConfigurationError: the file cannot be read, or a row does not fit; names the row.
    """
    try:
        given = yaml.load(path.read_text(encoding="utf-8"), Loader=PlainLoader)  # noqa: S506 - a safe loader
        return [_price(row, number) for number, row in enumerate(_rows(given), 1)]
    except (OSError, yaml.YAMLError, ValueError) as error:
        raise ConfigurationError(
            f"{path.name} does not fit: {str(error)[:300]}.",
            remedy=f"The workspace's owner corrects it: columns {', '.join(COLUMNS)}, and a row for each price.",
        ) from error


def _rows(given: Any) -> Iterable[dict[str, Any]]:
    if not isinstance(given, dict) or not isinstance(given.get("rows"), list):
        raise ValueError("it needs `columns`, a list of names, and `rows`, a list of lists")
    columns = given.get("columns") or list(COLUMNS)
    for number, row in enumerate(given["rows"], 1):
        if not isinstance(row, list) or len(row) != len(columns):
            raise ValueError(f"row {number} has not a cell for each of {', '.join(map(str, columns))}: {row}")
        yield dict(zip(columns, row, strict=True))


def _price(row: dict[str, Any], number: int) -> Price:
    try:
        return Price.model_validate(row)
    except ValidationError as error:
        first = error.errors()[0]
        raise ValueError(f"row {number}, {'.'.join(map(str, first['loc']))}: {first['msg']}") from error


def cheapest(prices: Iterable[Price], accelerator: str) -> Price | None:
    """Return the cheapest lasting price of an accelerator, as accelerators.yaml names it; None where there is none."""
    found = [price for price in prices if not price.spot and _folded(price.accelerator) == _folded(accelerator)]
    return min(found, key=lambda price: price.dollars_per_hour, default=None)


def _folded(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())
