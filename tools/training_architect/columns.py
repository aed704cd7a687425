"""Columns that a sentence names: what is predicted, whether it is several, and by what rows stay apart."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from trainwright.tools.training_architect.goals import Question, kind_of_sentence
from trainwright.tools.training_architect.series import HORIZON, SECONDS
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.config.goal_words import any_of
from trainwright.trainer.data.sections import COLUMN_OF, targets_of

if TYPE_CHECKING:
    from trainwright.tools.training_architect.reading import Reading
    from trainwright.tools.training_architect.request import PlanRequest

TARGETS = re.compile(
    r"^(label|labels|target|class|category|y|queue|topic|intent|sentiment|answer|outcome|stars|rating|churn(ed)?|fraud|default(ed)?|survived|species|diagnosis)$",
    re.I,
)
PREDICTS = any_of(
    r"predict\w*|forecast\w*|estimat\w+|classif\w+|detect\w*|guess\w*|tell\w*|regress\w*|recogni[sz]\w+|vorher\w+"
    r"|prognos\w+|schätz\w*|erkenn\w*|klassifizier\w*|target(?: column)?(?: is)?|know|wissen"
    r"|sage?n?\b(?=[^.]*\b(?:voraus|vorher)\b)(?!\s+(?:voraus|vorher))|which|who|whether|wer|ob|welche\w*"
)
"""Words behind which a sentence names what is predicted."""
SOURCES = re.compile(
    r"\b(?:from|using|with|by|based on|given|aus|anhand|mit|mithilfe|aufgrund|having)\b|[;:]|[.,](?=\s)", re.IGNORECASE
)
"""Words behind which it names from what, or goes on."""
GIVEN = any_of(r"from|using|by|based on|given|depend\w* on|aus|anhand|mithilfe|aufgrund|abhängig|je nach")
"""Those behind which no column is what is predicted, whatever stands there alone."""
INPUTS = any_of(
    r"from|using|uses?|with(?:out)?|by|based on|given|depend\w* on|ignor\w+|drop\w*|exclud\w+|omit\w*|except(?: for)?"
    r"|inputs?|features?|predictors?|aus|anhand|mit(?:hilfe)?|aufgrund|abhängig von|ohne|außer",
    end=r"\s*(?:(?:are|is|sind|ist|von|:|=|\()\s*)?"
    r"(?:(?:the|all|only|just|my|our|its|columns?|features?|inputs?|spalten?|der|den|dem)\s+)*[`'\"(]*$",
)
"""Words behind which columns are inputs, or left out."""
DRIVES = re.compile(
    r"[`'\")]*(?:\s+columns?)?\s*(?:->|→|=>|\b(?:(?:can|may|might|will|could|would|do|does|both|all|\w+ly)\s+)*(?:"
    r"(?:drive|determine|influence|affect|impact|cause|decide|explain|tell|predict)s?\b|leads? to\b|beeinflussen\b"
    r"|(?:is|are|being|as|sind|als)\s+(?:(?:the|an?|my|our|its|only)\s+)*(?:inputs?|features?|predictors?|known|given"
    r"|bekannt)\b))",
    re.IGNORECASE,
)
"""What follows columns that are inputs: `x and y drive the price`."""
NAMED = re.compile(
    r"[`'\")]*\s+(?:column\s+)?(?:as|als)\s+(?:(?:the|an?|my|our|das|die)\s+)*"
    r"(?:target|label|output|response|outcome|dependent variable|ziel\w*|zielspalte)"
    r"\s*(?:[,.;:!)]|$|(?:and|und|with|mit)\b)",
    re.IGNORECASE,
)
"""What follows the column that is predicted: `use price as the target`."""
LOOSE = any_of(r"uses?|with|mit", end=r"\s+(?:(?:the|all|only|just|my|our|der|den|dem)\s+)*[`'\"(]*$")
STATED = re.compile(r"[`'\")]*\s+(?:is|are|sind|ist)\s+(?:known|given|bekannt)\b", re.IGNORECASE)
"""What does not say for sure that a column is an input: `with price`, `the price is known for half of them`."""
NEGATION = r"(?:\b(?:not|never|no|dont|nicht|nie|kein\w*)|(?<!ca)(?<!could)n['\u2019]t)\b"
NOT = re.compile(rf"{NEGATION}\W+(?:\w+\W+){{0,2}}$", re.IGNORECASE)
NOT_PREDICT = re.compile(
    rf"{NEGATION}\s+(?:(?:want|need|like|try(?:ing)?|going|have)\s+(?:you\s+)?(?:to\s+)?)?"
    r"(?:predict|forecast|estimat|classif|regress|guess)\w*\s+(?:the\s+)?[`'\"(]*$",
    re.IGNORECASE,
)
"""What stands before columns that are not to be predicted: `don't predict price, predict size`."""
NOT_IT = re.compile(rf"{NEGATION}\s+(?:(?:the|der|den|die|das)\s+)?[`'\"(]*$", re.IGNORECASE)
BUT_IT = re.compile(r"[`'\")]*,?\s+(?:but|sondern)\b", re.IGNORECASE)
"""What stands around such a one: `predict not the price but the size`."""
IT = any_of(r"(?:predict|forecast|estimate|classify|regress|guess) (?:it|that|them)|(?:sie|es|ihn) (?:vorher|voraus)")
VERB = re.compile(r"[`'\")]*\s+(?:is|are|was|were|has|have|being|come|matter|sind|ist|haben?|hat)\b", re.IGNORECASE)
PREDICT = any_of(r"predict|forecast|estimate|classify|regress|guess", end=r"\s+(?:the\s+)?[`'\"(]*$")
"""What follows columns of which another clause goes on, and what stands before the one that is predicted."""
BESIDE = any_of(
    r"this|these|any|each|every|all|per|in|on|at|am|im|an|bei|pro|dies\w*|jede\w*",
    end=r"\s+(?:(?:the|a|an|any|each|given|certain|same|der|dem|den|einem|einer)\s+)*$",
)
"""Words before a column's name that make it a part of the circumstances: `in this table`, `at any time`."""
JOINT = re.compile(
    r"[`'\")]*\s*(?:\([^)]{1,20}\))?\s*(?:[,&/+]|,?\s*\b(?:and|or|und|oder|sowie|as well as)\b)\s*"
    r"(?:(?:the|der|die|das|den)\s+)?[`'\"(]*",
    re.IGNORECASE,
)
"""What stands between two columns of an enumeration."""
SEVERAL = any_of(
    r"(?:several|all|any|each|some) of|all (?:two|three|four|five)|both|joint(?:ly)?|together|at once"
    r"|multi-?(?:label|target|output)\w*|gemeinsam\w*|mehrere\w*|alle (?:zwei|drei|vier|fünf)|beide\w*"
)
"""Words of several that are predicted at once."""
AT_ONCE = any_of(
    r"(?:for|to|of|in|into) several|several (?:classes|labels|categories|teams|topics|targets|columns|answers)|jointly"
    r"|more than one (?:class|label|category|team|topic)|multi-?(?:label|target|output)\w*|gemeinsam\w*"
    r"|(?:two|three|four|five|six|last \w+|letzten \w+) (?:\w+ )?(?:columns|spalten|targets)"
)
"""Words that want several columns at once, whichever they are."""
WHETHER = re.compile(r"\b(?:whether|ob)\b", re.IGNORECASE)
"""What each of several questions begins with: `whether they survived and whether they were alone`."""
OWNER = re.compile(
    r"(?P<of>(?<=s)['\u2019]|['\u2019]s)?[`'\")]*\s+(?:(?:total|mean|final|body|own)\s+)?[`'\"(]*", re.IGNORECASE
)
"""What stands between a column that says whose and the one that is meant: `a pig's weight`, `house price`."""
WHEN = re.compile(rf"(?:{'|'.join(SECONDS)})(?:e?[sn]|e)?", re.IGNORECASE)
"""Names of columns that say when, and behind another one not what: `forecast the load day ahead`."""
SHORTEST_STEM = 5
SHORTEST_VERB = 4
"""Letters of a name whose forms as a verb are read: deny of `denied`, fail of `failed`."""
UNIT = re.compile(
    r"_(?:[munk]?m[23]?|[mk]?g|[kmg]?pa|bar|[kmg]?wh?|[mk]?v|ma|[kmg]?hz|[munk]?s|h|ml"
    r"|[ck]|deg|pct|percent|prozent|usd|eur|kmh|mph|rpm|ppm|kj|kn|nm|db)$",
    re.IGNORECASE,
)
"""End of a column's name that a sentence leaves out: druckfestigkeit_mpa."""
SPELT = {"ss": "(?:ss|ß)", "ae": "(?:ae|ä)", "oe": "(?:oe|ö)", "ue": "(?:ue|ü)"}
"""Letters that a name writes out, as German sentences have them."""
PRONOUNS = frozenset({
    "who", "which", "what", "whether", "when", "where", "how", "all", "any", "each", "one", "this", "that", "is", "it",
    "wer", "was", "wie", "ob", "wo", "wann", "alle",
})  # fmt: skip
"""Names of columns that a sentence says anyway: there they are columns in quotes, or behind the word alone."""
FLAG = re.compile(r"^(?:is|has|was|did)_(?=\w)", re.IGNORECASE)
"""Begin of a column's name that a sentence leaves out: is_fraud."""
IDENTIFIER = re.compile(r"(^|_)(id|uuid|key|index)$|^id_", re.IGNORECASE)
MAX_CLASSES = 50
MAX_SHOWN = 12
"""Columns of a question, the first and the last of more."""


@dataclass(frozen=True)
class Told:
    """What a sentence says of the column that is predicted."""

    first: str | None = None
    several: tuple[str, ...] = ()
    """All of the enumeration in which that column stands."""
    possible: tuple[str, ...] = ()
    """Where it is open: those that could be meant."""


def take_target(
    request: PlanRequest, columns: dict[str, Any], text: str | None, reading: Reading
) -> None:  # fmt: skip
    """Take the column that the call or the sentence names as what is predicted, and what is named beside it."""
    told = told_target(request, columns, text)
    given = targets_of((request.data or {}).get("args") or {})
    reading.target = given[0] if given else told.first
    beside = [one for one in told.several if one != reading.target] if reading.target in told.several else []
    reading.further = given[1:] if given else beside
    reading.others = [one for one in beside if one not in reading.further]
    if reading.further:
        reading.assumed.append(f"{', '.join(reading.targets)} are predicted together, by one model")
    elif not given and told.first is not None:
        reading.assumed.append(f"column {told.first!r} is what the sentence wants predicted")
    elif not given and told.possible:
        reading.questions.append(_which(request.intent, told.possible))


def told_target(request: PlanRequest, columns: dict[str, Any], text: str | None) -> Told:
    """Return the column that the sentence names as what is predicted; none where it names none, or several alike.

    A column that is only mentioned must fit the metric, and no other may look like what is predicted.
    """
    intent, loose = _without_inputs(_without_owners(_without_horizon(request.intent, columns), columns), columns)
    able, fitting = _able(columns, text), _able(columns, text, kind_of_sentence(request))
    labels, listed = _labels(fitting, columns), _listed(intent, able)
    marked = [name for name in able if re.search(rf"[(`'\"]{re.escape(name)}[)`'\"]", intent, re.IGNORECASE)]
    ends = _runs(request.intent, able)
    begin = _begin_of_told(intent, able)
    named = {run[-1][2] for run in ends
             if NAMED.match(request.intent[run[-1][1] :]) and not NOT.search(request.intent[: run[0][0]])}  # fmt: skip
    direct = [run[0] for run in _runs(intent, columns) if PREDICT.search(intent[: run[0][0]])]
    if direct and direct[0][-1] not in (*able, text):
        named = {direct[0][-1]}  # an id, or one of many classes, said in so many words
    sure = tuple(named) if len(named) == 1 else _whether(intent, able, columns) if not named else ()
    if sure:
        return Told(sure[0], sure if len(sure) > 1 else ())
    parts = [] if begin is None else [(begin, SOURCES.split(intent[begin:])[0], able)]
    for begin, part, possible in [*parts, (0, GIVEN.split(intent)[0], fitting)]:  # a German verb stands last
        places = {name: found for name in possible if (found := place_of_column(name, part)) is not None}
        if not places:
            continue
        first, *heads = _compound(places, part)
        if heads and heads[-1] in labels:
            first, heads = heads[-1], []
        several = listed.get(begin + places[first][0], ())
        is_sure = possible is able or (several and SEVERAL.search(intent))
        if len(marked) == 1:
            return Told(possible=(first, *marked)) if is_sure and marked[0] not in places else Told(marked[0])
        if is_sure or (len(places) == 1 and (first in labels or not labels)):
            return Told(possible=(first, *heads)) if heads else Told(first, several)
        return Told(possible=tuple(dict.fromkeys([*places, *labels])))
    meant = marked or [name for name in loose if name in fitting]
    stated = {name for run in ends if STATED.match(request.intent[run[-1][1] :]) for *_, name in run}
    if len(meant) == 1 and (marked or (meant[0] in stated and IT.search(intent))):
        return Told(meant[0])
    return Told(possible=tuple(dict.fromkeys([*meant, *labels]))) if meant and not marked else Told()


def _whether(intent: str, able: list[str], columns: dict[str, Any]) -> tuple[str, ...]:
    """Return the columns of two values that a sentence asks for together, each behind a `whether` of its own.

    None where one names no such column, or several: `tell me whether age matters` asks for no other target.
    """
    if not SEVERAL.search(intent):
        return ()
    able = [name for name in able if columns[name].get("different") == 2]
    runs = [_runs(question, able) for question in WHETHER.split(intent)[1:]]
    found = [run[0][0][-1] for run in runs if len(run) == 1 and len(run[0]) == 1]
    return tuple(dict.fromkeys(found)) if len(runs) > 1 and len(found) == len(runs) else ()


def _begin_of_told(intent: str, able: list[str]) -> int | None:
    """Return where the words begin that say what is predicted: a column after its verb outranks `which`."""
    told = PREDICTS.search(intent)
    direct = [run[0][0] for run in _runs(intent, able) if PREDICT.search(intent[: run[0][0]])]
    return direct[0] if direct else told.end() if told else None


def _compound(places: dict[str, tuple[int, int, bool]], part: str) -> list[str]:
    """Return the column that is named first, and those that follow with a blank alone: it could be of the last."""
    first, *others = sorted(places, key=places.__getitem__)
    found = [first]
    for name in others:
        if part[-places[found[-1]][1] : places[name][0]] == " " and not _measures(name):
            found.append(name)
    return found


def _without_owners(intent: str, columns: dict[str, Any]) -> str:
    """Return a sentence of the same length without columns that only say whose another one is: `a pig's weight`.

    Where a blank alone says so, that is a category, an id or a time, and the other one neither a time nor a unit.
    """
    spans = sorted((*span, one) for one in columns for span in _spans_of(one, intent))
    for (start, stop, _, owner), (following, *_, owned) in pairwise(spans):
        link = OWNER.fullmatch(intent, stop, following) if stop < following else None
        names = columns[owner]["kind"] != "number" or IDENTIFIER.search(owner) or WHEN.fullmatch(owner)
        if link and (link["of"] or (names and not _measures(owned))):
            intent = intent[:start] + " " * (stop - start) + intent[stop:]
    return intent


def _without_horizon(intent: str, columns: dict[str, Any]) -> str:
    """Return a sentence of the same length without the unit of how far it looks ahead, where a column is named so."""
    if not any(map(WHEN.fullmatch, columns)):
        return intent
    spans = [one.span("unit") for pattern in HORIZON for one in re.finditer(pattern, intent, re.IGNORECASE)]
    for start, stop in spans:
        intent = (
            intent[:start] + " " * (stop - start) + intent[stop:] if WHEN.fullmatch(intent, start, stop) else intent
        )
    return intent


def _measures(name: str) -> bool:
    """Whether a column's name says when, or in what unit another one is."""
    return WHEN.fullmatch(name) is not None or UNIT.search(f"_{name}") is not None


def _without_inputs(intent: str, columns: Iterable[str]) -> tuple[str, list[str]]:
    """Return a sentence of the same length without the columns that it names as inputs, or as left out.

    And the columns of which it is not sure that they are.
    """
    loose: list[str] = []
    for run in _runs(intent, columns):
        begin, end = run[0][0], run[-1][1]
        is_sure = bool(INPUTS.search(intent[:begin]) and not LOOSE.search(intent[:begin]))
        is_sure |= bool(DRIVES.match(intent[end:]) and not STATED.match(intent[end:]))
        is_refused = bool(NOT_PREDICT.search(intent[:begin]))
        is_sure |= is_refused or bool(NOT_IT.search(intent[:begin]) and BUT_IT.match(intent[end:]))
        is_loose = bool(not is_sure and (LOOSE.search(intent[:begin]) or STATED.match(intent[end:])))
        if len(run) > 1 and PREDICT.search(intent[:begin]) and VERB.match(intent[end:]):
            begin, end = (begin, run[0][1]) if is_refused else (run[1][0], end)
            is_sure = True  # `predict price, x and y are in mm`: another clause
        if is_sure or is_loose:
            loose += [name for *_, name in run] if is_loose else []
            intent = intent[:begin] + " " * (end - begin) + intent[end:]
    return intent, loose


def _runs(intent: str, columns: Iterable[str]) -> list[list[tuple[int, int, str]]]:
    """Return the columns that a sentence names, with their places: each enumeration (`billing, login and cancel`)."""
    runs: list[list[tuple[int, int, str]]] = []
    end = 0
    spans = sorted((*span, one) for one in columns for span in _spans_of(one, intent))
    for start, stop, _, name in spans:
        if runs and start < end:
            continue
        if not runs or not JOINT.fullmatch(intent[end:start]):
            runs.append([])
        runs[-1].append((start, stop, name))
        end = stop
    return runs


def _listed(intent: str, able: list[str]) -> dict[int, tuple[str, ...]]:
    """Return for each place of an enumeration of columns (`billing, login and cancel`) all that stand in it."""
    several = [(run, tuple(dict.fromkeys(name for *_, name in run))) for run in _runs(intent, able)]
    return {start: names for run, names in several if len(names) > 1 for start, *_ in run}


def _able(columns: dict[str, Any], text: str | None, kind: str | None = None) -> list[str]:
    """Return the columns that could be predicted; of a kind alone, where a metric is of one."""
    return [
        name
        for name, one in columns.items()
        if name != text and not IDENTIFIER.search(name)
        and (kind != "regression" or one["kind"] == "number" or one.get("of_numbers"))
        and ((one["kind"] == "category" and 2 <= one["different"] <= MAX_CLASSES)
             or (one["kind"] == "number" and kind != "classification"))
    ]  # fmt: skip


def _labels(able: list[str], columns: dict[str, Any]) -> list[str]:
    """Return those that are named like what is predicted."""
    return [name for name in able if TARGETS.match(FLAG.sub("", name)) and not (name.lower() == "y" and "x" in columns)]


def place_of_column(name: str, text: str) -> tuple[int, int, bool] | None:
    """Return where a column is first named in a text, and what orders names there: the longer first, forms last."""
    found = next(_spans_of(name, text), None)
    return None if found is None else (found[0], -found[1], found[2])


def _spans_of(name: str, text: str) -> Iterator[tuple[int, int, bool]]:
    """Yield (start, stop, whether a form of its word) where a column is named in a text: a form once, if nowhere else.

    So where a sentence says `level`, the column of that name is meant before the column `levels`.
    """
    name = FLAG.sub("", name)
    words = _spelt(re.sub(r"(?:_|\\[ .-]|(?<=[a-z])(?=[A-Z]))+", r"[\\s_.-]?", re.escape(name)))
    if not re.search(r"\w", name):
        return
    if name.lower() in PRONOUNS:
        quoted = re.finditer(rf"[`'\"]{words}[`'\"]|\b(?:column|spalte) {words}\b", text, re.IGNORECASE)
        yield from ((*match.span(), False) for match in quoted)
        return
    exact = [(*one.span(), one[0] != name)
             for one in re.finditer(rf"(?<!\w){words}(?:s|es)?(?!\w)", text, re.IGNORECASE)
             if not BESIDE.search(text[: one.start()])]  # fmt: skip
    yield from exact
    bare = UNIT.sub("", name)
    stem = bare if bare != name else name[: max(len(name) - 2, SHORTEST_STEM)]
    if exact or not stem.isalpha():
        return
    forms = rf"{_spelt(stem)}[^\W\d_]{{0,4}}"
    if len(bare) < SHORTEST_STEM + (bare == name):
        if len(name) < SHORTEST_VERB:
            return
        forms = rf"{name[:-1]}ie[sd]|{name}ing" if name.lower().endswith("y") else rf"{name}(?:ed|ing)"
    found = re.search(rf"(?<!\w)(?:{forms})(?!\w)", text, re.IGNORECASE)
    yield from [] if found is None else [(*found.span(), True)]


def _spelt(pattern: str) -> str:
    return re.sub("|".join(SPELT), lambda found: SPELT[found[0].lower()], pattern, flags=re.IGNORECASE)


def settle_target(
    request: PlanRequest, columns: dict[str, Any], text: str | None, reading: Reading
) -> None:  # fmt: skip
    """Take the column whose name, or being the only one that could be predicted, says that it is; else ask."""
    if reading.target is not None or reading.questions:
        return
    able = _able(columns, text, kind_of_sentence(request))
    named = _labels(able, columns)
    chosen = named if len(named) == 1 else able if len(able) == 1 else []
    if chosen:
        reading.assumed.append(f"column {chosen[0]!r} is what is to be predicted")
        reading.target = chosen[0]
        return
    reading.questions.append(_which(request.intent, named or able or _able(columns, text) or list(columns)))


def _which(intent: str, columns: Sequence[str]) -> Question:
    shown = _shown(intent, columns)
    more = f" ({len(columns) - len(shown)} more could be)" if len(shown) < len(columns) else ""
    if AT_ONCE.search(intent):
        more += " Several that one model predicts at once are a list of them, data.args.target."
    return Question(f"Which column is to be predicted?{more}", "target_column", shown)


def _shown(intent: str, columns: Sequence[str]) -> list[str]:
    """Return the columns that an answer has room for: those that the sentence names, then the first and the last."""
    named = [name for name in columns if place_of_column(name, intent) is not None][:MAX_SHOWN]
    rest = [name for name in columns if name not in named]
    room = MAX_SHOWN - len(named)
    return named + (rest if len(rest) <= room else rest[: room // 2] + rest[len(rest) - (room - room // 2) :])


def require_cells(data: dict[str, Any], no_inputs: Iterable[str], assumed: list[str]) -> None:
    """Refuse a table whose inputs are all lists or objects, which a table leaves out; say of some that they are.

    Raises:
        ConfigurationError: nothing else is left to learn from.
    """
    nested = [one["name"] for one in data.get("columns", []) if one["kind"] == "other" and not one["different"]]
    inputs = {one["name"] for one in data.get("columns", [])} - {*no_inputs}
    if not nested:
        return
    listed = ", ".join(nested[:MAX_SHOWN]) + (", …" if len(nested) > MAX_SHOWN else "")
    if inputs > {*nested}:
        assumed.append(f"{listed} hold lists or objects, which a table leaves out: one value a cell is read")
        return
    raise ConfigurationError(
        f"{listed} hold lists or objects, and nothing else is left to learn from: a table has one value a cell.",
        remedy="Write a column for each number; or, of sequences of other lengths, a function that gives them, as "
        "create_project(config={'data': {'use': 'rows.py:rows'}, …}).",
        document="configs/your_code.md",
    )


def require_columns(request: PlanRequest, data: dict[str, Any]) -> None:
    """Refuse columns that a table lacks, forms that nobody filled in among them. Raises ConfigurationError."""
    given, columns = request.data or {}, {one["name"]: one for one in data.get("columns", [])}
    args, split = given.get("args") or {}, given.get("split") or {}
    named = [("args.target", name) for name in targets_of(args)] + [("args.text", args.get("text"))]
    named += [(f"split.{key}", split.get(key)) for key in COLUMN_OF.values()]
    named += [("args.series.group", (args.get("series") or {}).get("group"))]
    header = data.get("header") or [name for _, name in named if name]
    for key, name in named:
        if not name or name in header:
            continue
        able = _able(columns, None, kind_of_sentence(request)) if key == "args.target" else []
        shown = _shown(request.intent, able or header)
        more = f", and {len(header) - len(shown)} more" if len(header) > len(shown) else ""
        raise ConfigurationError(
            f"data.{key} = {str(name)[:80]!r} is no column of the file.",
            remedy=f"Ask the user which it is: {', '.join(shown)}{more}.",
        )
