"""Texts: their lengths, sentences of a few templates, and what looks like personal data."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import polars as pl

from trainwright.trainer.data.validation.check import ROW, Check, Context, Family, Finding
from trainwright.trainer.data.validation.report import MAX_ROWS, NotChecked, Verdict
from trainwright.trainer.data.validation.values import every_row, expected, severity_of, text

# Texts: their lengths, in characters of a column, and in tokens where the source makes tokens of them.

CHARACTERS_OF_A_TOKEN = 4
"""Of usual text with usual tokenizers; `bytes` and `characters` make one of each."""
MAX_CUT = 0.1
"""Share of texts longer than max_length from which a warning is worth it."""


class Texts(Family):
    """Lengths of texts."""

    name = "texts"

    def planned(self, context: Context) -> Iterable[Check]:
        """Yield the checks of expected lengths, and how many texts max_length cuts."""
        for column, one in expected(context).items():
            length = text(column).str.len_chars()
            remedy = f"Correct or drop these rows, or change the bounds of columns.{column}."
            what = f"texts of {column} are {{}} than (characters)"
            if one.length_at_least is not None:
                bad, least = length < one.length_at_least, one.length_at_least
                yield every_row(
                    "length_at_least", column, one, bad, bound=least, what=what.format("shorter"), remedy=remedy
                )
            if one.length_at_most is not None:
                bad, most = length > one.length_at_most, one.length_at_most
                yield every_row(
                    "length_at_most", column, one, bad, bound=most, what=what.format("longer"), remedy=remedy
                )
        yield from _cut(context)

    def left_out(self, context: Context) -> Iterable[NotChecked]:
        """Yield token lengths, where they can only be estimated."""
        column = context.options.get("text")
        if column in context.kinds and context.options.get("tokenizer", "bytes") not in {"bytes", "characters"}:
            why = f"estimated as {CHARACTERS_OF_A_TOKEN} characters a token: the tokenizer's own count takes too long"
            yield NotChecked(what=f"exact token lengths of {column}", why=why)


def _cut(context: Context) -> Iterable[Check]:
    column, most = context.options.get("text"), context.options.get("max_length", 128)
    if column not in context.kinds or not context.targets:
        return
    found = text(column)
    tokenizer = context.options.get("tokenizer", "bytes")
    lengths = found.str.len_bytes() if tokenizer == "bytes" else found.str.len_chars()
    if tokenizer not in {"bytes", "characters"}:
        lengths = lengths // CHARACTERS_OF_A_TOKEN
    bad = (lengths > most).fill_null(value=False)
    asks = {"tokens": bad.sum(), "rows": pl.len(), "longest": lengths.max()}
    severity = severity_of(context, "tokens", "warning")
    yield Check("tokens", column, severity, asks, partial(_judge_cut, column, most), offending=bad)


def _judge_cut(column: str, most: int, asked: Mapping[str, Any]) -> Finding:
    count, rows, longest = int(asked["tokens"] or 0), int(asked["rows"]), int(asked["longest"] or 0)
    told = f"{count} of {rows} texts of {column} have more than max_length = {most} tokens; the longest has {longest}"
    remedy = f"Raise data.args.max_length (the model's memory grows with it), or accept that {count} texts are cut."
    return Finding(count <= MAX_CUT * max(rows, 1), count, most, count, told, remedy)


# Templates: texts that are a few sentences with other words filled in, as generated questions are.
#
# Rows of one template in train and test are almost one another: what is measured then is how well blanks are filled in.

FIRST = 5000
"""Rows that are looked at."""
MIN_ROWS = 40
COMMON = 0.05
"""Share of the texts that have a word of a template."""
MIN_WORDS = 3
FIXED = 0.4
"""Share of a text's words that are its template's, at least."""
OF_TEMPLATE, OF_ALL = 0.02, 0.5
"""Shares of the texts that follow one template, and any, at least."""
GAP = "…"
WORD = re.compile(r"[^\W\d_]+", re.UNICODE)


class Templates(Family):
    """Columns of texts that follow a few templates."""

    name = "templates"

    def found(self, context: Context) -> Iterable[Verdict]:
        """Yield a verdict for each column of such texts."""
        for column in [name for name, kind in context.kinds.items() if kind == "text" and name not in context.targets]:
            frame = context.frame.select(text(column).alias("text")).head(FIRST).collect(engine="streaming")
            found = templates_of([cell for cell in frame["text"].to_list() if cell])
            if not found:
                continue
            rows, first = sum(found.values()), max(found, key=found.__getitem__)
            yield Verdict(
                family=self.name, name="templates", column=column, severity=severity_of(context, "templates", "info"),
                passed=False, value=len(found), count=rows,
                text=f"{rows} of {frame.height} texts of {column} follow {len(found)} template(s), such as {first!r}.",
                remedy="Rows of one template in train and test are almost one another. If others are to be "
                "answered, keep each template in one split: a column that names it, and data.split {by: group}.",
            )  # fmt: skip


def templates_of(texts: Sequence[str]) -> dict[str, int]:
    """Return how many of the texts follow each template, its blanks as `…`; nothing where most follow none."""
    if len(texts) < MIN_ROWS:
        return {}
    words = [WORD.findall(one.casefold()) for one in texts]
    counts = Counter(word for of_text in words for word in set(of_text))
    common = {word for word, count in counts.items() if count >= COMMON * len(texts)}
    skeletons = Counter(filter(None, (_skeleton(of_text, common) for of_text in words)))
    found = {one: count for one, count in skeletons.items() if count >= max(5, OF_TEMPLATE * len(texts))}
    blanks = {one: count for one, count in found.items() if GAP in one}
    return blanks if sum(blanks.values()) >= OF_ALL * len(texts) else {}


def _skeleton(words: Sequence[str], common: set[str]) -> str:
    """Return a text's common words with a mark for each gap; empty where they are too few of it."""
    kept = [word if word in common else GAP for word in words]
    fixed = sum(word != GAP for word in kept)
    if fixed < MIN_WORDS or fixed < FIXED * len(words):
        return ""
    return " ".join(word for place, word in enumerate(kept) if word != GAP or kept[place - 1 : place] != [GAP])


# Hint at personal data: cells like mail addresses, telephone numbers, bank accounts or cards, and columns of names.
#
# Accounts and cards count where their check digits fit (ISO 7064 for IBAN, Luhn for cards), so that chance gives few.

READ = 5_000
"""Rows whose texts are read: the first ones."""
MIN_SHARE = 0.01
MIN_CELLS = 2
MAIL = re.compile(r"(?<![\w.+-])[\w.+-]+@[\w-]+\.[\w.-]*[a-z]{2,}", re.IGNORECASE)
PHONE = re.compile(r"(?<![\w.])(?:\+\d{1,3}[ /.-]?|\(?0\d{1,4}\)?[ /.-])(?:\d[ /.-]?){6,12}(?![\w.])")
ACCOUNT = re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]){11,30}\b")
CARD = re.compile(r"(?<!\d)(?:\d[ -]?){13,19}(?!\d)")
NAMES = re.compile(
    r"(^|_)(first|last|full|sur|family|given|maiden)?_?name$|(^|_)(birth_?(day|date)|dob|ssn|passport|street|address|"
    r"ip_?address)(_|$)",
    re.IGNORECASE,
)


class Personal(Family):
    """Personal data that the columns may hold."""

    name = "personal"

    def found(self, context: Context) -> Iterable[Verdict]:
        """Yield a verdict for each column and kind of personal data."""
        texts = [column for column, kind in context.kinds.items() if kind == "text"]
        rows = context.numbered.select(ROW, *texts).head(READ).collect() if texts else None
        for column in context.kinds:
            if NAMES.search(column):
                yield _verdict(context, column, "named as personal data", [], 0)
            elif rows is not None and column in texts:
                yield from _in_cells(context, column, rows)


def _in_cells(context: Context, column: str, rows: pl.DataFrame) -> Iterable[Verdict]:
    cells = rows.select(ROW, column).drop_nulls().rows()
    for what, holds in HELD.items():
        found = [number for number, cell in cells if holds(str(cell))]
        if len(found) >= max(MIN_CELLS, MIN_SHARE * len(cells)):
            yield _verdict(context, column, what, found, len(found))


def is_account(text: str) -> bool:
    """Return whether an IBAN with the right check digits is in a text."""
    for match in ACCOUNT.findall(text):
        plain = match.replace(" ", "")
        if len(plain) <= 34 and int("".join(str(int(one, 36)) for one in plain[4:] + plain[:4])) % 97 == 1:
            return True
    return False


def is_card(text: str) -> bool:
    """Return whether a card's number with the right check digit is in a text."""
    return any(_luhn([int(one) for one in match if one.isdigit()]) for match in CARD.findall(text))


def _luhn(digits: list[int]) -> bool:
    doubled = [digit * 2 - 9 * (digit > 4) if place % 2 else digit for place, digit in enumerate(reversed(digits))]
    return len(digits) >= 13 and len(set(digits)) > 2 and digits[0] in {2, 3, 4, 5, 6} and sum(doubled) % 10 == 0


HELD: dict[str, Callable[[str], bool]] = {
    "mail addresses": lambda text: MAIL.search(text) is not None,
    "bank accounts": is_account,
    "card numbers": is_card,
    "telephone numbers": lambda text: PHONE.search(text) is not None and not is_card(text),
}


def _verdict(context: Context, column: str, what: str, rows: list[int], count: int) -> Verdict:
    told = f"{column} looks like personal data ({what}{f', in {count} of the first {READ} rows' if count else ''})"
    return Verdict(
        family=Personal.name,
        name="personal",
        column=column,
        severity=severity_of(context, "personal", "info"),
        passed=False,
        value=count,
        bound=0,
        count=count,
        rows=rows[:MAX_ROWS],
        text=told,
        remedy=f"If no model needs {column}, leave it out of the file; the row numbers name no person.",
    )
