"""Targets of a table: classes or numbers, from a column's cells."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from trainwright.trainer.base.arrays import Array
from trainwright.trainer.base.errors import DataError, near
from trainwright.trainer.data.sources.cells import Cells
from trainwright.trainer.data.sources.source import TargetOptions
from trainwright.trainer.data.table import transform
from trainwright.trainer.data.table.encode import numbers_of
from trainwright.trainer.data.table.infer import infer_target
from trainwright.trainer.data.table.numerals import marks_of
from trainwright.trainer.data.table.schema import ROWS, Column
from trainwright.trainer.data.table.transform import MISSING

if TYPE_CHECKING:
    import pyarrow as pa

FEW = 20
"""Different integers up to which a target is taken for classes."""
MAX_CLASSES = 1000
NAMED = 5
"""Rows that an error names."""
JOINED = 256
"""Parts that are held before they are joined into one array."""

Targets = tuple[Array, list[str] | None]
"""(rows,) of int64 with the names of classes, or of float32; of several columns (rows, columns) of float32.

With the columns' names where these are labels.
"""
Where = Callable[[int], str]
"""Returns a row's place in its file."""


def read_targets(cells: Cells, names: Sequence[str], asked: TargetOptions) -> Targets:
    """Return the targets of columns and, for classification, the names of classes or labels in order.

    Raises:
        DataError: an empty cell, one that is no number in a regression, one class only, or too many; or as `infer`.
    """
    from pyarrow.lib import StringBuilder

    found = []
    for name in names:
        column = cells.column(name, "data.args.target" if len(names) == 1 else None)
        texts = StringBuilder()  # where `pa.array` would import pandas, to ask whether the list is of its kind
        texts.append_values(["" if cell is None else str(cell) for cell in column])
        found.append(TargetColumn(infer_target(name, column[:ROWS]), asked))
        found[-1].add(texts.finish())
    return side_by_side(found, cells.where)


def side_by_side(columns: Sequence[TargetColumn], where: Where) -> Targets:
    """Return the targets of a table: of one column as it has them; several as columns of numbers, or of 0 and 1.

    Of two values the second, in the order of classes, is 1; the columns then know it.

    Raises:
        DataError: some columns are numbers and others classes, or have more than two; or as `TargetColumn.whole`.
    """
    found = [one.whole(where) for one in columns]
    if len(found) == 1:
        return found[0]
    of_two = [classes for _, classes in found if classes is not None and len(classes) == 2]
    if any(classes is not None for _, classes in found) and len(of_two) < len(found):
        raise _mixed({one.column.name: classes for one, (_, classes) in zip(columns, found, strict=True)})
    for one, classes in zip(columns, of_two, strict=False):
        one.column.values = {name: label for label, name in enumerate(classes)}
    values = np.stack([values for values, _ in found], axis=1).astype(np.float32, copy=False)
    return values, [one.column.name for one in columns] if of_two else None


def rows_without(columns: Iterable[pa.Array]) -> tuple[Array, int]:
    """Return the rows of a column whose cells are no target, (without,), by the rule of `TargetColumn`; and all rows.

    Args:
        columns: the column's cells, some at a time.
    """
    empty, words = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
    row, are_numbers = 0, True
    for column in columns:
        names, codes = _coded(column)
        is_word = np.array([name.lower() in MISSING for name in names])
        is_text = np.array([marks_of([name]) is None for name in names]) & ~is_word
        are_numbers = are_numbers and not is_text[codes].any()
        empty.append(row + np.flatnonzero(np.array([not name for name in names])[codes]))
        words.append(row + np.flatnonzero(is_word[codes]))
        row += len(column)
    return np.concatenate(words if are_numbers else empty), row


@dataclass
class TargetColumn:
    """A target read some rows at a time: by its different cells while they are few, and as numbers from then on."""

    column: Column
    """As the first rows have it."""
    asked: TargetOptions
    names: dict[str, int] | None = field(default_factory=dict)
    """Number of each different cell; None: too many."""
    parts: list[Array] = field(default_factory=list)
    """Numbers of cells, and once these are too many, what the cells say."""
    bad: list[tuple[int, str]] = field(default_factory=list)
    """Rows that are no numbers, with their cells, once cells are too many to be classes."""
    rows: int = 0
    spelled: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.plan = self.column.plan()

    def _number(self, name: str) -> float:
        try:
            return transform.number(name, self.plan)[0]
        except ValueError:
            return math.nan

    def add(self, column: pa.Array) -> None:
        """Take the next rows' cells."""
        raw, codes = _coded(column)
        self.spelled |= self.asked.labels.keys() & raw
        cells = [self.asked.labels.get(cell, cell) for cell in raw]
        met = {cells[code] for code in np.unique(codes).tolist()}
        if self.names is not None and len(self.names.keys() | met) > MAX_CLASSES:
            values = np.array([self._number(cell) for cell in self.names])
            self._note([*self.names], self.parts)
            self.names, self.parts = None, [values[part] for part in self.parts]
        if self.names is None:
            self._note(cells, [codes])
            self.parts.append(np.array([self._number(cell) for cell in cells])[codes])
        else:
            places = np.array([self.names.setdefault(cell, len(self.names)) if cell in met else -1 for cell in cells])
            self.parts.append(places[codes].astype(np.int32))
        self.rows += len(column)
        if len(self.parts) >= JOINED:  # many small arrays that stay would keep the memory around them
            self.parts = [np.concatenate(self.parts)]

    def _note(self, cells: list[str], parts: list[Array]) -> None:
        wrong = [code for code, cell in enumerate(cells) if not math.isfinite(self._number(cell))]
        row = self.rows if self.names is None else 0
        for part in parts:
            if len(self.bad) < NAMED:
                places = np.flatnonzero(np.isin(part, wrong))[:NAMED].tolist()
                self.bad += [(row + place, cells[int(part[place])]) for place in places]
            row += len(part)

    def whole(self, where: Where) -> Targets:
        """Return the targets as classes or numbers.

        Raises:
            DataError: an empty cell, one that is no number in a regression, one class or value only, too many classes.
        """
        found = np.concatenate(self.parts) if self.parts else np.empty(0, dtype=np.int32)
        if self.names is None:
            return self._numbers(found, where)
        self._require_filled(found, where)
        self._require_spellings()
        return self._decided(found, where)

    def _require_filled(self, found: Array, where: Where) -> None:
        names = self.names or {}
        numbers = all(not math.isnan(self._number(name)) or name.lower() in MISSING for name in names)
        empty = [code for name, code in names.items() if not name or (numbers and name.lower() in MISSING)]
        rows: Array = np.flatnonzero(np.isin(found, empty)) if empty else found[:0]
        if len(rows):
            raise _empty(self.column.name, [where(int(row)) for row in rows[:NAMED]], len(rows))

    def _require_spellings(self) -> None:
        """Check that no spelling that the labels join is there in another form only."""
        others = (self.names or {}).keys() - self.asked.labels.values()
        for name in self.asked.labels.keys() - self.spelled:
            if meant := near(name, others):
                raise DataError(
                    f"data.args.labels has {name!r}, and no row has it as its target {self.column.name!r}.",
                    remedy=f"Write the spelling as the cells have it ({', '.join(map(repr, meant))}), or leave it out.",
                )

    def _decided(self, found: Array, where: Where) -> Targets:
        names = list(self.names or {})
        numbers = np.array([self._number(name) for name in names])
        are_numbers = bool(np.isfinite(numbers).all())
        if self._is_number(numbers, len(found)):
            wrong = np.flatnonzero(~np.isfinite(numbers)[found])
            if len(wrong):
                raise _no_number(self.column.name, where(int(wrong[0])), names[found[wrong[0]]], len(wrong))
            return _varied(numbers[found], self.column.name), None
        one_each = self.asked.task is None and len(names) > max(FEW, len(found) // 2)
        whole = {f"{name}.0": name for name in names if name.isdigit()}  # one class, written in two ways
        called = {name: whole.get(name, name) for name in names}
        classes = sorted(set(called.values()), key=(lambda one: (self._number(one), one)) if are_numbers else str)
        if one_each or not 2 <= len(classes) <= MAX_CLASSES:
            raise _wrong_classes(self.column.name, classes, len(found), numeric=are_numbers)
        labels = {name: label for label, name in enumerate(classes)}
        return np.array([labels[called[name]] for name in names], dtype=np.int64)[found], classes

    def _is_number(self, numbers: Array, rows: int) -> bool:
        """Return whether the target is a number: as the configuration says, else as different cells (cells,) look.

        Mostly numbers are never classes by a guess, however few cells are none. A loss for classes takes whole numbers
        as such that recur.
        """
        if self.asked.task is not None:
            return self.asked.task == "regression"
        if self.asked.of_loss == "regression":
            return True
        are_whole = bool((numbers == np.floor(numbers)).all())
        if len(numbers) <= FEW and (are_whole or not np.isfinite(numbers).all()):
            return False
        recurs = self.asked.of_loss == "classification" and are_whole and 2 * len(numbers) <= rows
        return self.column.kind == "number" and not recurs

    def _numbers(self, found: Array, where: Where) -> Targets:
        empty = [row for row, cell in self.bad if cell.lower() in MISSING]
        if empty:
            raise _empty(self.column.name, [where(row) for row in empty], int(np.isnan(found).sum()))
        if not self._is_number(found, len(found)):
            raise _wrong_classes(self.column.name, None, len(found), numeric=not self.bad)
        if self.bad:
            raise _no_number(self.column.name, where(self.bad[0][0]), self.bad[0][1], int((~np.isfinite(found)).sum()))
        return _varied(found, self.column.name), None


def _coded(column: pa.Array) -> tuple[list[str], Array]:
    """Return a column's different cells as text, the last of them empty, and each row's number among them, (rows,)."""
    import pyarrow as pa

    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    cells = ["" if cell is None else str(cell).strip() for cell in encoded.dictionary.to_pylist()]
    return [*cells, ""], numbers_of(encoded, len(cells))


def _mixed(classes: dict[str, list[str] | None]) -> DataError:
    of = {name: "numbers" if each is None else f"{len(each)} classes" for name, each in classes.items()}
    return DataError(
        f"The targets are of several kinds: {', '.join(f'{name!r} {what}' for name, what in of.items())}.",
        remedy="Several targets of a table are all numbers (loss mse), or all of two values (loss bce_with_logits). "
        "Whole numbers that are no classes: loss mse, or data.args.task regression. Else predict them one a project "
        "(data.args.target), or together by data of your own under objective multi_task.",
        document="configs/several_targets.md",
    )


def _varied(numbers: Array, target: str) -> Array:
    with np.errstate(over="ignore"):  # infinite then, which the check below says
        found = numbers.astype(np.float32)
    if not len(found) or bool((found == found[0]).all()):
        raise DataError(
            f"The target {target!r} is constant ({found[0] if len(found) else 'no row'}), so nothing can be learned.",
            remedy="Name another column with data.args.target.",
        )
    return found


def _empty(target: str, places: list[str], count: int) -> DataError:
    return DataError(
        f"{places[0]}: the target {target!r} is empty ({count} row(s): {', '.join(places)}).",
        remedy="Fill these rows in; or leave them out, as a row without its target teaches and tests nothing: "
        "configure(project, changes={'data.args.drop_without_target': true}).",
        details={"rows": places, "count": count, "changes": {"data.args.drop_without_target": True}},
    )


def _no_number(target: str, place: str, cell: str, count: int) -> DataError:
    return DataError(
        f"{place}: the target {target!r} is read as a number, and {cell[:40]!r} is not a finite number "
        f"({count} row(s)).",
        remedy="Correct the cell, or where its mark is meant, say data.args.decimal; an empty one is left out with "
        "data.args.drop_without_target. If the target is "
        "classes: data.args.task classification, with loss cross_entropy and metrics like accuracy.",
        details={"rows": [place], "count": count},
    )


def _wrong_classes(target: str, names: list[str] | None, rows: int, *, numeric: bool) -> DataError:
    found = f"more than {MAX_CLASSES} classes" if names is None else f"{len(names)} classes"
    found = f"one class only ({names[0]!r})" if names is not None and len(names) == 1 else found
    is_single = names is not None and len(names) == 1
    other = " or add rows of other classes." if is_single else " or join rare classes."
    if numeric and not is_single:
        other = ' or set data.args.task to "regression".'
    return DataError(
        f"The target {target!r} has {found} in {rows} rows; 2 to {MAX_CLASSES} classes that recur make sense.",
        remedy=f"Name another column with data.args.target,{other}",
    )
