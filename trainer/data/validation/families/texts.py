"""Texts: their lengths, in characters of a column, and in tokens where the source makes tokens of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import polars as pl

from trainwright.trainer.data.validation.check import Check, Context, Family, Finding
from trainwright.trainer.data.validation.report import NotChecked
from trainwright.trainer.data.validation.values import every_row, expected, severity_of, text

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
    yield Check("tokens", column, severity, asks, partial(_judge, column, most), offending=bad)


def _judge(column: str, most: int, asked: Mapping[str, Any]) -> Finding:
    count, rows, longest = int(asked["tokens"] or 0), int(asked["rows"]), int(asked["longest"] or 0)
    told = f"{count} of {rows} texts of {column} have more than max_length = {most} tokens; the longest has {longest}"
    remedy = f"Raise data.args.max_length (the model's memory grows with it), or accept that {count} texts are cut."
    return Finding(count <= MAX_CUT * max(rows, 1), count, most, count, told, remedy)
