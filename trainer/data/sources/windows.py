"""Windows over a table: its rows in order of time, whose steps are even; anything else is refused with its rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from trainwright.trainer.base.arrays import Array
from trainwright.trainer.base.canonical import number_of
from trainwright.trainer.base.errors import DataError
from trainwright.trainer.base.time_units import DAY
from trainwright.trainer.data.sections import SeriesSection
from trainwright.trainer.data.series import Series, Step
from trainwright.trainer.data.sources.matrix import Matrix
from trainwright.trainer.data.sources.reading import Reading
from trainwright.trainer.data.split_methods.by_time import are_numbers, instants, written_as
from trainwright.trainer.data.split_methods.rows import numbered

ROUNDED = 1e-6
"""Share of a step by which steps may differ."""
GRAINS = (1.0, 0.1, 0.01, 0.001)
"""What times may be rounded to: of 30 a second in milliseconds, some are 33 apart and some 34."""
MAX_ROUNDED = 1 / 8
"""Share of a step that they may be rounded to."""
SHORTEST_MONTH = 28 * DAY
SECTION = "data.args.series"
AS_NUMBERS = (
    "where the rows' order alone is meant, as of trading days, number them in a column and name it as data.split.time"
)


def series_of(reading: Reading, section: SeriesSection, found: Matrix, keys: dict[str, Array]) -> Series:
    """Return a table's rows as series with their windows.

    Args:
        reading: of the table's files.
        section: what a window is.
        found: the encoded rows.
        keys: the column of times, (rows,), by its name.

    Raises:
        DataError: two rows of one time, uneven or missing steps, or too few rows for a window.
    """
    ((time, key),) = keys.items()
    times = instants(key, time)
    names, groups = np.array([0]), np.zeros(len(times), dtype=np.int64)
    if section.group is not None:
        names, groups = numbered(reading.values(section.group))
    texts = list(map(str, names.tolist()))
    stable = np.array(list(map(number_of, texts)))
    order = np.lexsort((times, groups))
    rows = _Ordered(reading, section, time, key[order], times[order], groups[order], order)
    breaks, every = rows.breaks()
    pieces = np.concatenate([[0], np.cumsum(breaks)])
    inputs, targets = found.samples.base
    chosen = torch.from_numpy(order)
    moments = rows.times if are_numbers(key) else np.round(rows.times * 1e6).astype("datetime64[us]")
    return Series(
        inputs[chosen].contiguous(),
        targets.reshape(len(targets), -1)[chosen].float().contiguous(),
        moments,
        order,
        pieces,
        stable[rows.groups],
        _starts(pieces, section, reading.files[0].name),
        section.window,
        section.horizon,
        every,
        section.period,
        dict(zip(stable.tolist(), texts, strict=True)) if section.group is not None else {},
        written_as(key, time),
    )


def _starts(pieces: Array, section: SeriesSection, file: str) -> Array:
    """Return the first row of each window, (windows,): every `step` rows of each series. Raises DataError for none."""
    begins = np.flatnonzero(np.concatenate([[True], pieces[1:] != pieces[:-1]]))
    lengths = np.diff(np.concatenate([begins, [len(pieces)]]))
    last = lengths - section.window - section.horizon
    found = [np.arange(begin, begin + more + 1, section.step) for begin, more in zip(begins, last, strict=True)]
    if last.max() < 0:
        raise DataError(
            f"{file}: the longest series has {lengths.max()} rows, and a window with its horizon takes "
            f"{section.window} + {section.horizon}.",
            remedy=f"Give more rows, or a smaller {SECTION}.window or {SECTION}.horizon.",
        )
    return np.concatenate(found)


@dataclass(frozen=True)
class _Ordered:
    """Rows in order of time, group by group."""

    reading: Reading
    section: SeriesSection
    time: str
    key: Array
    """Times as they are in the file, (rows,)."""
    times: Array
    groups: Array
    order: Array

    def breaks(self) -> tuple[Array, Step]:
        """Return behind which rows a series ends, (rows - 1,), and the time between two rows.

        Raises:
            DataError: two rows of one time, uneven steps, or missing ones that are not to part a series.
        """
        same = self.groups[1:] == self.groups[:-1]
        twice = np.flatnonzero(same & (np.diff(self.times) == 0))
        if len(twice):
            raise self._duplicate(twice)
        if not same.any():
            what = f"No {self.section.group!r}" if self.section.group else self.reading.files[0].name
            raise DataError(f"{what} has two rows.", remedy="Give more rows, or group by another column.")
        steps, every = self._steps(same)
        whole = np.round(steps)
        uneven = np.flatnonzero(same & ((whole < 1) | (np.abs(steps - whole) > ROUNDED * steps)))
        if len(uneven):
            raise self._uneven(uneven, every)
        is_gap = same & (whole > 1)
        if is_gap.any() and self.section.gaps == "refuse":
            raise self._missing(np.flatnonzero(is_gap), whole, every)
        return ~same | is_gap, every

    def _steps(self, same: Array) -> tuple[Array, Step]:
        """Return how many steps of the usual length lie between rows, (rows - 1,), and that length."""
        steps, usual = self._even(same)
        if are_numbers(self.key):
            return steps, Step(usual, "number")
        if usual >= SHORTEST_MONTH:
            months = self._months()
            if months is not None:
                between = np.diff(months).astype(np.float64)
                least = float(between[same & (between > 0)].min())
                return between / least, Step(least, "month")
        return steps, Step(usual, "second")

    def _even(self, same: Array) -> tuple[Array, float]:
        """Return how many steps lie between rows, (rows - 1,), whole where times are only rounded, and one's length."""
        apart = np.diff(self.times)
        alike = np.round(apart[same] / np.median(apart[same]), 6)
        values, counts = np.unique(alike, return_counts=True)
        usual = float(apart[same][np.flatnonzero(alike == values[counts.argmax()])[0]])
        grain = next((one for one in GRAINS if (np.abs(np.mod(apart[same] / one + 0.5, 1) - 0.5) < 0.01).all()), 0.0)
        rounded = 1.01 * grain * (grain <= MAX_ROUNDED * usual) + 8 * float(np.spacing(np.abs(self.times).max()))
        near = same & (np.abs(apart - usual) <= rounded)  # itself at least
        step = float(apart[near].mean())
        whole = np.round(apart / step)
        rounded *= 1 + whole * (1 + (~near).sum()) / near.sum()  # the mean is rounded too, once in each piece
        return np.where(np.abs(apart - whole * step) <= rounded, whole, apart / step), step

    def _months(self) -> Array | None:
        """Return the months of the rows since 1970, (rows,), where all are on one day, or at the end, of a month."""
        days = (self.times * 1e6).astype("datetime64[us]").astype("datetime64[D]")
        months = days.astype("datetime64[M]")
        on_a_day = len(np.unique(days - months)) == 1
        at_the_end = bool(((days + 1).astype("datetime64[M]") > months).all())
        return months.astype(np.int64) if on_a_day or at_the_end else None

    def _place(self, row: int) -> str:
        return f"{str(self.key[row])[:30]!r} ({self.reading.where(int(self.order[row]))})"

    def _pair(self, row: int) -> str:
        return f"{self._place(row)} and {self._place(row + 1)}"

    def _duplicate(self, twice: Array) -> DataError:
        group = self.section.group
        whose = f"of one {group!r} " if group else ""
        more = "" if group else f"Name the column of what is measured as {SECTION}.group, if there are several series. "
        return DataError(
            f"{len(twice)} rows {whose}have the time of another, first {self._pair(int(twice[0]))}: a series has one "
            f"row at each {self.time!r}.",
            remedy=f"{more}Keep one row of each time; an hour that comes twice as clocks are set back, write in UTC.",
            details={"column": self.time, "count": len(twice)},
        )

    def _uneven(self, uneven: Array, every: Step) -> DataError:
        many = "Most" if 2 * len(uneven) < len(self.times) else "Few"
        return DataError(
            f"{many} rows are one {every} apart in {self.time!r}, and {len(uneven)} are no whole number of these: "
            f"first {self._pair(int(uneven[0]))}. A horizon counts rows, so each has to last as long as the others.",
            remedy=f"Bring the rows to even times (resample them); or {AS_NUMBERS}.",
            details={"column": self.time, "count": len(uneven)},
        )

    def _missing(self, gaps: Array, steps: Array, every: Step) -> DataError:
        count = int((steps[gaps] - 1).sum())
        return DataError(
            f"{count} rows are missing in {self.time!r}, which has one every {every}: first between "
            f"{self._pair(int(gaps[0]))} ({len(gaps)} gap{'s' * (len(gaps) > 1)}). A horizon counts rows.",
            remedy="Fill them in; or part the series there, so that no window has a gap in it: configure(project, "
            f'changes={{"{SECTION}.gaps": "part"}}); or {AS_NUMBERS}.',
            details={"column": self.time, "count": count, "changes": {f"{SECTION}.gaps": "part"}},
        )
