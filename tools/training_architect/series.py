"""Windows over a table with a column of times: read from a sentence with a horizon, and from the rows' steps."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from trainwright.tools.training_architect.goals import Question, kind_of_sentence
from trainwright.trainer.base import time_units
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.data.spans import borders_of, shares_of

if TYPE_CHECKING:
    from trainwright.tools.training_architect.reading import Reading
    from trainwright.tools.training_architect.request import PlanRequest

TASK = "series_regression"
GERMAN = {"sekunde": "second", "stunde": "hour", "tag": "day", "woche": "week", "monat": "month", "quartal": "quarter",
          "jahr": "year"}  # fmt: skip
SECONDS = time_units.SECONDS | {word: time_units.SECONDS[unit] for word, unit in GERMAN.items()}
UNIT = rf"(?P<unit>{'|'.join(SECONDS)}|steps?|rows?|values?|periods?|schritte?|zeilen|werte|perioden?)(?:e?[sn]|e)?"
HORIZON = (
    rf"\b(?:next|following|coming|nächsten?|kommenden?|folgenden?)\s+(?:(?P<count>\d+)\s+)?{UNIT}\b",
    rf"\b(?P<count>\d+)[- ]{UNIT}[- ](?:ahead|in advance|from now|into the future|(?:im )?voraus|horizon)\b",
    rf"\bhorizon(?:t)?\s+(?:of\s+|von\s+)?(?P<count>\d+)\s+{UNIT}\b",
)
"""How far ahead a sentence wants to see."""
WINDOW = (
    rf"\b(?:from|given|using|with|see\w*|aus|mit|anhand)\s+(?:the\s+|den\s+|der\s+)?"
    rf"(?:last|past|previous|preceding|letzten|vergangenen|vorigen)\s+(?P<count>\d+)\s+{UNIT}\b"
)
"""How far back a sentence sees."""
BARE_HORIZON = r"\b(?:next|following|coming|nächsten?|kommenden?|folgenden?)\s+(?P<count>\d+)\b(?!\s*%)"
"""How far ahead it wants to see, in the unit in which it sees back."""
_OTHER = UNIT.replace("<unit>", "<other>")
SPANS = tuple(
    rf"(?P<count>\d+)(?:\s+{UNIT})?\s+(?:to|for|of|zum|fürs?)\s+(?:the\s+|das\s+)?{part}"
    rf"|{part}\w*\s+(?:on|with|mit|auf)\s+(?:the\s+)?(?:\w+\s+)?(?P<behind>\d+)(?:\s+{_OTHER})?\b"
    for part in ("train", "valid", "test")
)
"""How long each split is: `12 months to train, 4 to validate, 4 to test`."""
ALL_SPANS = rf"\b(\d+)\s*[,/]\s*(\d+)\s*(?:[,/]|,?\s*and|und)\s*(\d+)\s+{UNIT}\b"
"""The same in the usual order: `split by time, 12, 4, 4 months`."""
OF_SPLIT = r"\b(?:split|train|border|aufteil|geteilt|teil)\w*"
OF_ROWS = r"\b(?:who|which|whether|wer|ob|welche\w*|churn\w*|defaults?)\b"
"""Of rows: who cancels in the next 30 days is asked of each customer, and is no step of a series."""
SERIES = r"\btime[- ]?series\b|\bzeitreihen?\w*\b|\bforecast\w*\b"
MAX_WINDOW = 700
"""Rows up to which a usual season is taken as the window."""
SEASONS = {"a year": SECONDS["year"], "a week": SECONDS["week"], "a day": SECONDS["day"], "an hour": SECONDS["hour"]}
MIN_SEASON = 12
SHARE_OF_ROWS = 8
MIN_SEEN = 8
"""Rows of a window, where an eighth of a series has as many."""
MAX_NAMED = 12
"""Columns that a question names."""


def read_series(request: PlanRequest, data: dict[str, Any], reading: Reading) -> bool:
    """Take the task as windows over time where call, or sentence and rows, say so; return whether they do.

    What is open is asked: how far ahead, and whether rows that are no plain series are meant as one.
    """
    args = (request.data or {}).get("args") or {}
    back = re.search(WINDOW, request.intent, re.IGNORECASE)
    seen = None if back is None else (int(back["count"]), back["unit"].lower())
    said = _horizon(request.intent, seen)
    is_named = request.task == TASK or bool(args.get("series"))
    is_forecast = said is not None or re.search(SERIES, request.intent, re.IGNORECASE) is not None
    if not is_named and (request.task is not None or not is_forecast):
        return False
    time, found = _time_column(request, data, reading.targets)
    if time is None and not is_named:
        if said is not None:
            reading.questions.append(_is_it_one(said))
        return said is not None
    reading.task = TASK
    if time is None:
        reading.questions += _of_times(data, args.get("series") or {}, reading)
        return True
    if not is_named and _is_of_classes(request, data, reading):
        reading.task, reading.split = None, {"by": "time", "time": time}
        reading.assumed.append(
            "a forecast is of numbers, and classes are wanted: a row's class is predicted from its own columns, and "
            "the split is by time. Shift the column first where it holds what is so at the row's own time"
        )
        return False
    group = _group(time, found, data, args.get("series") or {}, reading)
    told = {} if seen is None or not (rows := _rows(seen, found.get("step_seconds"))) else {"window": rows}
    reading.series = _window(said, found, data, {**told, **(args.get("series") or {}), **group}, reading)
    reading.series |= args.get("series") or {}
    reading.others = []
    reading.split = {"by": "time", "time": time, **_split(request.intent, found, reading)}
    return True


def _is_of_classes(request: PlanRequest, data: dict[str, Any], reading: Reading) -> bool:
    """Whether the column is of classes: of words, of numbers where the metric is of classes, or of two numbers."""
    column: dict[str, Any] = next((one for one in data.get("columns", []) if one["name"] == reading.target), {})
    if column.get("kind") == "number" or (column and not column.get("of_numbers")):
        return bool(column["kind"] == "category")
    kind = kind_of_sentence(request)
    return kind == "classification" or (kind is None and column.get("different") == 2)


def _is_it_one(said: tuple[int, str]) -> Question:
    return Question(
        f"The sentence looks {_counted(*said)} ahead, and no column of times has one row a step. Is a row to be "
        "predicted from its own columns (table_regression, table_classification), or are rows the steps of a series?",
        "task", ["table_regression", "table_classification", TASK],
    )  # fmt: skip


def _horizon(intent: str, seen: tuple[int, str] | None) -> tuple[int, str] | None:
    """Return how far ahead a sentence looks: a number, and hour, row or the like; a bare one in the unit of `seen`."""
    if re.search(OF_ROWS, intent, re.IGNORECASE):
        return None
    found = [match for pattern in HORIZON if (match := re.search(pattern, intent, re.IGNORECASE)) is not None]
    if not found and seen is not None and (bare := re.search(BARE_HORIZON, intent, re.IGNORECASE)) is not None:
        return int(bare["count"]), seen[1]
    return (int(found[0]["count"] or 1), found[0]["unit"].lower()) if found else None


def _split(intent: str, found: dict[str, Any], reading: Reading) -> dict[str, Any]:
    """Return the borders where a sentence says how long all three splits are, or their shares where they do not fit."""
    spans = spoken_spans(intent)
    if spans is None:
        return {}
    counts, unit = spans["counts"], spans["unit"]
    told = f"{', '.join(map(str, counts))} {unit or 'row'}s of training, validation and test"
    borders = borders_of(found, spans)
    if borders is None:
        reading.assumed.append(
            f"{told} are shares of all rows: data.split.borders [when validation begins, when the test does, when it "
            "ends] says the times"
        )
        return shares_of(spans)
    left = f", and rows from {borders[2]} on are left out" if len(borders) > len(SPANS) - 1 else ""
    months = "; of months of 30 days, as papers have them, they are others" if unit == "month" and left else ""
    reading.assumed.append(
        f"{told} from the first time on: validation begins at {borders[0]}, the test at {borders[1]}{left} "
        f"(data.split.borders{months})"
    )
    return {"borders": borders}


def spoken_spans(intent: str) -> dict[str, Any] | None:
    """Return how long a sentence wants training, validation and test: counts and their unit, None of rows; or None."""
    at_once = re.search(ALL_SPANS, intent, re.IGNORECASE)
    if at_once is not None and re.search(OF_SPLIT, intent, re.IGNORECASE):
        return {"counts": [int(at_once[place]) for place in (1, 2, 3)], "unit": _english(at_once["unit"])}
    found = [re.search(pattern, intent, re.IGNORECASE) for pattern in SPANS]
    matches = [one for one in found if one is not None]
    units = {_english(unit) for one in matches if (unit := one["unit"] or one["other"])}
    if len(matches) < len(SPANS) or len(units) != 1:
        return None
    return {"counts": [int(one["count"] or one["behind"]) for one in matches], "unit": units.pop()}


def _time_column(request: PlanRequest, data: dict[str, Any], targets: list[str]) -> tuple[str | None, dict[str, Any]]:
    """Return the column of times that the call names, or the only one with even steps, and what is known of it."""
    times: dict[str, dict[str, Any]] = data.get("times") or {}
    named = ((request.data or {}).get("split") or {}).get("time")
    if named:
        return named, times.get(named, {})
    plain = {name: one for name, one in times.items() if one.get("is_series") and name not in targets}
    return next(iter(plain.items()), (None, {}))


def _of_times(data: dict[str, Any], given: dict[str, Any], reading: Reading) -> list[Question]:
    """Ask for the column of times; and where each column of them has several rows a time, whose series a row is of."""
    times = {name: one for name, one in (data.get("times") or {}).items() if name not in reading.targets}
    asked = [Question("Which column holds the times, one step a row?", "time_column", list(times))]
    possible = list(dict.fromkeys(name for one in times.values() for name in _possible(one, reading)))
    if possible and "group" not in given:
        which = f"Several rows share a time ({', '.join(map(repr, times))}): which column says whose series each is of?"
        asked.append(Question(which, "series_group", possible[:MAX_NAMED]))
    return asked


def _possible(found: dict[str, Any], reading: Reading) -> list[str]:
    """Return the columns of which each value has one row a time, those that have most of them first."""
    named = [*(found.get("groups") or []), *(found.get("possible") or [])]
    return [name for name in dict.fromkeys(named) if name not in reading.targets]


def _group(
    time: str, found: dict[str, Any], data: dict[str, Any], given: dict[str, Any], reading: Reading
) -> dict[str, str]:
    """Return the column that says whose series a row is of; ask where several rows share a time and none is certain.

    Raises ConfigurationError: no column parts the rows so that each series has one row a time.
    """
    steps, rows = found.get("steps"), data.get("rows") or 0
    possible = _possible(found, reading)
    if not steps or steps >= rows or given.get("group") in possible:
        return {}
    certain = [] if "group" in given else [name for name in found.get("groups") or [] if name in possible]
    if certain:
        reading.assumed.append(
            f"each {certain[0]!r} is a series of its own, with one row at each {time!r} (data.args.series.group)"
        )
        return {"group": certain[0]}
    shared = f"{rows} rows have {steps} different times in {time!r}"
    shared += f", and some of one {given['group']!r} share theirs" if given.get("group") else ""
    if not possible:
        raise ConfigurationError(
            f"{shared}, and no column says whose series each belongs to: none has each value once a time.",
            remedy="Keep one row of each time (sum or average them), write one column of times where several tell "
            "them (year and month), or one that says whose a row is; then plan again. Rows that are no steps of a "
            "series: task='table_regression'.",
            document="configs/tables.md",
        )
    reading.questions.append(
        Question(f"{shared}: which column says whose series a row belongs to?", "series_group", possible[:MAX_NAMED])
    )
    return {}


def _window(
    said: tuple[int, str] | None, found: dict[str, Any], data: dict[str, Any], given: dict[str, Any], reading: Reading
) -> dict[str, Any]:
    """Return window, horizon and group where the sentence and the rows say them; ask for the horizon."""
    step, rows = found.get("step_seconds"), found.get("steps") or data.get("rows") or 0
    horizon = given.get("horizon") or (None if said is None else _rows(said, step))
    if not isinstance(horizon, int):  # a form that nobody filled in, too
        every = f" (a row is {_worded(step)})" if step else ""
        asked = f"{_counted(*said)} {'is' if said[0] == 1 else 'are'} no whole number of rows{every}. " if said else ""
        reading.questions.append(Question(f"{asked}How many rows ahead is to be forecast{every}?", "horizon"))
        return {}
    window, why = _usual_window(step, horizon, rows)
    if "window" not in given:
        reading.assumed.append(
            f"{window} rows are seen before each horizon of {horizon}: {why} (data.args.series.window)"
        )
    return {
        "window": given.get("window", window),
        "horizon": horizon,
        **({"group": given["group"]} if given.get("group") else {}),
    }


def _rows(said: tuple[int, str], step: float | None) -> int | None:
    """Return a horizon in rows; None where it is no whole number of steps."""
    count, unit = said
    if unit not in SECONDS:
        return count
    if step is None:
        return None
    rows = count * SECONDS[unit] / step
    close = 0.2 * rows if SECONDS[unit] >= SECONDS["month"] else 1e-6  # months are of several lengths
    return round(rows) if rows >= 1 - close and abs(rows - round(rows)) <= close else None


def _usual_window(step: float | None, horizon: int, rows: int) -> tuple[int, str]:
    """Return how many rows are seen: the longest usual season of few enough rows, or twice the horizon."""
    most = max(rows // SHARE_OF_ROWS, 1)
    for name, seconds in SEASONS.items():
        season = round(seconds / step) if step else 0
        if MIN_SEASON <= season <= MAX_WINDOW and season >= horizon and season <= most:
            return season, f"{name}, the longest usual season of at most {MAX_WINDOW} rows"
    usual = max(2 * horizon, MIN_SEEN)
    why = "twice the horizon" if usual == 2 * horizon else "few rows tell a trend from noise"
    return max(min(usual, most), 1), why if usual <= most else "an eighth of the rows"


def _counted(count: int, unit: str) -> str:
    """Return `1 year` or `3 rows`, of a unit as a sentence has it: in one of two languages, of one or several."""
    return f"{count} {_english(unit) or 'row'}{'' if count == 1 else 's'}"


def _english(unit: str) -> str | None:
    """Return a unit of time in English, of one in either language; None of rows."""
    return next((name for name, size in time_units.SECONDS.items() if size == SECONDS.get(unit.lower())), None)


def _worded(seconds: float) -> str:
    whole = (name for name in ("year", "month", "week") if seconds % SECONDS[name] == 0)
    unit = next(whole, None) or next((name for name in ("day", "hour", "minute") if seconds >= SECONDS[name]), "second")
    return f"{seconds / SECONDS[unit]:g} {unit}{'' if seconds == SECONDS[unit] else 's'}"
