"""Tables as samples: a matrix of numbers, read some rows at a time in little more than its own memory.

Which kind a column is of is inferred from the first rows, unless the configuration says so; every later cell must fit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from trainwright.trainer.base.arrays import Array
from trainwright.trainer.base.errors import ConfigurationError, DataError
from trainwright.trainer.data.preprocessing import ToStandardize, ToTable, Unfitted
from trainwright.trainer.data.sections import BY_NAMES, SplitSection, targets_of
from trainwright.trainer.data.sources.cells import no_column
from trainwright.trainer.data.sources.matrix import Matrix, matrix_of
from trainwright.trainer.data.sources.reading import Reading
from trainwright.trainer.data.sources.source import Loaded
from trainwright.trainer.data.sources.windows import series_of
from trainwright.trainer.data.split_methods.by_time import dated
from trainwright.trainer.data.table.infer import decimal_of, forced, infer, infer_target
from trainwright.trainer.data.table.schema import ROWS, Column, TableSchema
from trainwright.trainer.data.table.transform import text_of

if TYPE_CHECKING:
    from trainwright.trainer.data.sources.tables import Numbers


def load_numbers(table: Numbers, code_root: Path, split: SplitSection) -> Loaded:
    """Read a table with named columns: inputs (rows, inputs) of float32, and targets (rows,); or windows of them.

    Targets of several columns are (rows, targets).

    Args:
        table: the source.
        code_root: the folder that its files are under.
        split: how samples will be divided; a column that it needs is no feature unless it is named as one.

    Raises:
        DataError: unreadable, empty, a missing column, or a cell of another kind; it names row and column.
    """
    reading = Reading(table, table.files(code_root))
    schema, key = inferred(table, reading, split), split.key
    if not schema.features:
        raise _no_features(reading, schema)
    found = matrix_of(reading, schema)
    schema.takes_missing = found.has_missing or any(one.kind != "number" for one in schema.features)
    unfitted: Unfitted | None = ToTable(schema) if schema.takes_missing else None
    if unfitted is None and table.standardize:
        unfitted = ToStandardize()
    keys = {} if key is None else {key: _key(table, reading, split, code_root)}
    series, several = None, schema.targets if table.series is None and len(schema.targets) > 1 else None
    if table.series is not None:
        series = series_of(reading, table.series, found, keys)
        keys = {name: values[series.order] for name, values in keys.items()}
    return Loaded(
        found.samples if series is None else series.samples(),
        found.classes,
        [column.name for column in schema.features],
        unfitted,
        files=reading.sources,
        keys=keys,
        schema=schema,
        skipped=reading.skipped,
        contents=_contents(schema, found) if any(one.kind == "category" for one in schema.features) else None,
        series=series,
        target_names=several,
    )


def _key(table: Numbers, reading: Reading, split: SplitSection, code_root: Path) -> Array:
    """Return what rows are split by, (rows,): dates as numbers where the user says how they are written."""
    if split.key == BY_NAMES:
        return reading.splits(code_root)
    name = str(split.key)
    values = reading.values(name)
    if split.by != "time" or table.day_first is None or values.dtype.kind not in "OUS":
        return values
    texts, places = np.unique(values.astype(str), return_inverse=True)
    found = dated(name, texts.tolist(), table.day_first)
    moments = (np.array(found) * 1e6).astype("datetime64[us]")
    return moments[places.reshape(-1)] if found else values


def _contents(schema: TableSchema, found: Matrix) -> Callable[[], list[str]]:
    """Return what gives each row's content, where codes of categories depend on the other rows."""
    inputs, targets = (found.samples.base[n] for n in (0, 1))
    return lambda: contents_of(schema, inputs.numpy(), targets.numpy(), found.classes)


def inferred(table: Numbers, reading: Reading, split: SplitSection) -> TableSchema:
    """Return the schema of a table: as configured, else as the first rows have it.

    Raises:
        DataError, ConfigurationError: a column that is not there.
    """
    header, key = reading.header, split.key
    said = table.columns or {}
    series = table.series
    apart = {*table.targets, key} if series is None else {key, series.group}
    chosen = table.features if table.features is not None else [name for name in header if name not in apart]
    of_series = [series.group] if series is not None and series.group else []
    for name in (*table.targets, *chosen, *said, *of_series, *([] if key in {None, BY_NAMES} else [str(key)])):
        if name not in header:
            raise no_column(name, reading.files[0], header, partial(_renamed, table, split, name))
    if series is None and (named := [name for name in table.targets if name in said]):
        raise ConfigurationError(
            f"`data.args.columns` names the target {named[0]!r}.",
            remedy="Leave it out: data.args.task says whether the target is classes or a number.",
        )
    cells = reading.head(list(dict.fromkeys([*table.targets, *chosen])))
    if not cells[table.targets[0]]:
        raise table.without_rows(reading.files[0])
    described = table.reading(reading.files[0])
    mark = decimal_of(cells.values(), table.decimal, described.get("delimiter"))
    targets = [infer_target(name, cells[name], mark) for name in table.targets]
    columns = [_column(table, reading, name, cells[name], mark) for name in chosen]
    reading.decimal = "," if any(one.decimal == "," for one in columns) else "."
    return TableSchema(columns, targets, described)


def _renamed(table: Numbers, split: SplitSection, name: str, meant: str) -> dict[str, Any]:
    """Return the changes of the configuration that name another column wherever it names this one."""
    changes: dict[str, Any] = {}
    if name in targets_of({"target": table.target}):
        named = [meant if one == name else one for one in targets_of({"target": table.target})]
        changes["data.args.target"] = named if len(named) > 1 else meant
    if name in (table.features or []):
        changes["data.args.features"] = [meant if one == name else one for one in table.features or []]
    if name in (table.columns or {}) and "." not in name + meant:  # a dotted key names them
        changes |= {f"data.args.columns.{name}": None, f"data.args.columns.{meant}": (table.columns or {})[name]}
    if split.key == name:
        changes[split.key_option] = meant
    return changes


def _column(table: Numbers, reading: Reading, name: str, cells: list[Any], mark: str | None) -> Column:
    forecast = [] if table.series is None else table.targets
    kind = "number" if name in forecast else (table.columns or {}).get(name)
    if kind == "ignore":
        return Column(name, "ignore", "as configured")
    nested = next((one for one in dict.fromkeys(map(type, cells)) if issubclass(one, list | dict | bytes)), None)
    if nested is not None:
        return Column(name, "ignore", f"its cells are of type {nested.__name__}")
    if kind is not None:
        return forced(name, kind, cells, mark, table.day_first)
    found = infer(name, cells, named=table.features is not None, decimal=mark, day_first=table.day_first)
    if found.reason.startswith("no value") and len(cells) >= ROWS:
        return infer(
            name,
            _first_values(reading, name),
            named=table.features is not None,
            decimal=mark,
            day_first=table.day_first,
        )
    return found


def _first_values(reading: Reading, name: str) -> list[Any]:
    """Return the first cells with a value, of a column that has none in the first rows."""
    found: list[Any] = []
    for batch in reading.batches([name]):
        found += [cell for cell in batch.column(0).to_pylist() if text_of(cell) is not None]
        if len(found) >= ROWS:
            break
    return found


def _no_features(reading: Reading, schema: TableSchema) -> DataError:
    left_out = "; ".join(f"{one.name}: {one.reason}" for one in schema.columns[:10])
    return DataError(
        f"{reading.files[0].name} has no column to predict {', '.join(map(repr, schema.targets))} from"
        + (f" ({left_out})." if left_out else "."),
        remedy="Point data.args.path at a table with columns to predict from, or name kinds in data.args.columns.",
    )


# Contents of rows, whatever other rows there are: categories and classes by name, which codes are not.


def contents_of(schema: TableSchema, inputs: Array, targets: Array, classes: Sequence[str] | None) -> list[str]:
    """Return a text for each row that is the same in any other table with this row.

    Args:
        schema: of the table.
        inputs: encoded rows, (rows, inputs).
        targets: class numbers or numbers, (rows,), or of several (rows, targets).
        classes: names by class number, or of labels.
    """
    plain = np.array(inputs, dtype=np.float32)
    named: list[list[str]] = []
    place = 0
    for column in schema.features:
        if column.kind == "category":
            names = [*column.values, ""]
            codes = np.nan_to_num(plain[:, place], nan=len(names) - 1).astype(np.int64)
            named.append(np.array(names, dtype=object)[codes].tolist())
            plain[:, place] = 0.0
        place += column.width
    if classes is not None and targets.ndim == 1:
        named.append([classes[label] for label in targets.tolist()])
    else:
        named.append(list(map(repr, targets)))
    texts = ["\x1f".join(row) for row in zip(*named, strict=True)]
    return [f"{row.tobytes().hex()}\x1f{text}" for row, text in zip(plain, texts, strict=True)]
