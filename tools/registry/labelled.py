"""Rows of a labelled file as a version's arrays, without those that it knows. They are read piece by piece."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from trainwright.trainer.base.arrays import Array
from trainwright.trainer.base.errors import DataError, TrainwrightError
from trainwright.trainer.data.cells import by_text, group_mark, hashed, hashed_cells
from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.data.split_methods.rows import WHOLE
from trainwright.trainer.data.table.transform import encode, encode_rows, text_of, unpacked
from trainwright.trainer.prediction.frame import WrongInputError
from trainwright.trainer.prediction.tables import as_known, guarded, read_any
from trainwright.trainer.run.split_rows import CELL, CONTENT, ORDER, RECORD, TARGET, SplitRows, tell_apart

MAX_BYTES = 64 << 20
"""Of a file when unpacked; of JSON, which is read as a whole, a quarter."""
MAX_NUMBERS = 1 << 23
"""Inputs and target of all rows together."""
AT_ONCE, PIECE = 1024, 1 << 20
BY_HAND = (
    "`python final_model/predict.py FILE` answers rows: compare its answers with the targets yourself, "
    "on rows that came after the training."
)
SAMPLE = "Give a sample of its rows."
NO_TARGET = "they have no target"
SAME = "the same cells as rows that"
"""What is known of a row, which may have another target."""
OF_GROUP = "it knows other rows of their"
WHY = {
    "train": f"{SAME} it was trained on", "validation": f"{SAME} its epoch was chosen by",
    "test": f"{SAME} it was tested on: its card has their figure",
}  # fmt: skip
TOGETHER = frozenset({"group", "hash"})
"""Ways to split that may keep the values of a column in one split."""


@dataclass(frozen=True)
class Known:
    """What a version knows of rows."""

    rows: Mapping[bytes, str]
    """Why a row is no evidence, by its cells."""
    with_target: bool = False
    """Whether the target is one of them: the others tell too few rows apart."""
    group: str | None = None
    """Column whose values its split kept together."""
    groups: frozenset[bytes] = frozenset()
    """Those that it was trained on or chosen by."""
    times: str | None = None
    """Column of the times by which it is split: rows of one are alike."""

    @property
    def units(self) -> str | None:
        """Column whose values figures' intervals are over; None: over rows."""
        return self.group or self.times

    @classmethod
    def of(cls, kept: SplitRows, artifacts: Path, schema: Mapping[str, Any], split: SplitSection) -> Known:
        """Return what a smoke run recorded. Raises DataError where it recorded not all rows, or IntegrityError."""
        names = [one["name"] for one in schema["columns"]]
        group = split.group if split.by in TOGETHER else None
        if not kept.kept or kept.level or kept.columns[: len(names) + 1] != [*names, TARGET]:
            raise refused("Which rows this version was trained on is not recorded, as of large data", BY_HAND)
        if split.by == "scaffold" or (group is not None and not kept.groups):
            raise refused(f"Which values of {split.key!r} this version was trained on is not recorded", BY_HAND)
        end, found = RECORD + CELL * len(names), kept.read(artifacts)
        every = [*chain(*found.values())]
        more = 0 if tell_apart({one[RECORD:end] for one in every}, {one[:CONTENT] for one in every}) else CELL
        rows = {one[RECORD : end + more]: WHY[name] for name in reversed(ORDER) for one in found[name]}
        groups = frozenset(kept.read_groups(artifacts)) if group is not None else frozenset[bytes]()
        return cls(rows, more > 0, group, groups, split.time)


@dataclass
class Labelled:
    """Rows of a file that have a target."""

    inputs: Array
    """(rows, inputs)."""
    targets: Array
    """(rows, targets)."""
    units: Array | None
    """Number of each row's group or time, (rows,); None: each row is one."""
    is_new: Array
    """Whether each row is evidence, (rows,)."""
    left_out: dict[str, int] = field(default_factory=dict)
    """How many rows of the file are no evidence, by why."""

    @property
    def known(self) -> int:
        """How many rows with a target the version knows, or others of their group."""
        return sum(count for why, count in self.left_out.items() if why.startswith((SAME, OF_GROUP)))

    def new(self) -> Labelled:
        """Return the rows that are evidence alone."""
        kept = self.is_new
        units = None if self.units is None else self.units[kept]
        return Labelled(self.inputs[kept], self.targets[kept], units, kept[kept], self.left_out)


def read_labelled(path: Path, schema: dict[str, Any], known: Known, labels: Mapping[str, str]) -> Labelled:
    """Return the rows of a file that have a target, and which of them a version does not know.

    Args:
        path: of a table as `predict.py` reads it.
        schema: of the version's `schema.json`.
        labels: class by other spelling, as `data.args.labels` has it.

    Raises:
        DataError: it is too large, it is no such table, or it has no column of a target, of groups or of times.
    """
    wanted = [*(one["name"] for one in schema["columns"]), *schema["targets"], *([known.units] if known.units else [])]
    parts, read, most = list[Labelled](), 0, MAX_NUMBERS // (1 + sum(one["width"] for one in schema["columns"]))
    try:
        with guarded(str(path), schema):
            _require_small(path)
            rows = _narrow(read_any(str(path), schema), wanted)
            while some := [*islice(rows, AT_ONCE)]:
                if not read:
                    _require_columns(some, schema, known)
                if read + len(some) > most:
                    raise refused(f"{path.name} has more than {most:,} rows", SAMPLE)
                parts.append(_part(some, schema, known, labels, first=read + 1))
                read += len(some)
    except WrongInputError as error:
        raise refused(str(error).rstrip("."), error.remedy) from None
    return _joined(parts)


def _require_small(path: Path) -> None:
    most, read = MAX_BYTES // (4 if path.suffix == ".json" else 1), 0
    with unpacked(path) as file:
        while piece := file.read(PIECE):
            read += len(piece)
            if read > most:
                raise refused(f"{path.name} holds more than {most:,} bytes", SAMPLE)


def _narrow(rows: Iterable[dict[str, Any]], wanted: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield rows without the columns that nothing reads, of which a file may have many; the first, as errors tell."""
    for place, row in enumerate(rows):
        yield {name: row[name] for name in wanted if name in row} if place else row


def _require_columns(rows: Sequence[Mapping[str, Any]], schema: Mapping[str, Any], known: Known) -> None:
    for name in schema["targets"]:
        if not any(name in row for row in rows):
            raise ValueError(f"no row has the target {name!r}")
    if known.units is not None and not any(known.units in row for row in rows):
        why = "kept each one's rows together" if known.group else "is by it"
        raise refused(
            f"No row has the column {known.units!r}: the version's split {why}, and rows that share one are alike",
            f"Keep {known.units!r} in the file, as the version's own data have it.",
        )


def _part(
    rows: Sequence[dict[str, Any]], schema: dict[str, Any], known: Known, labels: Mapping[str, str], *, first: int
) -> Labelled:
    """Return what rows have a target, and are evidence; the first has this number in the file."""
    spelt, respelled = as_known(rows, schema["columns"])
    inputs, names = encode_rows(spelt, schema, first), schema["targets"]
    told = [
        [_target(row.get(name), name, schema, labels, place) for name in names]
        for place, row in enumerate(rows, start=first)
    ]
    targets = np.array(told, dtype=np.float64)
    why = _met(rows, targets, schema, known)
    if any(respelled):
        why = [one or other for one, other in zip(why, _met(spelt, targets, schema, known), strict=True)]
    marks = _of_groups(rows, known, why)
    why = [NO_TARGET if None in cells else reason for cells, reason in zip(told, why, strict=True)]
    kept = [place for place, reason in enumerate(why) if reason != NO_TARGET]
    left = Counter(reason for reason in why if reason is not None)
    is_new = np.array([why[place] is None for place in kept], dtype=bool)
    return Labelled(inputs[kept], targets[kept], None if marks is None else marks[kept], is_new, dict(left))


def _met(rows: Sequence[dict[str, Any]], targets: Array, schema: dict[str, Any], known: Known) -> list[str | None]:
    """Return why each row is no evidence, by its cells: a category that training did not meet is known by its text."""
    columns = []
    for column in schema["columns"]:
        values = dict(column["values"])
        if column["kind"] == "category":
            texts = {text for row in rows if (text := text_of(row.get(column["name"]))) is not None}
            last = max(values.values(), default=-1)
            values |= {text: code for code, text in enumerate(sorted(texts - values.keys()), start=last + 1)}
        columns.append({**column, "values": values})
    codes = [(one["width"], one["values"] if one["kind"] == "category" else None) for one in columns]
    cells = hashed_cells(encode_rows(rows, schema | {"columns": columns}).astype("float64"), codes)
    if known.with_target:
        classes = schema["answer"].get("classes")
        held = targets.astype("float32").astype("float64")
        if classes is not None and held.shape[1] == 1:  # several labels are 0 and 1 there too
            held = by_text(held[:, 0], {name: code for code, name in enumerate(classes)})
        cells = np.column_stack([cells, hashed(held)]).astype(cells.dtype)
    return [known.rows.get(one.tobytes()) for one in cells]


def _of_groups(rows: Sequence[Mapping[str, Any]], known: Known, why: list[str | None]) -> Array | None:
    """Return the number of each row's group or time, (rows,), and note why rows of known groups are no evidence."""
    if (by := known.units) is None:
        return None
    marks = [group_mark(row.get(by)) for row in rows]
    for place, row in enumerate(rows):
        if text_of(row.get(by)) is None:
            why[place] = why[place] or f"their {by} is empty"
        elif marks[place] in known.groups:
            why[place] = why[place] or f"{OF_GROUP} {by}"
    return np.array([int.from_bytes(mark, "big") for mark in marks], np.int64)


def _target(cell: Any, name: str, schema: Mapping[str, Any], labels: Mapping[str, str], place: int) -> float | None:
    """Return a target as training reads it: a number, or that of its class; None for an empty cell."""
    text, names = "" if cell is None else str(cell).strip(), _classes(name, schema)
    if names is not None:
        spelt = labels.get(text, text), str(text_of(cell)), WHOLE.sub(r"\1", text)
        if found := next((one for one in spelt if one in names), None):
            return float(names.index(found))
    if text_of(cell) is None:
        return None
    if names is not None:
        what = f"Row {place}: the target {text[:40]!r} is no class of this version"
        raise refused(what, f"It knows {', '.join(names[:20])}.")
    marks = schema.get("target_marks")
    if marks is None:
        raise refused("How numbers of the target are written is not in the version's schema.json", BY_HAND)
    try:
        return encode(cell, {"kind": "number", "width": 1, **marks[name]})[0]
    except ValueError as error:
        how = f", with the decimal mark {mark!r}" if (mark := marks[name]["decimal"]) else ""
        what = f"Row {place}: the target {text[:40]!r} is {error}"
        raise refused(what, f"Write it as the version's own data have it{how}.") from None


def _classes(target: str, schema: Mapping[str, Any]) -> list[str] | None:
    """Return what a target's values are called, by number; None of numbers. Raises DataError where nobody knows."""
    if schema["answer"]["kind"] == "labels":
        values = (schema.get("target_marks") or {}).get(target, {}).get("values")
        if not values:  # released before labels were scored
            raise refused(f"Which value of {target!r} is yes is not in the version's schema.json", BY_HAND)
        return [*values]
    names: list[str] | None = schema["answer"].get("classes")
    return names


def _joined(parts: Sequence[Labelled]) -> Labelled:
    if not parts:
        return Labelled(np.empty((0, 0)), np.empty((0, 0)), None, np.empty(0, dtype=bool))
    left = Counter[str]()
    for one in parts:
        left.update(one.left_out)
    units = [one.units for one in parts if one.units is not None]
    names = ("inputs", "targets", "is_new")
    inputs, targets, is_new = (np.concatenate([getattr(one, name) for one in parts]) for name in names)
    return Labelled(inputs, targets, np.concatenate(units) if units else None, is_new, dict(left))


def refused(what: str, remedy: str) -> TrainwrightError:
    """Return the error of a file, or of a version, that is not scored."""
    return DataError(f"{what}.", remedy=remedy, document="phases/promotion.md")
