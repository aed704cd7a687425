"""Hardware, money and hours that a sentence of intent names: `I have one 24 GB card and twenty dollars`."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from trainwright.tools.training_architect.hardware import accelerators
from trainwright.tools.training_architect.request import PlanRequest
from trainwright.tools.training_architect.series import HORIZON
from trainwright.trainer.config.goal_words import any_of, spoken_goals
from trainwright.trainer.config.later_words import asked_later
from trainwright.trainer.config.search_words import (
    AMOUNT,
    SPELT,
    TRIALS,
    WORDED,
    asked_ideas,
    asked_search,
    asked_seeds,
    number_of,
)

NUMBER = rf"(?P<n>{AMOUNT}|{WORDED})"
COUNT = rf"(?:\b(?P<count>\d+|{WORDED})\s*(?:x|\*)?\s+)?"
COUNTED = rf"\d+\s*x|\d+|{WORDED}"
UNITS = r"(?:cards?|gpus?|vram|video ram|accelerators?|graphics)"
MEMORY = (
    re.compile(rf"{COUNT}(?P<n>\d+)\s*-?\s*(?:gb|gib)\s+(?:of\s+)?(?:nvidia\s+|video\s+)?{UNITS}\b", re.IGNORECASE),
    re.compile(rf"{COUNT}{UNITS}\s+(?:with|of)\s+(?P<n>\d+)\s*(?:gb|gib)\b", re.IGNORECASE),
)
MONEY = re.compile(
    rf"\$\s*(?P<of>{AMOUNT})(?![\dk])|\b{NUMBER}\s*(?:dollars?|usd|bucks|\$|(?P<euros>eur(?:os?)?\b|€))", re.IGNORECASE
)
RATE = re.compile(
    r"\$?\s*(?P<n>\d+(?:\.\d+)?)\s*(?:dollars?|usd)?\s*(?:/|per|an?)\s*(?:gpu[- ])?h(?:our)?\b", re.IGNORECASE
)
TIME = re.compile(
    rf"\b(?:(?P<half>half an hour|(?:einer? )?halben? stunde)"
    rf"|(?P<quarters>(?:an? |three |einer? |drei )?(?:quarters? of an hour|quarter[- ]hour|viertelstunden?))"
    rf"|{NUMBER}\s*-?\s*(?:(?P<minutes>min(?:ute[ns]?|s)?)"
    r"|(?P<days>days?|tage?n?)|(?P<weeks>weeks?|wochen?)"
    r"|hours?|hrs?|h|stunden?|std))\b(?:\s*(?:and\s+|und\s+)?(?:(?P<more>\d+)\s*min\w*|(?P<and_half>a half\b)))?",
    re.IGNORECASE,
)
HOURS = {"half": 0.5, "minutes": 1 / 60, "days": 24.0, "weeks": 168.0}
CLAUSE = re.compile(r"[,;:(!?]|\.(?=\s)|\s{2,}|\b(?:and|but|with|und|aber|mit)\b", re.IGNORECASE)
"""What begins another part of a sentence; two blanks: what was read before."""
ASIDE = re.compile(r"\([^()]*\)")
LEADS = any_of(
    r"in|within|for|under|below|at most|up to|(?:not? )?(?:less|more|longer) than|max(?:imum|imal)?\.?|only|about|the"
    r"|an?|it|is|of|i|we|you|my|our|or|better|höchstens|(?:innerhalb|binnen) von|binnen|bis zu"
    r"|nicht (?:mehr|länger) als|unter|etwa|ich|wir|für|all|total|overall|limit|time"
)
"""Words that lead to an amount and name nothing that it could be of."""
LEADING = any_of(r"in|within|under|innerhalb von|binnen|unter", end=r"\s+$")
WITHIN = any_of(r"within|in (?:under|less than|at most)|innerhalb von|binnen", end=r"\s+$")
HAPPENS = any_of(r"who|which|whether|if|that|when|wer|ob|welche\w*|wenn")
"""Words of an event, which may come within hours."""
SPENT = any_of(
    r"train\w*|fit|fine-?tun\w*|budget\w*|spend|spent|spare|costs?|pay|finish\w*|done|ready|takes?|have|got|has|habe\w*|darf"
    r"|dauer\w*|kosten|trainier\w*|fertig|overnight|gpus?|cards?|rtx|[abhltv]\d{1,3}"
)
"""Words of what training may take, and what it runs on."""
OF_DATA = any_of(
    r"every|each|last|past|first|previous|next|per|after|by|older than|between|over|above|at least|exceed\w*|jede\w*"
    r"|letzte\w*|alle|nach|über|mindestens|(?<!no )(?<!not )(?:more|longer) than|(?<!nicht )(?:mehr|länger) als"
    r"|between\b(?:,(?=\d)|[^,;])*",
    end=r"\s+(?:the\s+)?$",
)
"""Words before an amount that is none to spend: `who earns over $50,000`, `sampled every 15 minutes`."""
OF_TRAINING = r"of (?:training|compute|gpu|time)"
SPENDING = any_of(rf"{OF_TRAINING}|to train|or less|at most|tops|max\w*|budget|training|in all")
SHARED = re.compile(
    r"\s*(?:for )?(?:each|per|every|a|je|pro|am|in der)\s+"
    r"(?:(?P<run>run|trial|training|try|model|experiment|epoch|lauf|versuch|modell|epoche)"
    r"|day|night|week|tag|nacht|woche)\b",
    re.IGNORECASE,
)
"""What makes hours one of several amounts: `one hour each run`, `two hours a day`."""
NO_TIME = any_of(rf"per|each|je|pro|ahead|into|im voraus|voraus|later|after|before|from now|old|(?!{OF_TRAINING})of")
SHORT = 3
"""Characters up to which a name could be a word of something else."""
NO_COUNT = r"(?!\s+[a-z]*(?:rows|samples|steps|tickets|images|texts|documents))"

BOUND = (
    r"(?:(?:at most|within|under|below|up to|only|max(?:imum|imal)?\.?(?: of)?|höchstens|unter|bis zu|nur"
    r"|(?:no|not)(?: be)? (?:more|longer|larger|bigger|slower) than|(?:less|fewer|smaller|faster|cheaper) than"
    r"|nicht (?:mehr|länger) als|(?:weniger|kleiner|schneller) als)\s+(?:[$€£]\s*)?)"
)
MEASURE = (
    r"(?:[kmgt]i?b(?!\s+(?:of|von)\s+(?!v?ram|memory|disk|speicher))|(?:kilo|mega|giga)bytes?|[mµ]s|millise[ck]\w*|s"
    r"|sec(?:ond)?s?|sekunden?|w|watts?|(?:gpu|cpu|core)[- ]hours?"
    r"|(?:[kmb]|million|billion)?\s*(?:param\w*|weights|gewichten?)|epochs?|epochen|steps|schritten?|trials?|runs|versuchen?"
    r"|(?:cpu )?(?:cores?|kernen?)|(?:predictions|requests|rows) (?:per|a) second|credits)"
)
PARTS = (
    r"(?:(?:hidden )?(?:layers?|neurons?|units)|schichten?|neuronen?|features?|inputs?|merkmale?n?"
    r"|tokens?|folds?|models?|modellen?|tries|attempts?|retries|gpus?|cards?|nodes?|machines?|workers?|threads?|euros?|pounds?"
    r"|(?:minute[ns]?|hours?|stunden?) (?:an?|per|pro|je) \w+)"
)
"""What a model or its training has a number of; `people under 18 years` bounds no part of it."""
DAY = r"(?:(?:mon|tues|wednes|thurs|fri|satur|sun)day|(?:mon|diens|donners|frei|sams|sonn)tag|mittwoch)"
UNPLANNED = (
    re.compile(
        rf"(?<![\w.])(?:{BOUND}?(?:{AMOUNT}|{SPELT})|{BOUND}(?:{WORDED}))[- ]?{MEASURE}\b"
        r"(?:\s*/\s*\w+|\s+(?:per|of|for|je|pro)\s+\w+)*",
        re.IGNORECASE,
    ),
    re.compile(
        rf"\b{BOUND}(?:(?<=[$€£])(?:{AMOUNT})|(?:{AMOUNT}|(?:{SPELT})\b)"
        rf"(?:\s?[%€£$](?:\s+of (?:the )?\w+)?|\s+{PARTS}\b))",
        re.IGNORECASE,
    ),
    re.compile(r"\b(?:batch(?:[- ]size)?|learning rate|lr)\s*(?:of|=|:)?\s*\d[\d.e-]*", re.IGNORECASE),
    any_of(
        rf"(?:by|until|till|before|bis)\s+(?:(?:the )?end of(?: the)? \w+|tomorrow|tonight|today|noon|midnight|{DAY}"
        r"|next \w+|(?:über)?morgen|heute|\d{1,2}(?::\d\d)?\s*(?:[ap]m|o'?clock|uhr)|\d{4}-\d\d-\d\d)"
        r"(?:\s+(?:morning|noon|evening|night|früh|abend))?|overnight|über nacht|lunch break"
        r"|(?:only |nur )?(?:on|auf)\s+(?:(?:(?:an?|the|my|any|one|der|einer?|einem)\s+)?cpus?"
        r"|(?:an?|the|my|any|einem)\s+(?:(?:smart)?phone|browser|raspberry(?: pi)?|edge device|microcontroller|handy))"
        r"(?:[- ]only)?|cpu[- ]only|(?:no|without(?: an?| any)?|ohne|keine?)\s+(?:gpu|internet|network|cloud)\w*"
        r"|offline|real[- ]?time|in echtzeit|(?:keep it|be|as)\s+(?:cheap|free)\w*|free of charge|for free|kostenlos"
        r"|only one (?:try|attempt|run)"
    ),
)
"""Limits that people state and no part of a plan is set by: size of the model, latency, deadlines, epochs."""

COMPARED = re.compile(
    r"\bcompar\w+ (?:it |this |them )?(?:with|to|against)\b|\bvergl[ei]\w+ mit\b|\b(?:versus|vs)\b"
    r"|\b(?:beside|against|next to|better than|beats?|neben|besser als) (?:\w+ )?"
    r"(?:something |a |an |the |etwas |ein\w* )?"
    r"(?:simple|naive|plain|linear|logistic|gradient|boost\w*|trees|random forest|rule|baseline|einfach\w*)\b",
    re.IGNORECASE,
)
"""A request for something that the model is held beside."""
RIVALS = (
    "{words!r}: a release stands beside a rival on the test rows (trees and a linear model of a "
    "table, the last values of a series); a rule of the user's, or a model that is fitted on the same train rows, is "
    "named as evaluation_gate.reference 'file.py:function', an older model as .baseline"
)

FORMATS = {
    "torchscript": any_of(r"torch[- ]?script|torch\.jit"),
    "torch_export": any_of(r"torch[. ]export|exported program|pt2"),
}
"""Programs that are written where they are asked for, by the words for them."""
WRITTEN = (
    "{words!r} is written beside model.onnx, and compared with the model, where deployment.formats is "
    "[safetensors, onnx, {form}]: no run depends on it, so it can be set at any time before the export"
)
UNWRITTEN = any_of(r"gguf|core ?ml|tf-?lite|tensor ?flow (?:lite|saved ?model)|tensorrt|openvino|ncnn")
"""Formats that converters make of what a release has."""

SEARCHED = (
    "{search.words!r} asks for a search: once the baseline is diagnosed, `next` is start_tuning with {trials}, as many "
    "of them as the stated time still holds beside the repetitions over seeds"
)

REPEATED = (
    "{seeds.words!r}: one run is one seed; once the baseline meets the goal, `next` is start_tuning with the call that "
    "repeats it on seeds that the server draws, for mean, deviation and interval"
)

LATER = "after the release: {words!r} is no part of this one; `next` names the calls of what is asked for then"


def with_intent(request: PlanRequest, owners: Path | None = None) -> tuple[PlanRequest, list[str]]:
    """Return the request with what its intent names and its arguments leave out, and one sentence for each."""
    noted = list(request.noted)
    read: set[str] = set()
    rest = spoken_goals(request.intent).rest  # a bound of the goal in dollars is no budget
    hardware = request.hardware or _hardware(rest, owners)
    if hardware is not None and request.hardware is None:
        noted.append(f"hardware {hardware!r} was read from the intent")
        read.add("hardware")
    limits = dict(request.limits)
    stated, said, rest = _limits(rest)
    for name, value in stated.items():
        if name not in limits:
            limits[name] = value
            noted.append(f"{name} {value:g} was read from the intent")
            read.add(name)
        elif limits[name] != value:
            noted.append(f"{name} {value:g} of the intent gives way to the call's {limits[name]:g}")
    if (search := asked_search(request.intent)) is not None:
        rest = TRIALS.sub(lambda one: " " * len(one[0]), rest)
        said.append(
            SEARCHED.format(search=search, trials=f"{search.trials} trials" if search.trials else "a few trials")
        )
    if (seeds := asked_seeds(request.intent)) is not None:
        rest = rest.replace(seeds.words, " " * len(seeds.words))
        said.append(REPEATED.format(seeds=seeds))
    said += [
        f"{words!r} is not planned for: nothing in the plan is set by it, so tell the user"
        for words in _unplanned(rest, hardware or "")
    ]
    said += _of_release(rest)
    if (later := asked_later(request.intent, str((request.data or {}).get("args", "")))) is not None:
        said.append(LATER.format(words=later.words))
    return replace(request, hardware=hardware, limits=limits, of_intent=frozenset(read)), noted + said


def _of_release(intent: str) -> list[str]:
    """Return what is to be said of what a release is to have: programs of other forms, something to stand beside."""
    said = [
        WRITTEN.format(words=asked[0], form=form)
        for form, words in FORMATS.items()
        if (asked := words.search(intent)) is not None
    ]
    if (asked := UNWRITTEN.search(intent)) is not None:
        said.append(f"{asked[0]!r} is not written here: its own converter makes it of model.onnx or transformers/")
    if (compared := COMPARED.search(intent)) is not None:
        said.append(RIVALS.format(words=compared[0]))
    return said


def _unplanned(intent: str, hardware: str) -> list[str]:
    """Return the limits in a sentence that a plan has no place for; memory of the hardware and a horizon are none."""
    found: list[str] = []
    for kind in (*map(re.compile, HORIZON), *UNPLANNED):
        for match in re.finditer(kind.pattern, intent, re.IGNORECASE):
            device = re.search(r"(\d+)(?:\s*gi?b|s)\b", match[0], re.IGNORECASE)  # two 4090s; 24 GB
            is_known = device is not None and re.search(rf"(?<!\d){device[1]}(?!\d)", hardware)
            if kind in UNPLANNED and not is_known:
                found.append(" ".join(match[0].split()))
            intent = intent[: match.start()] + " " * len(match[0]) + intent[match.end() :]
    return found


def _limits(intent: str) -> tuple[dict[str, float], list[str], str]:
    """Return the limits that a sentence states, what is to be said of amounts in it that are none, and the rest."""
    found: dict[str, float] = {}
    intent, said = _without_shares(intent)
    for name, kind in (("dollars_per_hour", RATE), ("dollars", MONEY), ("hours", TIME)):
        for match in kind.finditer(intent):
            before, behind, words = intent[: match.start()], intent[match.end() :], match[0].strip()
            unit = "days" if match.groupdict().get("days") or match.groupdict().get("weeks") else name
            is_spent = unit == "dollars_per_hour" or _is_spent(before, behind, unit)
            if is_spent and name == "dollars" and match["euros"]:
                said.append(f"{words} bounds nothing: limits.dollars is in dollars")
            elif is_spent:
                found.setdefault(name, _amount(match.groupdict()))
            elif name == "hours" and LEADING.search(before) and not NO_TIME.match(behind.lstrip()):
                said.append(f"{words} was taken for a part of the task: limits.hours bounds the training")
            else:
                continue
            intent = before + " " * len(match[0]) + behind
    return {name: value for name, value in found.items() if value > 0}, said, intent


def _without_shares(intent: str) -> tuple[str, list[str]]:
    """Return a sentence of the same length without hours of each run or day, and what is to be said of them."""
    said = []
    for match in TIME.finditer(intent):
        before, behind = intent[: match.start()], intent[match.end() :]
        if (share := SHARED.match(behind)) and _is_spent(before, behind[share.end() :], "hours"):
            words = f"{match[0].strip()} {share[0].strip()}"
            said.append(f"{words!r} is not planned for: limits.hours bounds all runs together")
            intent = before + " " * (len(match[0]) + share.end()) + behind[share.end() :]
            if share["run"] is None:  # `two hours a day for a week` are no week of training
                intent = TIME.sub(lambda one: " " * len(one[0]) if one["days"] or one["weeks"] else one[0], intent)
    return intent, said


def _amount(found: dict[str, str | None]) -> float:
    """Return dollars, or hours."""
    if found.get("quarters"):
        return 0.75 if re.match("three|drei", str(found["quarters"]), re.IGNORECASE) else 0.25
    scale = next((size for unit, size in HOURS.items() if found.get(unit)), 1.0)
    return (
        number_of(found.get("of") or found.get("n") or "one") * scale
        + int(found.get("more") or 0) / 60
        + (scale / 2 if found.get("and_half") else 0)
    )


def _is_spent(before: str, behind: str, unit: str) -> bool:
    """Whether dollars, hours or days are what training may take, and no part of what is predicted or from what."""
    clause, behind = CLAUSE.split(ASIDE.sub(" ", before))[-1], behind.lstrip()
    if NO_TIME.match(behind) or (OF_DATA.search(before) and not re.search(r"\b(?:not|no)\b|n't", clause)):
        return False
    if unit != "dollars" and WITHIN.search(before):
        return unit == "hours" and HAPPENS.search(clause) is None
    is_spending = SPENT.search(clause) is not None or bool(asked_ideas(clause)) or bool(SPENDING.match(behind))
    return is_spending or not LEADS.sub("", clause).strip(" .-")


def _hardware(intent: str, owners: Path | None) -> str | None:
    """Return the words that name a device: an accelerator of the table, a card by its memory, or a TPU."""
    rows, _ = accelerators(owners)
    names = sorted(
        {*rows, *(alias for row in rows.values() for alias in row.get("aliases") or [])}, key=len, reverse=True
    )
    for name in names:
        if (match := _named(name, intent)) is not None:
            return _counted(match["count"], name)
    for kind in MEMORY:
        if (match := kind.search(intent)) is not None:
            return _counted(match["count"], f"{match['n']} GB card")
    tpu = re.search(r"\btpu(?:\s+v\d\w*)?", intent, re.IGNORECASE)
    return tpu[0] if tpu is not None else None


def _named(name: str, intent: str) -> re.Match[str] | None:
    """Return where a device is named; a short name (T4) in capitals, behind a number or `on`, `with`."""
    pattern = rf"{COUNT}(?<![\w.]){re.escape(name)}s?(?![\w.])"
    if len(name) <= SHORT:
        return re.search(rf"(?:\b(?:on|with|have|has|using)\s+|(?=\b(?:{COUNTED})\s)){pattern}", intent)
    if name.isdigit():  # `4090` names a card, and `4090 rows` does not
        pattern += NO_COUNT
    return re.search(pattern, intent, re.IGNORECASE)


def _counted(count: str | None, name: str) -> str:
    number = int(number_of(count)) if count else 1
    return f"{number}x {name}" if number > 1 else name
