"""Steps that a sentence names for after the release: `then add new_cases.csv and make a second version`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from trainwright.trainer.config.goal_words import any_of
from trainwright.trainer.config.search_words import is_negated

_ENDINGS = r"(?:csv|tsv|jsonl?|ndjson|parquet|arrow|orc|xlsx?|txt)(?:\.gz)?"
FILES = re.compile(rf"(?<![\w/.-])[\w.-][\w./-]*(?:\.{_ENDINGS}\b(?!\.\w)|/(?![\w.-]))")
"""Names of files of data, and of folders with a slash behind them, in a sentence."""
_FILE = rf"(?!(?:[\w/-]*[/_-])?(?:train|val|valid|validation|dev|test|holdout)\b)[\w.-][\w./-]*\.{_ENDINGS}\b"
"""A file that is named for no split."""
_NEW = (
    r"(?:new(?:er|est)?|fresh(?:er)?|more|additional|later|further|latest|neue\w*|weitere\w*|frische\w*) (?:\w+ )?"
    r"(?:rows|cases|data|samples|examples|records|ones|zeilen|fälle\w*|daten)\b(?! augment)"
)
_MATTER = rf"(?:\w+ ){{0,3}}(?:{_FILE}|{_NEW})"
_NO_STEP = r"(?!,? (?:as|for|to|als|für|zu[mr]?) (?:\w+ ){0,2}(?:valid|test|hold|dev|eval|check|fine|tun|prüf)\w*)"
_OURS = (
    r"(?! (?:of|from|for|von|der|des) (?!it\b|(?:\w+ ){0,3}(?:model\w*|classifier|regressor|network|forecast\w*)\b))"
)
"""What must not follow on a version: `of the survey`."""
_NTH = r"(?:(?:second|2nd|another|next|new|newer|zweite|weitere|neue)\w{0,2} (?:version|release|one)|version 2|v2)\b"
_MADE = r"make|build|train|create|release|produce|cut|ship|do|get|want|mach\w*|bau\w*|erstell\w*|trainier\w*"
_ANEW = rf"{_NTH}{_OURS}(?! (?:with|using|on|mit) \w+ (?:layers?|seeds?|features|columns))"
_AGAIN = any_of(
    rf"(?:{_MADE}) (?:(?!if\b|whether\b)\w+ ){{0,2}}{_ANEW}|{_ANEW} (?:then |later )?(?:on|from|with|using|mit|aus)\b"
    r"|(?:re-?(?:train|fit)|train (?:it|them|the model)? ?(?:again|anew|once more))(?:ing)?\b(?! or )"
    r"(?! (?:only |just )?(?:the )?(?:last|final|top|head|layers?|weights)\b)(?![^.;]{0,25}\b(?:seeds?|folds)\b)"
    r"|(?:neu|nach|nochmals?|erneut) ?trainier\w*"
    r"|(?:update|refresh|extend|redo|repeat|rerun|do|(?=(?:the )?same thing)) ?"
    r"(?:it |them |that |this |(?:the )?(?:same(?: thing)?|model|training) |v1 )?"
    rf"(?:again )?(?:with|on|for|using|by adding) {_MATTER}{_NO_STEP}"
)
_ADDED = any_of(
    r"(?:add|append|include|take in|fold in|bring in|mix in|throw in|learn (?:from|with)|use|with|mit|ergänz\w*|füg\w*"
    rf"|nimm) (?:\w+ ){{0,2}}{_NEW}{_NO_STEP}"
    r"|(?:add|append|include|fold in|bring in|take in|mix in|throw in|merge|ergänz\w*|füg\w*|nimm)(?:ing)? "
    rf"(?:in )?{_MATTER}{_NO_STEP}|{_FILE} (?:hinzu|dazu|ergänz)\w*{_NO_STEP}"
)
_VERSIONS = (
    r"(?:(?:the|both|two|these|those|all|first|second|old|new|and|with|against|its|our|model|to|die|beide\w*|der|mit"
    rf"|ersten?|zweiten?|v1) ){{0,7}}(?:(?:versions?|releases?|versionen)|v2)\b{_OURS}"
)
_VERSIONS_HELD = any_of(
    rf"(?:compar(?:e|ing)|vergleich\w*) {_VERSIONS}|(?:beide\w*|{_NTH}) (?:\w+ ){{0,5}}vergleich\w*"
    rf"|(?:{_NTH}|v2|it|the new one) (?:really |still )?(?:beats?|is better than|improves on|outperforms) "
    r"(?:v1|version 1|the (?:first|old|previous|last) (?:one|version|release|model)|the first)"
)
_BOTH = any_of(r"compar(?:e|ing) (?:both|the two|them|it (?:with|to) (?:v1|the first))|vergleich\w* (?:\w+ )?beide\w*"
               r"|beide\w* (?:\w+ ){0,3}vergleich\w*")  # fmt: skip
"""Two candidates of now, unless another version is asked for."""
_IN_USE = any_of(
    r"promote (?:it|them|that|this|v\d|which\w*|what\w*|the (?:better|best|winn\w+|new\w*|second|first|released|model))"
    r"|promote\b(?= to production)|(?:put|take|bring|move|roll)(?: \w+){1,5} (?:in|into|to) (?:production|service)"
    r"|roll\w*[ -]?back|in produktion|(?:goes?|comes?|geht) (?:live|(?:in|into|to) production)"
)
_SCORED = any_of(
    rf"(?:scor(?:e|ing)|evaluat(?:e|ing)|check|try|bewert\w*|prüf\w*) {_MATTER}"
    rf"|(?:how|wie) (?:good|well|accurate|right|gut)\w* (?:\w+ ){{0,4}}(?:on|for|with|at|auf|für|mit) {_MATTER}"
)
_BEGINS = re.compile(
    r"(?:^|(?<=[,;.:!?(\n\u2013])|(?<=\band)|(?<=\bund))\s*(?:and |und |but |please |bitte )?"
    r"(?:then|after(?:wards?|(?: that)|(?: the (?:first )?release))|later(?: on)?|eventually|(?:in |the )?next \w+"
    r"|(?:once|when|as soon as|after|wenn|sobald) (?:[\w']+ ){0,6}?"
    r"(?:released?|done|out|finished|live|ready|shipped|trained|works|fertig|steht)"
    r"|in a second step|at the end|finally|dann|danach|später|anschließend|hinterher|zum schluss)\b",
    re.IGNORECASE,
)
"""What begins the steps behind the first: up to the end of the text."""
_LATER = any_of(
    r"later(?: on)?(?! (?:than|in)\b)|afterwards|after (?:the )?release|eventually|next (?:week|month|quarter|year)"
    r"|später|danach"
)
"""What makes a step of any part of a sentence a later one."""
_CLAUSE = re.compile(r"[,;:(!?\n]|\.(?=\s)|\b(?:and|but|so|und|aber)\b", re.IGNORECASE)
_ALSO = re.compile(rf"\s*(?:,|and|und)+\s*(?:the )?{FILES.pattern}", re.IGNORECASE)
_ORDERS = re.compile(r"\s*(?:please |bitte |also )*$", re.IGNORECASE)
_TOLD = any_of(r"who|which|whether|(?<!after )that|how|(?<=predict )if|ob|wer|welche\w*")
"""Words of what is predicted, up to the end of their clause."""
_BREAK = re.compile(r"[;!?]|\.(?=\s)|, (?=then|please|and)")


@dataclass(frozen=True)
class Later:
    """Steps that come after the release."""

    words: str
    begin: int
    """Where they begin in the text; they go to its end."""
    is_again: bool
    """Another version is asked for."""
    is_compared: bool
    """Two versions are to be held beside each other."""
    is_promoted: bool
    """A version is to be put in use, or taken back."""
    scored: str
    """A file that the version is to be evaluated on; empty for none."""
    added: tuple[str, ...]
    """Files that the other version is to learn from too."""


def asked_later(text: str, given: str = "") -> Later | None:
    """Return the steps that a sentence names for after the release; None where it ends with one.

    Args:
        given: the data that are known from elsewhere, in any words: without them, files are left for later only where
            another one stands before.
    """
    for begin in sorted({*_begins(text)}):
        again = _wanted(_AGAIN, text, begin) or _wanted(_ADDED, text, begin)
        held = _wanted(_VERSIONS_HELD, text, begin)
        both, in_use = held or (again and _wanted(_BOTH, text, begin)), _wanted(_IN_USE, text, begin)
        scored = next((FILES.findall(one[0])[-1:] for one in _asked(_SCORED, text, begin) if FILES.search(one[0])), [])
        if (again or both or in_use or scored) and _has_first(text, begin, given):
            words = text[begin:].strip(" ,;.:!?(\n\u2013")
            return Later(words, begin, again or held, both, in_use, "".join(scored), _added(text, begin) or (*scored,))
    return None


def _added(text: str, begin: int) -> tuple[str, ...]:
    """Return the files of the clauses that ask for another version or new rows, and those listed behind."""
    found = []
    for one in (one for kind in (_AGAIN, _ADDED) for one in _asked(kind, text, begin)):
        end = _clause_end(text, one.end())
        while more := _ALSO.match(text, end):
            end = _clause_end(text, more.end())
        found += FILES.findall(text[one.start() : end])
    return tuple(dict.fromkeys(found))


def _clause_end(text: str, at: int) -> int:
    return next((one.start() for one in _CLAUSE.finditer(text, at)), len(text))


def _begins(text: str) -> Iterator[int]:
    """Yield where later steps may begin: behind `then`, with another version, or with a clause that says `later`."""
    yield from (one.start() for one in _BEGINS.finditer(text))
    yield from (_clause(text, one.start()) for kind in (_AGAIN, _VERSIONS_HELD) for one in kind.finditer(text))
    for one in _LATER.finditer(text):
        yield _clause(text, one.start())
    for one in (one for kind in (_IN_USE, _SCORED) for one in kind.finditer(text)):
        begin = _clause(text, one.start())
        if _ORDERS.match(text[begin : one.start()]):
            yield begin


def _has_first(text: str, begin: int, given: str) -> bool:
    """Whether a first step stands before, and data for it."""
    if len(text[:begin].split()) < 2:  # `please` alone is no step
        return False
    behind = _names(text[begin:])
    return bool(_names(text[:begin]) or not behind or (given and (not _names(given) or _names(given) - behind)))


def _names(text: str) -> set[str]:
    return {PurePosixPath(one).name for one in FILES.findall(text)}


def _clause(text: str, at: int) -> int:
    return max((one.end() for one in _CLAUSE.finditer(text[:at])), default=0)


def _wanted(kind: re.Pattern[str], text: str, begin: int) -> bool:
    return any(True for _ in _asked(kind, text, begin))


def _asked(kind: re.Pattern[str], text: str, begin: int) -> Iterator[re.Match[str]]:
    """Yield what of a kind stands behind, is not negated, and no part of what is predicted."""
    opener = _BEGINS.match(text, begin)
    first = opener.end() if opener is not None else begin
    for one in kind.finditer(text, first):
        before = text[first : one.start()]
        if not is_negated(before) and (kind is _VERSIONS_HELD or not _TOLD.search(_BREAK.split(before)[-1])):
            yield one
