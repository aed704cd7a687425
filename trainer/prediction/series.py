"""Series, as the user has them: a table whose last rows are what the forecast is made from."""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

from trainwright.trainer.base.iso_dates import UTC, date_from_iso
from trainwright.trainer.data.table.transform import Row, encode, encode_rows
from trainwright.trainer.prediction.frame import Batch, Sample
from trainwright.trainer.prediction.tables import guarded, odd_values, read_any

UNEVEN = 1 / 8
"""Share of a step from which on a row is not where the steps of training would have it."""


class SeriesRows:
    """The last rows of each series, the oldest first."""

    takes: ClassVar[str] = (
        "files of rows (CSV, .jsonl, .json), or a list of rows as JSON: the last ones of a series are read"
    )
    stdin: ClassVar[str] = ".csv"

    def __init__(self, schema: dict[str, Any], folder: Path) -> None:  # noqa: ARG002 - as of the others
        self.schema, self.options = schema, schema["series"]

    def batches(self, given: Sequence[str]) -> Iterator[Batch]:
        """Yield the last window of each series, (1, rows, inputs). Raises WrongInputError."""
        group = self.options["group"]
        for argument in given:
            series: dict[str, list[Row]] = {}
            with guarded(argument, self.schema):
                for row in read_any(argument, self.schema):
                    series.setdefault(str(row.get(group)), []).append(row)
            for name, rows in series.items():
                with guarded(argument, self.schema):
                    sample, inputs = window_of(rows, self.schema, name if group else "the series")
                sample.place |= {group: name} if group else {}
                yield [sample], {"input": inputs[None]}


def window_of(rows: Sequence[Row], schema: dict[str, Any], name: str) -> tuple[Sample, Any]:
    """Return what is known of a series beside its numbers, and its last rows as the model sees them, (window, inputs).

    Args:
        rows: dicts by column, in any order of time.
        name: of the series, for messages.

    Raises ValueError for fewer rows than the model sees, a time that is none, or a cell of another kind.
    """
    options = schema["series"]
    window = options["window"]
    if len(rows) < window:
        raise ValueError(f"{name} has {len(rows)} rows; the model sees the last {window}, so give that many")
    (last, moments), notes = last_in_time(rows, options), list[str]()
    if moments is None:
        notes.append(f"{options['time']}: no row has this column, so rows count as they stand, the oldest first")
    else:
        notes += odd_steps([row.get(options["time"]) for row in last], moments, options)
    inputs = encode_rows(last, schema)
    odd = (odd_values(row, one, schema["columns"]) for row, one in zip(last, inputs.tolist(), strict=True))
    details = {"moments": moments, "like": str(last[-1].get(options["time"])).strip()}
    return Sample({}, notes + said_once(odd, window), details), inputs


def last_in_time(rows: Sequence[Row], options: dict[str, Any]) -> tuple[list[Row], list[Any] | None]:
    """Return the last rows in order of time, and their moments; as they stand, and None, where no row has a time.

    Raises ValueError for a row whose time is none.
    """
    time, window = options["time"], options["window"]
    if not any(time in row for row in rows):
        return list(rows[-window:]), None
    moments = [moment_of(row.get(time), options) for row in rows]
    if None in moments:
        place = moments.index(None)
        kind = "number" if options["every"]["unit"] == "number" else "date"
        raise ValueError(
            f"row {place + 1}, column {time!r}: {rows[place].get(time)!r} is no {kind} as training read them"
        )
    order = sorted(range(len(rows)), key=moments.__getitem__)[-window:]
    return [rows[place] for place in order], [moments[place] for place in order]


def moment_of(cell: Any, options: dict[str, Any]) -> Any:
    """Return a time as a number, or a date as a moment, of UTC where its offset is known; None for another."""
    text = str(cell).strip()
    if options["every"]["unit"] == "number":
        try:
            return float(text)
        except ValueError:
            return None
    try:
        found = date_from_iso(text)
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found
    except ValueError:
        pass
    try:
        days, *rest = encode(text, options["dates"])
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(days=days, seconds=sum(rest))
    except (TypeError, ValueError, OverflowError):  # without a form of training's, or of another
        return None


def steps_between(moments: Sequence[Any], every: dict[str, Any]) -> list[float]:
    """Return how many of the steps of training lie between moments, one fewer than these."""
    length, unit = every["length"], every["unit"]
    if unit == "month":
        return [((b.year - a.year) * 12 + b.month - a.month) / length for a, b in pairwise(moments)]
    apart = (b - a for a, b in pairwise(moments))
    return [(one if unit == "number" else one.total_seconds()) / length for one in apart]


def odd_steps(cells: Sequence[Any], moments: Sequence[Any], options: dict[str, Any]) -> list[str]:
    """Return a note for times that come twice, one for missing and one for uneven ones: training had none of these.

    Args:
        cells: times as they were given, in order.
        moments: the same as moments.
    """
    every, time, steps = options["every"]["words"], options["time"], steps_between(moments, options["every"])
    whole = [round(one) for one in steps]
    twice = [place for place, count in enumerate(whole) if count == 0]
    gaps = [place for place, count in enumerate(whole) if count > 1]
    uneven = [place for place, one in enumerate(steps) if whole[place] and abs(one - whole[place]) > UNEVEN]
    missing, rule = sum(whole[place] - 1 for place in gaps), f"training had a row every {every}"
    last, found = f"of the last {len(cells)} rows", list[str]()
    if twice:
        at = cells[twice[0]]
        found.append(f"{time}: {len(twice)} {last} have the time of another, first {at}; {rule}: keep one of each time")
    if gaps:
        at = cells[gaps[0]]
        found.append(
            f"{time}: {missing} rows are missing among the last {len(cells)}, first after {at}; {rule}: fill them in"
        )
    if uneven:
        at = cells[uneven[0]]
        found.append(f"{time}: {len(uneven)} {last} are no whole step later, first after {at}; {rule}: resample them")
    return found


def said_once(notes: Iterable[Sequence[str]], rows: int) -> list[str]:
    """Return the first note on each column among those of each row, with how many more rows it is true of."""
    found: dict[str, list[str]] = {}
    for note in (note for of_row in notes for note in of_row):
        found.setdefault(note.partition(":")[0], []).append(note)
    return [f"{first} (and {len(more)} more of {rows} rows)" if more else first for first, *more in found.values()]


def times_after(moments: Sequence[Any], every: dict[str, Any], count: int, like: str) -> list[Any]:
    """Return the times of the rows that follow, each a step on; of months on the same day, or on their last one.

    Args:
        moments: of the rows that are seen.
        like: the last one as it was given: of a day alone, or with an offset.
    """
    last, length, unit, ahead = moments[-1], every["length"], every["unit"], range(1, count + 1)
    if unit == "number":
        return [last + place * length for place in ahead]
    if unit == "second":
        is_day = ":" not in like and length % 86400 == 0  # an hour alone, 2026-01-31T05, has no colon either
        return [_as_given(last + timedelta(seconds=place * length), like, is_day=is_day) for place in ahead]
    at_the_end = all(one.day == monthrange(one.year, one.month)[1] for one in moments)
    found = []
    for place in ahead:
        year, month = divmod(last.year * 12 + last.month - 1 + round(place * length), 12)
        end = monthrange(year, month + 1)[1]
        day = end if at_the_end else min(last.day, end)
        found.append(_as_given(last.replace(year=year, month=month + 1, day=day), like, is_day=":" not in like))
    return found


def _as_given(moment: datetime, like: str, *, is_day: bool) -> str:
    if is_day:
        return moment.date().isoformat()
    try:
        is_offset = date_from_iso(like).tzinfo is not None
    except ValueError:
        is_offset = False
    return (moment if is_offset else moment.replace(tzinfo=None)).isoformat(sep=" ")
