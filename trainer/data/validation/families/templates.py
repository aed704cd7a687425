"""Templates: texts that are a few sentences with other words filled in, as generated questions are.

Rows of one template in train and test are almost one another: what is measured then is how well blanks are filled in.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from trainwright.trainer.data.validation.check import Context, Family
from trainwright.trainer.data.validation.report import Verdict
from trainwright.trainer.data.validation.values import severity_of, text

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
