"""Dates as people and programs write them: days since 1970, and seconds of the day, whatever the spelling."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone

from case import EITHER, REFUSED, ROWS, Case, Column, numbers, signal
from tables import table
from writing import arrow, lines

FIRST = datetime(2023, 1, 3, 6, 15, tzinfo=UTC)
MOMENTS = [FIRST + timedelta(days=int(600 * value), minutes=7 * row) for row, value in enumerate(signal())]
DAYS = [(moment.date() - date(1970, 1, 1)).days for moment in MOMENTS]
SECONDS = [moment.hour * 3600 + moment.minute * 60 for moment in MOMENTS]
BERLIN = timezone(timedelta(hours=2))
ANY_TIME = -1
GERMAN = ("Januar", "Februar", "März", "April", "Mai", "Juni", "Juli", "August", "September", "Oktober", "November")
GERMAN += ("Dezember",)


def dated(
    name: str,
    source: str,
    spell: object,
    *,
    time: bool | None = False,
    said: tuple[str, ...] = (),
    column: Column | None = None,
    **options: object,
) -> Case:
    """Return an input with a column of dates.

    Args:
        name: of the input.
        source: the public report.
        spell: of a moment: a format of strftime, or a function.
        time: whether the time of day is read as well; None: whether the day is in the zone or in UTC is not asked.
        said: words of a refusal, or of why the column is left out; empty: it is to be read.
        column: instead of the spelled one.
        options: as `table` takes them.
    """
    write = (lambda moment: moment.strftime(spell)) if isinstance(spell, str) else spell
    meant = [
        (day, {True: second, False: ANY_TIME, None: None}[time]) for day, second in zip(DAYS, SECONDS, strict=True)
    ]
    when = column or Column([write(moment) for moment in MOMENTS], meant, ("date",))
    more = {"may": EITHER, "words": ("when", *said)} if said else {}
    return table(f"date-{name}", source, {"when": when}, **more, **options)


def swapped(row: int) -> str:
    """Return dates whose day alone says, in few rows, which number is the month."""
    moment = MOMENTS[row]
    return f"{moment.month:02d}/{min(moment.day, 12) if row < 100 else 28:02d}/{moment.year}"


HOLES = [("" if row % 9 == 4 else moment.strftime("%Y-%m-%d")) for row, moment in enumerate(MOMENTS)]
AMBIGUOUS = [f"{min(moment.day, 12):02d}/{moment.month:02d}/{moment.year}" for moment in MOMENTS]
TYPED = {"use": "parquet", "path": "rows.parquet"}


def typed(kind: str, value: object) -> dict[str, object]:
    """Return the options of a table in parquet whose dates have a type."""

    def write(folder: object) -> None:
        import pyarrow as pa

        types = {
            "date32": pa.date32(),
            "naive": pa.timestamp("us"),
            "zone": pa.timestamp("us", tz="Europe/Berlin"),
            "ns": pa.timestamp("ns"),
        }
        cells = [value(moment) for moment in MOMENTS]
        arrow({"when": Column(cells, []), "y": numbers(float)}, "rows.parquet", {"when": types[kind]})(folder)

    return {**TYPED, "write": write}


CASES = [
    dated("iso", "kind: 2024-01-31", "%Y-%m-%d"),
    dated("iso-time", "kind: 2024-01-31 10:15:00", "%Y-%m-%d %H:%M:%S", time=True),
    dated("iso-z", "kind: 2024-01-31T10:15:00Z", "%Y-%m-%dT%H:%M:%SZ", time=True),
    dated("iso-microseconds", "kind: 2024-01-31T10:15:00.123456", "%Y-%m-%dT%H:%M:%S.123456", time=True),
    dated("offset", "duckdb/duckdb#1627", lambda m: m.astimezone(BERLIN).isoformat(), time=None),
    dated("offset-without-colon", "duckdb/duckdb#1627", lambda m: m.astimezone(BERLIN).strftime("%Y-%m-%d %H:%M:%S%z"),
          time=None),
    dated("offset-short", "duckdb/duckdb#1627", lambda m: m.astimezone(BERLIN).strftime("%Y-%m-%d %H:%M:%S+02"),
          time=None),
    dated("offsets-of-summer", "kind: +01:00 and +02:00 in one column",
          lambda m: m.astimezone(timezone(timedelta(hours=1 + (3 < m.month < 11)))).isoformat(), time=None),
    dated("zone-name", "dsgrid/dsgrid#205", "%Y-%m-%d %H:%M:%S UTC", time=True),
    dated("zone-of-java", "kind: [Europe/Berlin] behind", "%Y-%m-%dT%H:%M:%S+00:00[Europe/London]", time=None,
          said=("zone|date",)),
    dated("month-name", "dsgrid/dsgrid#205", "%d-%b-%Y"),
    dated("month-name-first", "kind: Jan 31, 2024", "%b %d, %Y"),
    dated("month-name-whole", "kind: 31 January 2024", "%d %B %Y"),
    dated("month-in-german", "kind: 31. Januar 2024",
          lambda m: f"{m.day}. {GERMAN[m.month - 1]} {m.year}",
          said=("date|month",)),
    dated("weekday", "kind: RFC 2822", "%a, %d %b %Y %H:%M:%S +0000", time=True, said=("date",)),
    dated("week", "kind: ISO week 2024-W05-3", "%G-W%V-%u"),
    dated("day-of-year", "kind: 2024-031", "%Y-%j", said=("date|day",)),
    dated("compact", "kind: 20240131", "%Y%m%d",
          column=Column([m.strftime("%Y%m%d") for m in MOMENTS], [None] * ROWS, ())),
    dated("half-days", "kind: 03:15 PM", "%m/%d/%Y %I:%M %p", time=True, said=("date|time|PM|AM",)),
    dated("two-digit-year", "kind: 31.01.24", "%d.%m.%y", said=("date|year",)),
    dated("dotted", "kind: 31.01.2024", "%d.%m.%Y"),
    dated("month-first", "akoumjian/datefinder#78", "%m/%d/%Y"),
    dated("day-first", "akoumjian/datefinder#78", "%d/%m/%Y"),
    dated("ambiguous", "gbif/pipelines#228", "", column=Column(AMBIGUOUS, [None] * ROWS, ()),
          may=REFUSED, words=("when", "month/day/year|day/month/year|day first|month first")),
    dated("settled-by-the-last-rows", "dateutil/dateutil#1224", "",
          column=Column([swapped(row) for row in range(ROWS)], [((date(m.year, m.month, min(m.day,
          12) if row < 100 else 28) - date(1970, 1, 1)).days, ANY_TIME) for row, m in enumerate(MOMENTS)], ("date",))),
    dated("both-orders", "dateutil/dateutil#1224", "",
          column=Column([m.strftime("%d/%m/%Y" if row % 2 else "%m/%d/%Y") for row, m in enumerate(MOMENTS)],
          [None] * ROWS, ("none",)), said=("month|day|date",)),
    dated("holes", "kind: no date in some rows", "", column=Column(HOLES, [(None, ANY_TIME) if row % 9 == 4 else (day,
          ANY_TIME) for row, day in enumerate(DAYS)], ("date",))),
    dated("one-odd", "kind: unknown among dates", "", column=Column([*[m.strftime("%Y-%m-%d") for m in MOMENTS[:-1]],
          "unknown"], [*[(day, ANY_TIME) for day in DAYS[:-1]], (None, ANY_TIME)], ("date",)), said=("unknown",
          "date")),
    dated("time-in-some", "kind: some rows have a time of day",
          lambda m: m.strftime("%Y-%m-%d" if m.day % 2 else "%Y-%m-%d %H:%M"), said=("date|time",)),
    dated("before-1970", "kind: dates of birth", "",
          column=Column([f"{m.year - 90}-{m.month:02d}-01" for m in MOMENTS], [((date(m.year - 90, m.month,
          1) - date(1970, 1, 1)).days, ANY_TIME) for m in MOMENTS], ("date",))),
    dated("no-such-day", "kind: 2023-02-30", "", column=Column([*[m.strftime("%Y-%m-%d") for m in MOMENTS[:-1]],
          "2023-02-30"], [*[(day, ANY_TIME) for day in DAYS[:-1]], (None, ANY_TIME)], ("date",)), said=("2023-02-30",
          "date")),
    dated("parquet-day", "kind: date32", "", **typed("date32", lambda m: m.date())),
    dated("parquet-naive", "kind: timestamp without a zone", "", time=True, **typed("naive",
          lambda m: m.replace(tzinfo=None))),
    dated("parquet-nanoseconds", "kind: timestamp[ns] of pandas", "", time=True, **typed("ns",
          lambda m: m.replace(tzinfo=None))),
    dated("parquet-zone", "duckdb/duckdb#1627", "", time=None, **typed("zone", lambda m: m)),
    dated("json", "kind: ISO in JSON", "%Y-%m-%dT%H:%M:%SZ", time=True, use="jsonl", path="rows.jsonl",
          write=lines({"when": Column([m.strftime("%Y-%m-%dT%H:%M:%SZ") for m in MOMENTS], []), "y": numbers(float)})),
    dated("split-by-dotted", "kind: rows split by 31.01.2024", "%d.%m.%Y",
          column=Column([m.strftime("%d.%m.%Y") for m in MOMENTS], DAYS, ()), config={"data": {"use": "csv",
          "args": {"path": "rows.csv", "target": "y"}, "split": {"by": "time", "time": "when"}}}),
]  # fmt: skip
