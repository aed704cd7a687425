"""Numbers as a sentence has them, in figures or in English or German words: `1,200`, `twenty`, `sechs`."""

from __future__ import annotations

import re

ONES = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
EINER = ("ein", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun")
TENS = ("ten", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
ZEHNER = ("zehn", "zwanzig", "dreißig", "vierzig", "fünfzig", "sechzig", "siebzig", "achtzig", "neunzig")
COMPOSED = {
    word: 10 * place + unit
    for place in range(2, 10)
    for unit in range(1, 10)
    for word in (
        f"{TENS[place - 1]}-{ONES[unit - 1]}", f"{TENS[place - 1]} {ONES[unit - 1]}",
        f"{EINER[unit - 1]}und{ZEHNER[place - 1]}",
    )
}  # fmt: skip
WORDS = COMPOSED | {
    **{name: 10 * place for names in (TENS, ZEHNER) for place, name in enumerate(names, 1)},
    **{name: place for names in (ONES, EINER) for place, name in enumerate(names, 1)},
    "eleven": 11, "twelve": 12, "thirteen": 13, "fourteen": 14, "fifteen": 15, "sixteen": 16, "seventeen": 17,
    "eighteen": 18, "nineteen": 19, "hundred": 100, "a": 1, "an": 1, "single": 1,
    "elf": 11, "zwölf": 12, "dreizehn": 13, "vierzehn": 14, "fünfzehn": 15, "sechzehn": 16, "siebzehn": 17,
    "achtzehn": 18, "neunzehn": 19, "dreissig": 30, "hundert": 100, "eine": 1, "einer": 1,
    "one and a half": 1.5, "anderthalb": 1.5, "eineinhalb": 1.5, "two and a half": 2.5, "zweieinhalb": 2.5,
}  # fmt: skip
WORDED = "|".join(sorted(WORDS, key=len, reverse=True))
AMOUNT = r"\d{1,3}(?:[,']\d{3})+(?!\d)|\d+(?:[.,]\d+)?"
SPELT = "|".join(sorted((word for word, value in WORDS.items() if value >= 2), key=len, reverse=True))


def number_of(text: str) -> float:
    """Return the number that AMOUNT or WORDED has found."""
    whole = re.sub(r"[,'](?=\d{3}(?!\d))", "", text)
    return float(WORDS.get(text.lower()) or whole.replace(",", "."))
