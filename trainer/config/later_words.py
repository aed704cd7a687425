"""Steps that a sentence names for after the release: `then add new_cases.csv and make a second version`."""

from __future__ import annotations

import re
from bisect import bisect
from dataclasses import dataclass

from trainwright.trainer.config.goal_words import any_of
from trainwright.trainer.config.search_words import is_negated

_ENDINGS = r"(?:csv|tsv|jsonl?|ndjson|parquet|arrow|orc|xlsx?|npz|txt)(?:\.gz)?"
FILES = re.compile(rf"(?<![\w/.-])[\w.-][\w./-]{{0,120}}(?:\.{_ENDINGS}\b(?!\.\w)|/(?![\w.-]))")
"""Names of files of data, and of folders with a slash behind them, in a sentence."""
_FILE = rf"(?!(?:[\w/-]*[/_-])?(?:train|val|valid|validation|dev|test|holdout)\b)[\w.-][\w./-]*\.{_ENDINGS}\b"
"""A file that is named for no split."""
_NEW = (
    r"(?:new(?:er|est)?|fresh(?:er)?|more|additional|later|further|latest|neue\w*|weitere\w*|frische\w*) (?:\w+ )?"
    r"(?:rows|cases|data|samples|examples|records|ones|zeilen|fälle\w*|daten)\b(?! augment)"
)
_NO_STEP = r"(?!,? (?:as|for|to|als|für|zu[mr]?) (?:\w+ ){0,2}(?:valid|test|hold|dev|eval|check|fine|tun|prüf)\w*)"
_OURS = r"(?! (?:of|for|von|der|des) (?!it\b|(?:\w+ ){0,3}(?:model\w*|classifier|regressor|network|forecast\w*)\b))"
"""What must not follow on a version: `of the survey`."""
_NTH = r"(?:(?:second|2nd|another|next|newe?r?|zweite|weitere|neue)\w{0,2} (?:version|release)|version 2|v2)\b"
_MADE = r"make|build|train|create|release|produce|cut|ship|do|get|want|mach\w*|bau\w*|erstell\w*|trainier\w*"
_AGAIN = any_of(
    rf"(?:{_MADE}) (?:(?!if\b|whether\b)\w+ ){{0,2}}{_NTH}{_OURS}"
    rf"|{_NTH}{_OURS} (?:then |later )?(?:on|from|with|using|mit|aus)\b|(?:neu|nach|nochmals?|erneut) ?trainier\w*"
    r"|(?:re-?(?:train|fit)|train (?:it|them|the model)? ?(?:again|anew|once more))(?:ing)?\b"
    r"(?! or )(?! (?:\w+ ){0,3}(?:last|final|top|head|weights|seeds?|folds)\b)"
)
_ADDED = any_of(
    r"(?:(?:(?:add|append|includ|merg|extend|updat|refresh|redo|repeat|rerun|ergänz|füg|nimm)\w*"
    rf"|(?:do|fold|bring|take|mix|throw)(?:ing)? (?:in|it|th\w+)|same(?: thing)?) (?:\w+ ){{0,3}}(?:{_FILE}|{_NEW})"
    rf"|(?:learn (?:from|with)|use|with|mit) (?:\w+ ){{0,2}}{_NEW}|{_FILE} (?:hinzu|dazu|ergänz)\w*){_NO_STEP}"
)
"""New rows: another version where that is for later."""
_COMPARED = any_of(
    r"(?:compar(?:e|ing)|vergleich\w*) (?:(?:the|both|two|these|those|all|first|second|old|new|and|with|against|its|our"
    r"|model|to|die|beide\w*|der|mit|ersten?|zweiten?|v1) ){0,7}"
    rf"(?:(?:versions?|releases?|versionen)|v2)\b{_OURS}|(?:beide\w*|{_NTH}) (?:\w+ ){{0,5}}vergleich\w*"
    rf"|(?:{_NTH}|v2|it|the new one) (?:really |still )?(?:beats?|is better than|improves on|outperforms) "
    r"(?:v1|version 1|the (?:first|old|previous|last) (?:one|version|release|model)|the first)"
)
_BOTH = any_of(r"compar(?:e|ing) (?:both|the two|them|it (?:with|to) (?:v1|the first))|vergleich\w* (?:\w+ )?beide\w*"
               r"|beide\w* (?:\w+ ){0,3}vergleich\w*")  # fmt: skip
"""Two candidates of now, unless another version is asked for."""
_PROMOTED = any_of(
    r"promote (?:it|them|that|this|v\d|which\w*|what\w*|the (?:better|best|winn\w+|new\w*|second|first|released|model))"
    r"|promote\b(?= to production)|(?:put|take|bring|move)(?: (?!back)\w+){1,5} (?:in|to|into) (?:service|production)"
    r"|in produktion|(?:goes?|comes?|geht) (?:live|(?:in|into|to) production)"
)
_SCORED = any_of(
    r"(?:scor(?:e|ing)|evaluat(?:e|ing)|bewert\w*|(?:(?:check|try|prüf\w*) (?:it|them|both|es|sie|beide|v\d)"
    r"|(?:how|wie) (?:good|well|accurate|right|gut)\w*(?: \w+){0,4}?) (?:on|for|with|at|auf|für|mit))"
    rf" (?:(?!but|except|not|without|ohne|außer|nicht)\w+ ){{0,4}}{_FILE}"
)
_KINDS = {"again": _AGAIN, "added": _ADDED, "compared": _COMPARED, "both": _BOTH, "promoted": _PROMOTED,
          "scored": _SCORED}  # fmt: skip
_LATER = re.compile(
    r"(?:(?:^|(?<=[,;.:!?(\n\u2013])|(?<=\band)|(?<=\bund))\s{0,9}(?:and |und |but |please |bitte )?"
    r"(?:then|after that|in the next \w+|in a second step|at the end|finally|dann|anschließend|hinterher|zum schluss"
    r"|(?:once|when|as soon as|after|wenn|sobald) (?:[\w']+ ){0,6}?"
    r"(?:released?|done|out|finished|live|ready|shipped|trained|works|fertig|steht))"
    r"|\b(?:later(?: on)?(?! (?:than|in)\b)|afterwards|after (?:the )?(?:first )?release|eventually"
    r"|next (?:week|month|quarter|year)|später|danach))\b",
    re.IGNORECASE,
)
"""What begins the steps behind the first, with its clause: up to the end of the text."""
_CLAUSE = re.compile(r"[,;:(!?\n\u2013]|\.(?=\s)|\b(?:and|but|so|und|aber)\b", re.IGNORECASE)
_TOLD = any_of(
    r"who|which|whether|(?<!after |.once |.when )that|how|(?<=predict )if|ob|wer|welche\w*|instead of|rather than|statt"
)
"""Words of what is predicted, or done without, up to the end of their clause."""
_PUT_OFF = any_of(
    r"not (?:right )?(?:now|yet|today)(?!,? (?:but|only))|(?:nicht jetzt|noch nicht|nicht heute)(?!,? (?:sondern|erst))"
    r"|(?:separate|another|other|different|new|own|eigene\w*|andere\w*|neue\w*) pro[jy]e[ck]t"
)
"""What leaves a step to another day, or to another project."""
_NEAR = 160  # characters on either side that may deny a step


@dataclass(frozen=True)
class Later:
    """Steps that come after the release."""

    words: str
    begin: int
    """Where they begin in the text; they go to its end."""
    steps: frozenset[str]
    """Of `again` (another version), `compared`, `promoted` and `scored`; none where they are put off."""


def asked_later(text: str, given: str = "") -> Later | None:
    """Return the steps that a sentence names for after the release; None where it ends with one.

    Args:
        given: the data that are known from elsewhere, in any words: without them, files are left for later only where
            another one stands before.
    """
    clauses = [0, *(one.end() for one in _CLAUSE.finditer(text))]
    begins = {_clause(clauses, one.end()) for one in _LATER.finditer(text)}
    found = []
    for kind, one in ((kind, one) for kind, pattern in _KINDS.items() for one in pattern.finditer(text)):
        clause = _clause(clauses, one.start())
        before = text[max(clause, one.start() - _NEAR) : one.start()]
        if is_negated(before) or (kind != "compared" and _TOLD.search(before)):
            continue
        is_off = _PUT_OFF.search(text, one.start() - len(before), one.end() + _NEAR) is not None
        found.append((one.start(), kind, is_off))
        if kind in ("again", "compared") or (kind in ("promoted", "scored") and not before.strip()):
            begins.add(clause)
    least = _least(text, given)
    begin = min((one for one in begins if one >= least), default=len(text))
    behind = [one for one in found if one[0] >= begin]
    if not {kind for _, kind, _ in behind} - {"both"}:
        return None
    kinds = {kind for _, kind, is_off in behind if not is_off}
    if kinds & {"again", "added", "compared"}:
        kinds |= {"again", "compared"} if "both" in kinds else {"again"}
    return Later(text[begin:].strip(" ,;.:!?(\n\u2013"), begin, frozenset(kinds - {"added", "both"}))


def _least(text: str, given: str) -> int:
    """Return where later steps may begin: behind a first step, and the data for it."""
    step, file = re.match(r"\s*\S+\s+\S", text), FILES.search(text)  # `please` alone is no step
    least = len(text) if step is None else step.end()
    is_given = given and (not _names(given) or _names(given) - _names(text))
    return least if file is None or is_given else max(least, file.end())


def _names(text: str) -> set[str]:
    return {one.rstrip("/").rpartition("/")[2] for one in FILES.findall(text)}


def _clause(clauses: list[int], at: int) -> int:
    return clauses[bisect(clauses, at) - 1]
