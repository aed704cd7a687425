"""Hint at personal data: cells like mail addresses, telephone numbers, bank accounts or cards, and columns of names.

Accounts and cards count where their check digits fit (ISO 7064 for IBAN, Luhn for cards), so that chance gives few.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import polars as pl

from trainwright.trainer.data.validation.check import ROW, Context, Family
from trainwright.trainer.data.validation.report import MAX_ROWS, Verdict
from trainwright.trainer.data.validation.values import severity_of

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
