"""Scan of a text for secrets: those known by their form, values of names that say so, and random words.

Found is what a mistake leaves behind; someone who hides a secret on purpose can. What looks random and is none
(digests, UUIDs, pictures, lock files, placeholders) is a closed list of forms, `INNOCENT`.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.base.secret_kinds import PLACEHOLDER, STANDS_FOR, Place, known_in


class Finding(NamedTuple):
    """A secret in a text: where it starts (line from 1) and of what kind it is; never the secret."""

    line: int
    kind: str


INNOCENT = re.compile(
    r"""
      (?:data:[\w/+.;=-]*;base64,|(?<![\w+/])(?:iVBORw0KGgo|/9j/|R0lGOD|UklGR|Qk0|SUkq|PHN2Zy))[A-Za-z0-9+/=]+
        (?:\n[A-Za-z0-9+/]{60,}={0,2})*(?:\n[A-Za-z0-9+/]+={0,2}(?=\n|$))?           # pictures, also in lines
    | -----BEGIN\ (?:[A-Z0-9]+\ )*(?:PUBLIC\ KEY|CERTIFICATE|CERTIFICATE\ REQUEST|SIGNATURE)-----[^-]*-----END
    | \b(?:sb_publishable|pk_(?:live|test))_[\w-]+                                 # keys made for browsers
    | \b(?:ssh-\w+|ecdsa-[\w-]+)\ AAAA[\w+/=]+                                      # a public key
    | (?i:\b(?:blake3|blake2[bs]|sha-?(?:1|224|256|384|512)|md5|integrity|checksum|digest|fingerprint|h1)
        ["']?\s*[:=_-]{1,2}\s*["']?)[A-Za-z0-9+/_-]{20,}={0,2}                       # digests that say so
    | (?<![0-9A-Za-z])[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}(?![0-9A-Za-z])  # UUIDs
    | (?<![\w+/=])[A-Za-z0-9+/]{60,}={0,2}[\s"'+\\,]*\n(?:[\s"'+,]*[A-Za-z0-9+/]{60,}[\s"'+\\,]*\n)+
        (?:[\s"'+,]*[A-Za-z0-9+/]+={0,2})?                                          # lines of base64: files
    """,
    re.VERBOSE,
)
WORD = re.compile(r"[A-Za-z0-9+/_-]{24,}={0,2}")
HEX = re.compile(r"(?:0[xX])?(?:[0-9a-f]+|[0-9A-F]+)")
CLASSES = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
NAMED = re.compile(
    r"""(?ix)
    \b(?P<name>[\w.-]*?(?:key|token|secret|passw(?:or)?d|passwd|pwd|credentials?|passphrase))(?:_?(?:value|hex|b64|base64))?
    ["'`]?\s*(?::\s*(?:str|string)\s*=|[:=]>?|\|)\s*(?P<quote>["'`]?)(?P<value>[^\s"'`,;|<>]{8,})
    """
)
"""A name that says that its value is a secret, and the value."""
NO_SECRET_NAME = re.compile(
    r"(?i)(?:public|primary|foreign|sort|cache|group|partition|routing|idempotency|publishable|run|anchor|dedup)"
    r"[\w.-]*key$|(?:pad|eos|bos|unk|mask|sep|cls|special)[\w.-]*token$|monkey|turkey|keyword"
)
PASSWORD_NAME = re.compile(r"(?i)(?:passw(?:or)?d|passwd|pwd|passphrase)$")
SHORTEST_HEX, LONGEST_RANDOM = 32, 128
"""Characters: a named hexadecimal key from the first on; above the second a word is a file's content."""
REMEDY = (
    "Put the secret into an environment variable, and name that variable or a placeholder such as "
    "`churn_prod_your_key_here` where it stands now; if it was real, revoke it. Then make the same call again."
)


def found_secrets(text: str) -> list[Finding]:
    """Return a text's secrets in the order of its lines: of a line every known kind, or else the first of GENERIC."""
    kinds: dict[int, set[str]] = defaultdict(set)
    for place in _places(text):
        kinds[text.count("\n", 0, place.start) + 1].add(place.kind)
    return [
        Finding(line, kind)
        for line in sorted(kinds)
        for kind in sorted(kinds[line].difference(GENERIC)) or [min(kinds[line], key=GENERIC.index)]
    ]


def masked(text: str, *, keeps_random: bool = False) -> str:
    """Return a text with every secret in it as `***`: for reports, which state what was and close no gate.

    Args:
        keeps_random: whether random words stay, as in a configuration whose values were looked at when they came in.
    """
    places = [place for place in _places(text) if not (keeps_random and place.kind == RANDOM_KIND)]
    done, parts = 0, []
    for start, end, _ in sorted(places):
        if start >= done:
            parts += [text[done:start], "***"]
        done = max(done, end)
    return "".join([*parts, text[done:]])


def masked_values(value: Any, *names: str) -> Any:
    """Return a JSON value with every secret in its texts as `***`, by their names too; random words stay.

    Called before the value is written: an escape before a secret (`\\n`, `\\u003c`) looks like a part of its word.

    Args:
        names: of the value, and of those around it that say secret (`{"password": {"value": …}}`).
    """
    if isinstance(value, dict):
        above = [name for name in names if NAMED.match(f"{name}: {'x' * 8}")]
        return {masked_values(key): masked_values(one, *above, str(key)) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [masked_values(one, *names) for one in value]
    for beginning in [f"{name}: " for name in names or ("",)] if isinstance(value, str) else ():
        value = masked(beginning + value, keeps_random=True).removeprefix(beginning)
    return value


def _places(text: str) -> list[Place]:
    suspected = [*_named(text), *_random(text)]
    if suspected:  # most texts have none, and what is innocent takes longest to find
        plain = INNOCENT.sub(lambda match: re.sub(r"\S", " ", match[0]), text)
        suspected = [*_named(plain), *_random(plain)]
    return [*known_in(text), *suspected]


NAMED_KIND, PASSWORD_KIND, RANDOM_KIND = "value of a name that says secret", "password", "random string"
GENERIC = (PASSWORD_KIND, NAMED_KIND, RANDOM_KIND)
"""Kinds that are not reported beside one that says more of the same line, the most particular one first."""


def _named(text: str) -> Iterator[Place]:
    """Yield values whose names say that they are secrets, unless they are code, words or variables."""
    for match in NAMED.finditer(text):
        name, value = match["name"], match["value"]
        if NO_SECRET_NAME.search(name) or STANDS_FOR.match(value) or PLACEHOLDER.search(value):
            continue
        if PASSWORD_NAME.search(name):
            if _is_password(value, is_quoted=bool(match["quote"])):
                yield Place(*match.span("value"), PASSWORD_KIND)
        elif is_random(value.rstrip(")]}"), is_named=True):
            yield Place(*match.span("value"), NAMED_KIND)


def _is_password(value: str, *, is_quoted: bool) -> bool:
    """Whether a password's value is one: no call, no variable, and no plain word."""
    if re.search(r"[(\[{]|^\w+(?:\.\w+)+$", value) and not is_quoted:
        return False
    kinds = (
        re.search(r"[a-z]", value),
        re.search(r"[A-Z]", value),
        re.search(r"\d", value),
        re.search(r"[^\w.]", value),
    )
    return sum(kind is not None for kind in kinds) >= 3


def _random(text: str) -> Iterator[Place]:
    """Yield every word that looks drawn at random."""
    for match in WORD.finditer(text):
        if len(match[0]) <= LONGEST_RANDOM and not PLACEHOLDER.search(match[0]) and is_random(match[0]):
            yield Place(*match.span(), RANDOM_KIND)


def is_random(word: str, *, is_named: bool = False) -> bool:
    """Whether a word looks drawn at random: its letters and digits alternate as in no name, path, number or date.

    Args:
        is_named: whether the name before it says that it is a secret: then it may be shorter, or hexadecimal.
    """
    if HEX.fullmatch(word):
        return is_named and len(word) >= SHORTEST_HEX and entropy_bits(word) > 3
    parts = [part for part in re.split(r"[^A-Za-z0-9]+", word) if part and (is_named or not HEX.fullmatch(part))]
    longest = max(parts, key=len, default="")
    if len(longest) < (10 if is_named else 16):
        return False
    needed = ("[A-Za-z]", "[0-9]") if is_named else ("[a-z]", "[A-Z]", "[0-9]")
    if not all(re.search(kind, word) for kind in needed):
        return False
    return _run_length(longest) < 3.2 and entropy_bits(word) > (3.0 if is_named else 3.9)


def _run_length(word: str) -> float:
    """Return the mean length of stretches of a kind: 2.2 in random words, above 3 in names of several words."""
    return len(word) / max(1, len(CLASSES.findall(word)))


def entropy_bits(word: str) -> float:
    """Return Shannon's entropy of a word's characters, in bits a character."""
    counts = Counter(word).values()
    return -sum(count / len(word) * math.log2(count / len(word)) for count in counts)


def require_no_secrets(texts: Mapping[str, str]) -> None:
    """Refuse texts that are about to be written, by the names of their files.

    Raises:
        ConfigurationError: one of them holds a secret; named are file, line and kind of the first, and how many more.
    """
    found = [(name, finding) for name, text in texts.items() for finding in found_secrets(text)]
    if not found:
        return
    name, first = found[0]
    more = f", and {len(found) - 1} more" if len(found) > 1 else ""
    raise ConfigurationError(
        f"Nothing was written: line {first.line} of {name} would hold a secret ({first.kind}){more}; "
        "generated files hold placeholders and names of environment variables only.",
        remedy=REMEDY,
        details={"secrets": [{"file": file, "line": one.line, "kind": one.kind} for file, one in found[:20]]},
    )
