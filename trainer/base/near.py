"""Names that are alike: one way to find what was meant, for keys, names, arguments, files and ids."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

CUTOFF = 0.6
"""Share of alike characters (difflib's ratio) from which a name may be meant."""
SHORTEST_PART = 4
"""Characters from which a name that is part of another may be meant."""


def folded(name: str) -> str:
    """Return a name without case and separators: `AdamW`, `adam_w` and `ADAM-W` are one."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def same(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that differs in nothing but case and separators, if exactly one does."""
    found = [candidate for candidate in known if folded(candidate) == folded(name) != ""]
    return found[0] if len(found) == 1 else None


def near(name: str, known: Iterable[str], *, most: int = 1, cutoff: float = CUTOFF) -> list[str]:
    """Return the known names most like `name`, the nearest first: the same one folded, alike ones, then parts."""
    by_fold: dict[str, list[str]] = {}
    for candidate in sorted(set(known)):
        by_fold.setdefault(folded(candidate), []).append(candidate)
    wanted = folded(name)
    if not wanted:
        return []
    alike = difflib.get_close_matches(wanted, by_fold, n=most, cutoff=cutoff)
    long = [one for one in by_fold if min(len(one), len(wanted)) >= SHORTEST_PART and one not in alike]
    parts = [one for one in long if wanted in one or one in wanted]
    return [candidate for one in (*alike, *parts) for candidate in by_fold[one]][:most]


def near_matches(name: str, known: Iterable[str]) -> str:
    """Return ` Near: a, b.`, or nothing when no known name is like it."""
    found = near(name, known, most=3)
    return f" Near: {', '.join(found)}." if found else ""
