"""Steps that a sentence names for after the release: `then add new_cases.csv and make a second version`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from trainwright.trainer.config.goal_words import any_of
from trainwright.trainer.config.search_words import is_negated

_ANOTHER = r"(?:(?:second|2nd|another|next|new|newer|zweite|weitere|neue)\w{0,2} (?:version|release)|version 2|v2)"
_AGAIN = any_of(
    rf"(?:make|build|train|create|release|produce|cut|mach\w*|bau\w*|erstell\w*|trainier\w*) (?:\w+ )?{_ANOTHER}"
    r"|re-?train(?:ing)?(?! (?:and|or) )|train (?:it |the model )?(?:again|anew)|(?:neu|nach)trainier\w*"
)
_BOTH = any_of(
    r"(?:compare|vergleich\w*) (?:(?:both|the two|beide)\b|(?:\w+ ){0,4}(?:versions?|releases?|versionen)\b)"
    rf"|(?:beide\w*|{_ANOTHER}) (?:\w+ ){{0,5}}vergleich\w*"
)
_IN_USE = any_of(
    r"promot\w+|(?:put|take|bring)\w* (?:\w+ ){0,4}(?:in|into|to) (?:production|service)|roll\w*[ -]?back|in produktion"
)
_ADDED = any_of(
    r"(?:add|append|include|take in|use|learn (?:from|with)|with|mit|ergänz\w*) (?:\w+ ){0,2}"
    r"(?:new|newer|more|additional|later|neue\w*|weitere\w*) (?:\w+ )?"
    r"(?:rows|cases|data|samples|examples|records|zeilen|fälle\w*|daten)"
    r"|(?:add|append|include) (?:the )?[\w./-]+\.\w+"
)
_BEGINS = re.compile(
    r"(?:^|(?<=[,;.:!?(\n\u2013])|(?<=\band)|(?<=\bund))\s*(?:and |und )?"
    r"(?:then|after(?:wards?|(?: that)|(?: the (?:first )?release))|later(?: on)?|once [\w ]{0,30}(?:released|done)"
    r"|in a second step|at the end|finally|dann|danach|später|anschließend|hinterher|zum schluss)\b",
    re.IGNORECASE,
)
"""What begins the steps behind the first: up to the end of the text."""
_CLAUSE = re.compile(r"[,;:(!?\n]|\.(?=\s)|\b(?:and|but|und|aber)\b", re.IGNORECASE)


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


def asked_later(text: str) -> Later | None:
    """Return the steps that a sentence names for after the release; None where it ends with one."""
    begins = [one.start() for one in _BEGINS.finditer(text)]
    begins += [_clause(text, found.start()) for kind in (_AGAIN, _BOTH) for found in kind.finditer(text)]
    for begin in sorted(begins):
        part = text[begin:]
        again = _wanted(_AGAIN, text, begin) or _wanted(_ADDED, text, begin)
        both, in_use = _wanted(_BOTH, text, begin), _wanted(_IN_USE, text, begin)
        if again or both or in_use:
            return Later(part.strip(" ,;.:!?(\n\u2013"), begin, again or both, both, in_use)
    return None


def _clause(text: str, at: int) -> int:
    return max((one.end() for one in _CLAUSE.finditer(text[:at])), default=0)


def _wanted(kind: re.Pattern[str], text: str, begin: int) -> bool:
    return any(not is_negated(text[begin : one.start()]) for one in kind.finditer(text, begin))
