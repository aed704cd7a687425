"""Rows that a sentence wants ranked within groups: `rank the documents of each query by relevance`, `pro Anfrage`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from trainwright.tools.training_architect.columns import IDENTIFIER, MAX_SHOWN, place_of_column, told_target
from trainwright.tools.training_architect.goals import Question
from trainwright.tools.training_architect.groups import MIN_UNNAMED, NOUN, is_of, parted, possible_groups
from trainwright.tools.training_architect.request import NO_GROUP
from trainwright.trainer.config.goal_words import any_of
from trainwright.trainer.metrics.built_in import OF_GROUPS

if TYPE_CHECKING:
    from trainwright.tools.training_architect.reading import Reading
    from trainwright.tools.training_architect.request import PlanRequest

RANK = r"(?:re-?)?(?:rank(?:s|ed|ing)?|sort|(?<!in )order|arrange|sortier\w*|ordne\w*|ranke\w*)"
EACH = (
    r"(?:(?:of|for|within|in|inside|zu|innerhalb)\s+(?:each|every|an?|one|the same|jede[rsnm]?|eine[rsnm]?)|per|pro|je"
    r"|jede[rs])"
)
RANKED = (
    any_of(rf"{RANK}\s+(?:[\w-]+\s+){{0,5}}?{EACH}\s+{NOUN}"),
    any_of(rf"{EACH}\s+{NOUN},?\s+(?:[\w-]+\s+){{0,5}}?{RANK}"),
    any_of(rf"{RANK}\s+(?:each|every|jede\w*)\s+{NOUN}['\u2019]?s?['\u2019]?\s+[\w-]+"),
)
"""What a sentence says of rows in whose order alone it is interested, and of what they are."""
BY = any_of(r"by|after|according to|nach|gemäß")
LEARNED = any_of(r"learn\w*[- ]to[- ]rank|search results|suchergebnisse\w*")
VERB, MEASURED = any_of(RANK), any_of(r"mean reciprocal rank|mrr|ndcg\w*")
"""What a sentence says of rows that are ranked, and how well that is done."""
QUERY = re.compile(r"^(?:q|query|search|srch|session|request|user|impression)[_ ]?(?:id|no|nr)?$", re.IGNORECASE)
RELEVANCE = re.compile(r"^(?:rel|relevan\w*|grade|gain|label|score|rating|click(?:s|ed)?|judg\w*)$", re.IGNORECASE)
"""Names of a column that says which rows are ranked together, and of one that says how."""
MAX_BEHIND = 30
"""Characters behind `by` within which the column's name ends."""


def read_ranking(request: PlanRequest, data: dict[str, Any], reading: Reading) -> bool:
    """Take columns that are to be ranked within groups as a plan has them; False where nothing of it is wanted.

    Asks for the group, or for what the rows are ranked by, where the sentence is certain and the columns are not.
    """
    given = request.data or {}
    args, split = given.get("args") or {}, given.get("split") or {}
    nouns = [found["noun"] for pattern in RANKED for found in pattern.finditer(request.intent)]
    is_measured = VERB.search(request.intent) is not None and MEASURED.search(request.intent) is not None
    is_sure = request.metric in OF_GROUPS or is_measured or LEARNED.search(request.intent) is not None
    if not (nouns or is_sure) or split.get("by", "group") != "group" or isinstance(args.get("target"), list):
        return False
    columns = {one["name"]: one for one in data.get("columns", [])}
    groups = parted(data, columns)
    possible = _groups_of(split.get("group"), nouns, groups)
    targets = [args["target"]] if args.get("target") else _targets_of(request, data, columns, possible)
    if nouns and targets and not possible and not is_sure:
        reading.assumed.append(f"no column says of which {nouns[0]!r} a row is: rows are not ranked within groups")
    if not (is_sure or (possible and targets)):
        return False
    asked = possible or possible_groups(groups, data.get("times") or {}) or _of_equal_size(groups, data)
    if len(possible) != 1 and not asked:
        return False
    if len(possible) != 1:
        asks = f"Which column says which rows are ranked together, the query, say? {NO_GROUP}: rows are not ranked"
        reading.questions.append(Question(asks, "group_column", [*asked, NO_GROUP]))
    if len(targets) != 1:
        others = targets or [name for name in columns if name not in possible][:MAX_SHOWN]
        reading.questions.append(Question("Which column says how relevant a row is?", "target_column", others))
    if reading.questions:
        return True
    reading.target, reading.ranks = targets[0], True
    reading.split = split or {"by": "group", "group": possible[0]}
    column = columns[targets[0]]
    numbered = column["kind"] == "number" or column.get("of_numbers")
    reading.task = request.task or ("table_regression" if numbered else "table_classification")
    reading.assumed.append(
        f"the rows of one {possible[0]!r} are ranked by {targets[0]!r}: they stay in one split, and their order alone "
        "counts; rows are scored one by one"
    )
    return True


def _groups_of(named: str | None, nouns: list[str], groups: Iterable[str]) -> list[str]:
    """Return the columns that could say which rows are ranked together, one where it is certain."""
    if named is not None:
        return [named]
    known = list(groups)
    return [name for name in known if any(is_of(noun, name) for noun in nouns)] or [
        name for name in known if QUERY.match(name)
    ]


def _of_equal_size(groups: dict[str, dict[str, Any]], data: dict[str, Any]) -> list[str]:
    """Return the columns whose values could all have as many rows: the ways of each trip, numbered by the trip."""
    rows = data.get("rows") or 0
    return [name for name, one in groups.items() if one["different"] >= MIN_UNNAMED and rows % one["different"] == 0]


def _targets_of(request: PlanRequest, data: dict[str, Any], columns: dict[str, Any], groups: list[str]) -> list[str]:
    """Return the columns that could say how relevant a row is, one where it is certain: numbers, or two values."""
    able = [name for name, one in columns.items() if name not in groups and not IDENTIFIER.search(name)
            and (one["kind"] == "number" or one.get("of_numbers") or one["different"] == 2)
            and (one.get("spread") or {}).get("least", 0) >= 0]  # fmt: skip
    behind = [request.intent[found.end() :][:MAX_BEHIND] for found in BY.finditer(request.intent)]
    said = [name for name in able if any(place_of_column(name, text) is not None for text in behind)]
    said = said or [name for name in able if name == told_target(request, columns, data.get("text")).first]
    return said or [name for name in able if RELEVANCE.match(name)]
