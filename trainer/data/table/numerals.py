"""Marks of the numbers in a column: its decimal mark, that of thousands, its unit; settled by all of its cells.

A comma or point that is followed by three digits may be either mark. What settles it, in this order: other cells of
the column, how its cells without a mark look, the file's other columns, the delimiter. What nothing settles is asked.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from trainwright.trainer.data.table.transform import NUMBER, PLAIN

OTHER = {",": ".", ".": ","}
FEW_WITHOUT = 0.3
"""Share of cells without the unit that all others have, from which the unit is none."""


@dataclass(frozen=True)
class Marks:
    """How a column's numbers are written."""

    decimal: str = "."
    thousands: str | None = None
    unit: str | None = None
    is_proven: bool = False
    """Whether the column itself tells its decimal mark from that of thousands."""
    doubt: str | None = None
    """A cell that may be read in two ways, where nothing in the column settles it."""

    def settled(self, decimal: str | None) -> Marks:
        """Return the marks with a doubt resolved by the decimal mark that other columns have, or the user says."""
        if decimal is None or self.is_proven:
            return self
        thousands = self.thousands or (OTHER[decimal] if self.doubt or decimal == "," else None)
        return replace(self, decimal=decimal, thousands=thousands, doubt=None, is_proven=self.doubt is not None)

    def told(self) -> str:
        """Return the marks in words, for the reason of a column; empty for plain numbers."""
        names = {",": "commas", ".": "points", " ": "spaces", "'": "apostrophes"}
        parts = [
            "with a decimal comma" if self.decimal == "," and self.is_proven else "",
            f"thousands set off by {names[self.thousands]}" if self.thousands and self.is_proven else "",
            f"in {self.unit}" if self.unit else "",
        ]
        return ", ".join(filter(None, parts))


def marks_of(texts: Iterable[str]) -> Marks | None:
    """Return the marks of a column's cells; None where they are no numbers, or of several units."""
    found = [one for text in texts if (one := NUMBER.fullmatch(text.translate(PLAIN))) is not None]
    units = Counter(one["before"] or one["after"] for one in found)
    unit, is_one = _one_unit(units)
    digits = [one["digits"].rstrip() for one in found]
    if not found or not is_one or _are_phones(digits):
        return None
    return replace(_separators(digits), unit=unit)


def _are_phones(digits: Sequence[str]) -> bool:
    """Return whether spaces group all of many numbers, of equal length: nobody writes amounts so."""
    sizes = {sum(map(str.isdigit, number)) for number in digits}
    return all(" " in number for number in digits) and len(sizes) == 1 and min(sizes) > 6


def _one_unit(units: Counter[str | None]) -> tuple[str | None, bool]:
    """Return the one unit of all cells, which a few may lack; and whether there is no more than one."""
    named = {unit: count for unit, count in units.items() if unit is not None}
    if not named:
        return None, True
    unit, most = max(named.items(), key=lambda one: one[1])
    total = sum(units.values())
    if sum(named.values()) - most > 0.05 * total:
        return None, False
    bare = units[None]
    may_lack = unit != "%" or not bare  # 45% beside 0.45: nobody knows
    return (unit, may_lack) if bare <= FEW_WITHOUT * total or not may_lack else (None, most <= 0.05 * total)


def _separators(digits: Sequence[str]) -> Marks:
    """Return the marks between digits."""
    proofs: Counter[tuple[str, str]] = Counter()
    doubts: dict[str, list[str]] = {",": [], ".": []}
    for number in digits:
        for mark, role in _roles(number):
            if role == "either":
                doubts[mark].append(number)
            else:
                proofs[mark, role] += 1
    decimal = _more(proofs, "decimal")
    thousands = next((mark for mark in " '" if proofs[mark, "thousands"]), None) or _more(proofs, "thousands")
    if decimal is None and thousands in OTHER:
        decimal = OTHER[thousands]
    if thousands is None and decimal in OTHER and doubts[OTHER[decimal]]:
        thousands = OTHER[decimal]
    if decimal is not None:
        return Marks(decimal, thousands if thousands != decimal else None, is_proven=True)
    for mark in ",.":
        if doubts[mark]:
            return _doubted(mark, doubts[mark], digits, thousands)
    return Marks(".", thousands, is_proven=thousands is not None)


def _more(proofs: Counter[tuple[str, str]], role: str) -> str | None:
    """Return the mark, comma or point, that more cells prove in this role than in the other."""
    other = "thousands" if role == "decimal" else "decimal"
    sure = [mark for mark in ",." if proofs[mark, role] > proofs[mark, other]]
    return max(sure, key=lambda mark: proofs[mark, role]) if sure else None


def _roles(number: str) -> Iterable[tuple[str, str]]:
    """Yield what each mark of a number is: decimal, thousands or either."""
    marks = re.findall(r"[ ',.]", number)
    last = marks[-1] if marks else ""
    for mark in dict.fromkeys(marks):
        if mark in " '" or marks.count(mark) > 1 or mark != last:
            yield mark, "thousands"
            continue
        head, _, tail = number.rpartition(mark)
        if len(dict.fromkeys(marks)) > 1 or len(tail) != 3 or head.startswith("0") or not 1 <= len(head) <= 3:
            yield mark, "decimal"
        else:
            yield mark, "either"


def _doubted(mark: str, doubted: list[str], digits: Sequence[str], thousands: str | None) -> Marks:
    """Return the marks where each cell with a comma (or point) has three digits behind it, one to three before it."""
    plain = [number for number in digits if number.isdigit()]
    no_thousand = len(plain) >= 2 and max(map(len, plain)) <= 3
    if thousands is not None:  # spaces or apostrophes set them off
        return Marks(mark, thousands, is_proven=True)
    if no_thousand and mark == ",":  # 987 beside 1,234: every number from 1,000 on has the mark
        return Marks(OTHER[mark], mark, is_proven=True)
    if mark == "." and not no_thousand:  # 1.234 and nothing else: a program's three decimals
        return Marks(".", None)
    return Marks(".", None, doubt=doubted[0])
