"""Freshness: the newest date of a column is not too old."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any

from trainwright.trainer.data.validation.check import Check, Context, Family, Finding
from trainwright.trainer.data.validation.report import NotChecked
from trainwright.trainer.data.validation.values import dates, expected


class Freshness(Family):
    """Ages of the newest rows."""

    name = "freshness"

    def planned(self, context: Context) -> Iterable[Check]:
        """Yield a check of each column with an expected age."""
        for column, one in expected(context).items():
            if one.fresh_within_days is not None:
                asks = {"newest": dates(context, column).max()}
                yield Check("fresh", column, one.severity, asks, partial(_judge, column, one.fresh_within_days))

    def left_out(self, context: Context) -> Iterable[NotChecked]:
        """Yield freshness, where no column has an expected age."""
        if not any(one.fresh_within_days for one in context.expectations.columns.values()):
            yield NotChecked(what="freshness", why="no column has fresh_within_days")


def _judge(column: str, days: float, asked: Mapping[str, Any]) -> Finding:
    newest = asked["newest"]
    if newest is None:
        return Finding(False, None, days, 0, f"{column} holds no date", f"Correct {column}: dates like 2026-01-31.")
    age = (datetime.now(UTC).replace(tzinfo=None) - newest).total_seconds() / 86400
    told = f"the newest {column} is {newest:%Y-%m-%d}, {age:.1f} days ago; at most {days:g} are expected"
    return Finding(age <= days, round(age, 2), days, 0, told, "Fetch newer data, or the step before this one stopped.")
