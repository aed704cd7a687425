"""Shipped evaluation: what `evaluate.py` in a final model's folder runs, for whoever holds the folder and the rows.

`evaluation.json` beside it has the order, with paths below the folder, and the certified numbers that the ledger holds.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .evaluation import evaluate
from .rows import RefusalError

RECORD, ROWS = "evaluation.json", "rows"
SAME = 1e-3
"""Share by which a number may differ: another processor rounds otherwise."""


def main(folder: Path, arguments: list[str]) -> int:
    """Print one JSON object; return the exit status, 0 where the numbers are the certified ones.

    Args:
        folder: of the final model.
        arguments: of the command line.
    """
    parser = argparse.ArgumentParser(prog="evaluate.py", description="Evaluate this model on the rows fixed for it.")
    parser.add_argument("--rows", type=Path, help="folder that holds rows/, where the model's own folder has none")
    given = parser.parse_args(arguments)
    try:
        answer = evaluate_folder(folder, given.rows)
    except RefusalError as error:
        answer = {"problem": error.problem, "remedy": error.remedy}
    print(json.dumps(answer, allow_nan=False))  # noqa: T201 - its output
    return 0 if answer.get("agrees") else 1


def evaluate_folder(folder: Path, rows: Path | None = None) -> dict[str, Any]:
    """Return the numbers of each split, the certified ones beside them, and whether they agree.

    Raises:
        RefusalError: the rows or the program are not there, or not those that were recorded.
    """
    record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    order = record["order"]
    order["program"]["path"] = str(folder / order["program"]["path"])
    order["rows"]["folder"] = str(_rows_of(folder, rows, record))
    found = evaluate(order)
    numbers = {split: figures(one) for split, one in found["splits"].items()}
    certified = record["certified"]
    if not any(values.keys() - {ROWS} for values in certified.values()):
        what = "No certified number is computed of these rows: the model is measured by the user's own function."
        raise RefusalError(what, f"Call it with the program for each of the episodes' seeds that {RECORD} names.")
    return {
        **numbers,
        "certified": certified,
        "agrees": all(_is_same(numbers[split], values) for split, values in certified.items()),
        "versions": found["versions"],
    }


def figures(split: Mapping[str, Any]) -> dict[str, Any]:
    """Return the numbers of an evaluated split by name: its rows, its metrics, and those of each of several targets."""
    of_targets = {
        f"{name} of {one['name']}": value for one in split.get("targets", []) for name, value in one["metrics"].items()
    }
    return {"rows": split["rows"], **split["metrics"], **of_targets}


def _rows_of(folder: Path, given: Path | None, record: dict[str, Any]) -> Path:
    """Return the folder that holds `rows/`."""
    place = folder if given is None else given.parent if given.name == ROWS else given
    if (place / ROWS).is_dir():
        return place
    if given is None:
        what = "This folder has the digests of the rows and not the rows: they are their owner's."
        script, there = (os.path.relpath(folder / name) for name in ("evaluate.py", record["rows"]))
        raise RefusalError(what, f"Name the rows: python {script} --rows {there}")
    raise RefusalError(f"There is no folder {ROWS} in {given}.", "Name the folder that holds it.")


def _is_same(found: dict[str, float], certified: dict[str, float]) -> bool:
    return all(
        name in found and abs(found[name] - value) <= SAME * max(abs(value), abs(found[name])) + 1e-9
        for name, value in certified.items()
    )
