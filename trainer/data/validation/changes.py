"""Changes of expectations, as sentences: which were loosened, tightened, dropped or added. Light."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Path = tuple[str, ...]
LOOSER_ABOVE = ("max", "at_most", "not_after", "fresh_within_days")
"""Endings of keys whose larger value allows more."""
LOOSER_BELOW = ("min", "at_least", "not_before", "mostly")
MORE_ALLOWS = ("one_of", "only", "without")
FEWER_ALLOW = ("none_of", "unique_together", "ordered")
WEAKER = {"error": 0, "warning": 1, "info": 2, "refused": 0, "allowed": 1, True: 0, False: 1}
DEFAULTS: dict[str, Any] = {
    "mostly": 1.0,
    "severity": "error",
    "required": True,
    "unique": False,
    "without": [],
    "other_columns": "allowed",
}
ORDER = {"loosened": 0, "dropped": 1, "changed": 2, "tightened": 3, "added": 4}


def changes(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Return one sentence for every expectation that differs, what allows more first.

    Args:
        before: expectations without defaults (`Expectations.values`).
        after: the same, later.
    """
    old, new = dict(_leaves(before)), dict(_leaves(after))
    found = []
    for path in sorted({*old, *new}):
        was, now = (side.get(path, DEFAULTS.get(path[-1])) for side in (old, new))
        if was != now:
            how = _how(path[-1], was, now)
            found.append((ORDER[how], _told(".".join(path).removeprefix("columns."), how, was, now)))
    return [sentence for _, sentence in sorted(found)]


def loosened(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Return the sentences on what allows more than before."""
    return [one for one in changes(before, after) if " loosened from " in one or one.endswith(" dropped")]


def _leaves(values: dict[str, Any], path: Path = ()) -> Iterator[tuple[Path, Any]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _leaves(value, (*path, name))
        else:
            yield (*path, name), value


def _how(key: str, was: Any, now: Any) -> str:
    if was is None:
        return "added"
    if now is None:
        return "dropped"
    is_looser = _is_looser(key, was, now)
    return "changed" if is_looser is None else "loosened" if is_looser else "tightened"


def _is_looser(key: str, was: Any, now: Any) -> bool | None:
    """Return whether a value allows more than before; None where it allows other things."""
    if isinstance(was, list) and isinstance(now, list):
        return _is_longer(key, [str(one) for one in was], [str(one) for one in now])
    if isinstance(was, bool | str) and was in WEAKER and now in WEAKER:
        return WEAKER[now] > WEAKER[was]
    if isinstance(was, str) != isinstance(now, str):
        return None
    if key.endswith(LOOSER_ABOVE):
        return bool(now > was)
    return bool(now < was) if key.endswith(LOOSER_BELOW) else None


def _is_longer(key: str, was: list[str], now: list[str]) -> bool | None:
    more, fewer = set(now) - set(was), set(was) - set(now)
    if bool(more) == bool(fewer):
        return None
    if key in MORE_ALLOWS:
        return bool(more)
    return bool(fewer) if key in FEWER_ALLOW else None


def _told(place: str, how: str, was: Any, now: Any) -> str:
    if how == "added":
        return f"expectation {place} = {now} added"
    if how == "dropped":
        return f"expectation {place} ({was}) dropped"
    return f"expectation {place} {how} from {was} to {now}"
