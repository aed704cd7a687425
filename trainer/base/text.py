"""Text from outside, fit to be shown: no terminal codes, nothing invisible, nothing that turns the writing around.

Column headers, class names, intents, reasons and error texts are written by others. Whoever reads them in a report, in
an answer or at a terminal must see what is there; what of it is Markdown is `tools.documents.rendering`'s to escape.
"""

from __future__ import annotations

import re

LONGEST = 400
"""Characters of one shown value."""
MARK = "…"
"""At the end of what was cut."""
INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)  # fmt: skip
"""What Unicode counts as letters or marks and that has no picture of its own; whole messages hide in it."""
LOOKED_AT = 8
"""Characters are read up to this multiple of the length: the rest of a huge text is not worth the time."""


def one_line(value: object, longest: int = LONGEST) -> str:
    """Text of a value on one line: visible characters and single spaces, cut to `longest` characters."""
    text = str(value)
    line = " ".join(visible(text[: LOOKED_AT * longest]).split())
    whole = len(text) <= LOOKED_AT * longest and len(line) <= longest
    return line if whole else line[: longest - 1].rstrip() + MARK


def cut(value: object, longest: int) -> str:
    """Text of a value as it is, cut to `longest` characters."""
    text = str(value)
    return text if len(text) <= longest else text[: longest - 1] + MARK


def several_lines(value: object, longest: int = 10 * LONGEST) -> list[str]:
    """Lines of a text, each as `one_line` gives it, together cut to `longest` characters; indents are kept."""
    return [visible(line.expandtabs(4)).rstrip() for line in cut(value, longest).splitlines()]


def visible_lines(text: str) -> str:
    """Text of any length with its line breaks, every line as `visible` gives it."""
    return "\n".join(visible(line) for line in text.split("\n"))


def visible(text: str) -> str:
    """Text without control characters, bidirectional, zero-width and unassigned ones; white space becomes spaces."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        sign if sign.isprintable() else " " for sign in INVISIBLE.sub("", text) if sign.isprintable() or sign.isspace()
    )
