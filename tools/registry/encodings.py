"""Reading by an earlier version's program of rows that were encoded for a later one: by names of columns and values."""

from __future__ import annotations

from typing import Any

from trainwright.trainer.base.errors import ConflictError
from trainwright.trainer.run.evidence import Data


def recoding(later: Data, earlier: Data) -> dict[str, Any]:
    """Return {take, codes} as the clean room takes them (trainer/clean_room/recoded.py); {}: rows are read as they are.

    Scaling and one-hot inputs are within the programs: what rows hold depends on columns and codes alone.

    Raises:
        ConflictError: the earlier program cannot read such rows, and why.
    """
    if (later.class_names, later.target_names) != (earlier.class_names, earlier.target_names):
        raise ConflictError("their classes or targets differ", remedy="")
    spans = _spans(later), _spans(earlier)
    if not spans[0] or not spans[1]:
        if spans[0] or spans[1] or (later.text, later.input) != (earlier.text, earlier.input):
            raise ConflictError("their inputs are prepared otherwise", remedy="")
        return {}
    _require_readable(later, earlier, *spans)
    names = sorted(spans[1], key=lambda name: spans[1][name].start)
    codes = {
        str(spans[1][name].start): [_code(value, known) for value in later.categories.get(name, [])]
        for name, known in earlier.categories.items()
        if known != later.categories.get(name)
    }
    are_prepared_alike = later.preprocessing.get("kind") == earlier.preprocessing.get("kind")
    if not codes and spans[0] == spans[1] and are_prepared_alike:
        return {}
    return {"take": [place for name in names for place in spans[0][name]], "codes": codes}


def _require_readable(later: Data, earlier: Data, now: dict[str, range], before: dict[str, range]) -> None:
    if missing := [name for name in before if name not in now]:
        why = f"the later version has no column {missing[0]!r}, which the earlier one reads"
        raise ConflictError(why, remedy="")
    kinds = [{column["name"]: column["kind"] for column in one.columns or []} for one in (later, earlier)]
    changed = [
        name for name in before if kinds[0].get(name) != kinds[1].get(name) or len(now[name]) != len(before[name])
    ]
    if changed:
        raise ConflictError(f"column {changed[0]!r} is read as another kind", remedy="")
    for version, spans in (("later", now), ("earlier", before)):
        places = sorted(place for span in spans.values() for place in span)
        if places != [*range(len(places))]:
            raise ConflictError(f"which input each column is was not recorded with the {version} version", remedy="")


def _spans(data: Data) -> dict[str, range]:
    """Return the inputs that each column of a table is; empty where data have no columns."""
    single = {name: range(place, place + 1) for name, place in data.places.items()}
    return single | {name: range(start, start + width) for name, (start, width) in data.wide.items()}


def _code(value: str, known: list[str]) -> int:
    return known.index(value) if value in known else -1
