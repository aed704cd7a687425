"""Inputs that are tables: the target `y` and more columns, in one dialect, with what is usual of the configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from case import Case, Column, Right, numbers
from writing import delimited

NUMBER = "number"
LOSSES = {NUMBER: ("mse", ["mae"], {"metric": "mae", "direction": "minimize", "target": 1000})}
CLASSES = ("cross_entropy", ["accuracy"], {"metric": "accuracy", "direction": "maximize", "target": 0.5})


def table(
    name: str,
    source: str,
    columns: Mapping[str, Column] | None = None,
    *,
    target: str | Sequence[str] | None = NUMBER,
    write: Callable[[Path], object] | None = None,
    path: str | list[str] = "rows.csv",
    use: str = "csv",
    args: Mapping[str, Any] | None = None,
    config: Mapping[str, Any] | None = None,
    goal: Mapping[str, Any] | None = None,
    rows: int | None = -1,
    folder: str = "code",
    dialect: Mapping[str, Any] | None = None,
    **right: Any,
) -> Case:
    """Return an input that is a table.

    Args:
        name: of the input.
        source: the public report.
        columns: `y`, the target, is added where it is left out; the key and the signal stand before them.
        target: what it is: "number", or the classes' names; None: not asked for.
        write: what writes the files; left out: `rows.csv` in the dialect.
        path: `data.args.path`.
        use: `data.use`.
        args: of the data, beside path and target.
        config: of the project, beside the usual.
        goal: left out: mae of a number, accuracy of classes.
        rows: how many are understood; -1: as many as there are; None: not asked for.
        folder: of the code root.
        dialect: as `writing.delimited` takes it.
        right: fields of `Right`.
    """
    given = dict(columns or {})
    given.setdefault("y", numbers(decimals=2))
    loss, metrics, usual = LOSSES[NUMBER] if target == NUMBER else CLASSES
    whole = {
        "model": {"use": "mlp", "args": {"hidden": [8]}},
        "data": {"use": use, "args": {"path": path, "target": "y", **(args or {})}},
        "loss": loss,
        "metrics": metrics,
        "training": {"epochs": 2},
        **(config or {}),
    }
    size = len(given["y"].cells) if rows == -1 else rows
    return Case(
        name,
        source,
        write or delimited(given, **(dialect or {})),
        {key: value for key, value in whole.items() if value is not None},
        dict(goal or usual),
        Right(target=target, rows=size, columns=given, **right),
        folder,
    )
