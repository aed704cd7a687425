"""Series, as the user has them: a table whose last rows are what the forecast is made from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

from trainwright.trainer.data.table.transform import Row, encode_rows
from trainwright.trainer.prediction.frame import Batch, Sample, WrongInputError
from trainwright.trainer.prediction.tables import guarded, odd_values, read_any


class SeriesRows:
    """The last rows of each series, the oldest first."""

    takes: ClassVar[str] = "files of rows in order of time (CSV, .jsonl): the last ones of each series are read"
    stdin: ClassVar[str] = ".csv"

    def __init__(self, schema: dict[str, Any], folder: Path) -> None:  # noqa: ARG002 - as of the others
        self.schema, self.options = schema, schema["series"]

    def batches(self, given: Sequence[str]) -> Iterator[Batch]:
        """Yield the last window of each series, (1, rows, inputs). Raises WrongInputError."""
        window, group, time = (self.options[key] for key in ("window", "group", "time"))
        for argument in given:
            series: dict[str, list[Row]] = {}
            with guarded(argument, self.schema):
                for row in read_any(argument, self.schema):
                    series.setdefault(str(row.get(group)), []).append(row)
            for name, rows in series.items():
                if len(rows) < window:
                    raise WrongInputError(
                        f"{argument[:60]}: {name if group else 'the series'} has {len(rows)} rows; the model sees "
                        f"the last {window}.", "Give that many rows.",
                    )  # fmt: skip
                last = _in_order(rows, time)[-window:]
                with guarded(argument, self.schema):
                    inputs = encode_rows(last, self.schema)
                odd = (
                    odd_values(row, one, self.schema["columns"]) for row, one in zip(last, inputs.tolist(), strict=True)
                )
                place = ({"file": argument} if len(given) > 1 else {}) | ({group: name} if group else {})
                sample = Sample(
                    place, [note for notes in odd for note in notes], {"times": [row.get(time) for row in last]}
                )
                yield [sample], {"input": inputs[None]}


def _in_order(rows: list[Row], time: str) -> list[Row]:
    """Return rows in order of their times; as they stand where these are no plain numbers or ISO dates."""
    keys: list[Any] = [moment_of(row.get(time)) for row in rows]
    if None in keys or len({type(key) for key in keys}) > 1:
        return rows
    return [rows[place] for place in sorted(range(len(rows)), key=keys.__getitem__)]


def moment_of(cell: Any) -> Any:
    """Return a time as a number, or an ISO date as a moment; None for another."""
    text = str(cell).strip()
    try:
        return float(text)
    except ValueError:
        pass
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def times_after(times: Sequence[Any], count: int) -> list[Any]:
    """Return the times of the rows that follow, each a step or a number of months on; None where they are uneven."""
    known, nothing = [moment_of(one) for one in times], [None] * count
    if len(known) < 2 or None in known:
        return nothing
    last, apart = known[-1], {b - a for a, b in pairwise(known)}
    if len(set(known)) < len(known):
        return nothing
    if len(apart) == 1:
        later = [last + (n + 1) * next(iter(apart)) for n in range(count)]
    elif isinstance(last, float) or {one.day for one in known} != {1}:
        return nothing
    else:
        months = [one.year * 12 + one.month - 1 for one in known]
        if len(each := {b - a for a, b in pairwise(months)}) > 1:
            return nothing
        places = [months[-1] + (n + 1) * next(iter(each)) for n in range(count)]
        later = [last.replace(year=place // 12, month=place % 12 + 1) for place in places]
    if isinstance(last, float):
        return later
    is_day = len(str(times[-1]).strip()) <= len("2026-01-31")
    return [one.date().isoformat() if is_day else one.isoformat(sep=" ") for one in later]
