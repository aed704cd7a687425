"""Groups that a sentence keeps out of the training: `on machines that are in no part of it`, `auf neuen Maschinen`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from trainwright.tools.training_architect.columns import IDENTIFIER
from trainwright.tools.training_architect.goals import Question
from trainwright.tools.training_architect.request import NO_GROUP
from trainwright.trainer.config.goal_words import any_of
from trainwright.trainer.data.leaks.finding import NAMED

if TYPE_CHECKING:
    from trainwright.tools.training_architect.reading import Reading
    from trainwright.tools.training_architect.request import PlanRequest

NOUN = r"(?P<noun>[^\W\d_]{3,})(?!\s+learning\b)"
NEVER = r"\b(?:not?|never|nobody|nicht|nie|niemals|niemand|kein\w*)\b|n't\b"
SEEN = r"\b(?:seen|met|heard|listened|train\w*|learn\w*|gesehen|gehört|trainier\w*|gelernt)"
UNSEEN = (
    any_of(
        r"(?:unseen|never[- ](?:before[- ])?seen|held[- ]out|ungesehene[nrms]?)\s+"
        r"(?P<noun>[^\W\d_]{3,}(?:\s+[^\W\d_]{3,})?)"
    ),
    any_of(
        rf"{NOUN},?\s+(?:outside\b|(?:that|which|who|die|das|der)\b[^.;!?]{{0,30}}?(?:{NEVER}))[^.;!?]{{0,30}}?{SEEN}"
    ),
    any_of(
        rf"{NOUN},?\s+(?:(?:that|which|whom|die|das|den)\s+)?"
        rf"(?:nobody|no one|niemand|(?:it|we|the model|das modell|es|man)\b[^.;!?]{{0,30}}?(?:{NEVER}))"
        rf"[^.;!?]{{0,30}}?(?:{SEEN}|\bknows?\b|\bkenn(?:t|en)\b)"
    ),
)
"""What a sentence says of whom training knows nothing."""
OF_WHOM = any_of(r"on|for|of|to|with|at|in|across|auf|für|von|bei|mit|an", end=r"\s+(?:[^\W\d_]+\s+){0,2}$")
"""Words before it, without which it may be said of anything: `we have never trained a network`."""
NEW = r"(?:new|unknown|neue[nrms]?|unbekannte[nrms]?|fremde[nrms]?)"
TOGETHER = r"(?:(?:must|should|has|have|needs?|to|be|is|are)\s+)*(?:stays?|kept|remains?|belongs?)\s+together"
SPLIT_BY = any_of(
    rf"(?<!not )(?<!never )(?<!n't )split\w*\s+(?:(?:the|rows|data|it)\s+)*(?:by|per)\s+(?:the\s+)?{NOUN}"
)
APART = (
    any_of(rf"{NEW}\s+{NOUN}"),
    any_of(rf"{NEW}\s+[^\W\d_]{{3,}}\s+{NOUN}"),
    SPLIT_BY,
    any_of(rf"{NOUN}\s+{TOGETHER}"),
)
"""What is said of rows that stay together only where a column has the noun's name."""
ROWS = any_of(
    r"data|rows?|samples?|examples?|records?|entries|cases?|values?|ones|model\w*|sets?|tests?|splits?|part|fold|validation"
    r"|points?|observations?|instances?|daten\w*|zeilen?|beispiele\w*|fälle\w*"
)
"""Nouns of rows themselves, which lie in one split anyway."""
TIME = re.compile(r"(?:time|dates?|zeit|datum)$", re.IGNORECASE)
KEY = frozenset({"id", "no", "nr", "number", "key", "code", "name", "uid", "uuid", "index", "num"})
MIN_GROUPS, MIN_ROWS, MIN_UNNAMED = 3, 1.5, 12
"""Values of a column, rows of each, and values of a column that could be meant by another name."""
SAMPLE = 20_000
"""Rows from which values are counted at most (as trainer/jobs/inspection.py has it)."""


def read_groups(request: PlanRequest, data: dict[str, Any], reading: Reading) -> None:
    """Keep the rows of each group that the sentence names in one split; ask for the column where none has its name."""
    if (request.data or {}).get("split") or reading.split is not None or reading.target is None:
        return
    said = [match for pattern in (*UNSEEN, *APART) for match in pattern.finditer(request.intent)]
    nouns = [word for one in said for word in one["noun"].split() if not ROWS.search(word)]
    others = {one["name"]: one for one in data.get("columns", []) if one["name"] not in {reading.target, reading.text}}
    groups, rows = parted(data, others), min(data.get("rows") or 0, SAMPLE)
    if not nouns:
        reading.assumed += _repeating(groups, rows, reading)
        return
    named = {name: word for name in others for word in nouns if is_of(word, name)}
    asked = [match["noun"] for match in SPLIT_BY.finditer(request.intent)]
    if times := _times(asked, list(others), list(data.get("times") or {})):
        reading.split = {"by": "time", "time": times[0]}
        reading.assumed.append(f"the split is in order of {times[0]!r}: the latest rows are the test")
        return
    if fitting := [name for name in groups if name in named]:
        group = max(fitting, key=lambda name: groups[name]["different"])
        reading.split = {"by": "group", "group": group}
        reading.assumed.append(f"rows of one {group!r} stay in one split, as the sentence says of {named[group]!r}")
        return
    reading.assumed += [
        f"rows are not split by {name!r}, of which there are {others[name]['different']} values"
        for name in others if any(is_of(word, name) for word in asked)
    ]  # fmt: skip
    sure = [one["noun"] for one in said if one.re in UNSEEN and OF_WHOM.search(request.intent[: one.start()])]
    sure = [one for one in sure if not ROWS.search(one)]
    if sure and not named and (possible := possible_groups(groups, data.get("times") or {})):
        asks = f"Which column says whose a row is? The sentence wants {sure[0]} that training has not seen"
        reading.questions.append(
            Question(f"{asks}; {NO_GROUP}: each row is one of them", "group_column", [*possible, NO_GROUP])
        )


def read_given(request: PlanRequest, data: dict[str, Any], reading: Reading) -> None:
    """Take the split that a column gives, and leave out of the inputs what numbers things that have one target each."""
    if reading.series is not None or len(reading.targets) != 1:
        return
    reading.things = [name for name, same in (data.get("one_each") or {}).items() if reading.target in same]
    if (request.data or {}).get("split") or reading.split is not None:
        return
    given = [name for name in data.get("given_by") or [] if name not in reading.targets]
    if len(given) == 1:
        reading.split = {"by": "given", "column": given[0]}
        reading.assumed.append(f"column {given[0]!r} says in which split each row is")
    elif reading.things:
        reading.split = {"by": "group", "group": reading.things[0]}
    reading.assumed += [
        f"the rows of each {name!r} follow one another and have one {reading.target!r}: it is no input"
        f"{', and they stay in one split' if (reading.split or {}).get('group') == name else ''}"
        for name in reading.things
    ]  # fmt: skip


def parted(data: dict[str, Any], columns: dict[str, Any]) -> dict[str, Any]:
    """Return the columns of several values, each of which has several rows."""
    rows = min(data.get("rows") or 0, SAMPLE)
    return {name: one for name, one in columns.items() if not one.get("is_fraction")
            and one["different"] >= MIN_GROUPS and rows >= MIN_ROWS * one["different"]}  # fmt: skip


def _repeating(groups: dict[str, dict[str, Any]], rows: int, reading: Reading) -> list[str]:
    """Say which columns that are named as ids have several rows of each: a split by rows parts them."""
    found = [name for name, one in groups.items() if one["different"] >= MIN_UNNAMED and NAMED.search(name)
             and name not in reading.targets]  # fmt: skip
    return [
        f"{name!r} has {groups[name]['different']} values in {rows} rows: where the model is for new ones, give "
        f"data.split {{'by': 'group', 'group': '{name}'}}, or a held-out row may be of one that was trained on. Ask "
        "the user" for name in found[:1]
    ]  # fmt: skip


def _times(asked: list[str], columns: list[str], known: list[str]) -> list[str]:
    """Return the columns in whose order a split is asked for: `split by day`, or by time where one has times."""
    named = [
        name for name in columns for word in asked if is_of(word, name) and (name in known or TIME.search(word))
    ]  # fmt: skip
    return named or [name for name in known if any(map(TIME.search, asked))]


def possible_groups(groups: dict[str, dict[str, Any]], times: dict[str, Any]) -> list[str]:
    """Return the columns that could say whose a row is: identifiers, and words of many values."""
    return [
        name for name, one in groups.items() if one["different"] >= MIN_UNNAMED and name not in times
        and (IDENTIFIER.search(name) or (one["kind"] == "category" and not one.get("of_numbers")))
    ]  # fmt: skip


def is_of(word: str, name: str) -> bool:
    """Whether a column has the name of a noun, in singular or plural: `machine_id` of machines."""
    word = word.lower()
    parts = {one.lower() for one in re.findall(r"[A-Z]?[^\W\d_A-Z]+|[A-Z]+", name)} - KEY
    return len(parts) == 1 and any(
        min(len(part), len(word)) >= 3 and abs(len(part) - len(word)) <= 2 and _stem(part) == _stem(word)
        for part in parts
    )


def _stem(word: str) -> str:
    return re.sub(r"(?:ies|y|en|es|e|n|s)$", "", word)
