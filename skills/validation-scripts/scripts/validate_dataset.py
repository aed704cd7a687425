#!/usr/bin/env python3
"""Validate a table in a file before anything trains on it; no project is needed.

    python validate_dataset.py churn.csv --target churned [--held-out test.csv] [--labels yes,no] [--strict]

With the standard library alone, of .csv and .tsv: rows of another length than the header, repeated column names, equal
rows, rows without a target, targets that --labels does not list, and rows that also stand in --held-out (a leak).
Where Trainwright is installed, also the checks that it makes before every run (of parquet, jsonl and arrow too), with
--expectations FILE those of a file beside the data; --plain leaves them out. Exit code 0: nothing stops a training; 1:
an error (with --strict also a warning) was found; 2: file or arguments cannot be used. The last line is JSON.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from findings import Outcome, UncheckableError, run

SEPARATORS = {".csv": ",", ".tsv": "\t"}
MAX_ROWS_NAMED = 10
Rows = list[tuple[int, list[str]]]


@dataclass(frozen=True)
class Request:
    """What is to be validated, and against what."""

    path: Path
    target: str | None
    held_out: Path | None
    labels: frozenset[str]
    expectations: str | None
    is_strict: bool
    is_plain: bool


def main() -> int:
    """Validate, print, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path, help="a table: csv, tsv; with Trainwright also parquet, jsonl, arrow")
    parser.add_argument("--target", help="the column to predict")
    parser.add_argument("--held-out", type=Path, help="a second csv or tsv, none of whose rows may be in the first")
    parser.add_argument("--labels", help="the targets that may occur, with commas between them")
    parser.add_argument("--expectations", help="a file of expectations in the data's folder")
    parser.add_argument("--strict", action="store_true", help="warnings count as errors")
    parser.add_argument("--plain", action="store_true", help="only the checks that need no Trainwright")
    given = parser.parse_args()
    labels = frozenset(given.labels.split(",")) if given.labels else frozenset()
    request = Request(given.path, given.target, given.held_out, labels, given.expectations, given.strict, given.plain)
    return run(request.path.name, lambda outcome: check(outcome, request))


def check(outcome: Outcome, request: Request) -> None:
    """Check the table. Raises UncheckableError."""
    if request.path.suffix.lower() in SEPARATORS:
        _check_text(outcome, request)
    elif request.is_plain or request.held_out is not None or request.labels:
        raise UncheckableError(
            f"{request.path.name} is no csv or tsv, which --plain, --held-out and --labels read.",
            "Leave those options out, or give the table as csv.",
        )
    if request.is_plain:
        outcome.not_checked.append("Trainwright's checks: --plain leaves them out")
    elif not any(one["check"] == "ragged_row" for one in outcome.findings):
        _check_by_trainwright(outcome, request)


def _check_text(outcome: Outcome, request: Request) -> None:
    header, rows = _table(request.path)
    outcome.facts = {"rows": len(rows), "columns": len(header)}
    repeated = sorted({name for name in header if header.count(name) > 1})
    if repeated:
        outcome.found("repeated_column", f"the header has {repeated[0]!r} twice", "Give each column its own name.")
    ragged = [line for line, row in rows if len(row) != len(header)]
    _named(outcome, "ragged_row", ragged, f"have not the {len(header)} cells of the header", "Correct these lines.")
    _check_equal(outcome, rows, request)
    if request.target is not None:
        if request.target not in header:
            raise UncheckableError(
                f"{request.path.name} has no column {request.target!r}; it has {', '.join(header[:20])}.",
                "Give --target one of them, or leave it out.",
            )
        _check_targets(outcome, rows, header.index(request.target), request.labels)
    if request.held_out is not None:
        _check_leaked(outcome, header, rows, request.held_out)


def _table(path: Path) -> tuple[list[str], Rows]:
    """Return header and rows with their line numbers. Raises UncheckableError."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = _lines(file, SEPARATORS[path.suffix.lower()])
            _, header = next(lines, (0, []))
            rows = [line for line in lines if line[1]]
    except (OSError, UnicodeDecodeError, csv.Error, KeyError) as error:
        raise UncheckableError(
            f"{path} cannot be read: {error}.", "Give a csv or tsv in UTF-8 with a header."
        ) from error
    if not header or not rows:
        raise UncheckableError(f"{path.name} has no rows below a header.", "Give a table with a header and rows.")
    return header, rows


def _lines(file: Iterable[str], separator: str) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(file, delimiter=separator, strict=True)
    for row in reader:
        yield reader.line_num, row


def _check_equal(outcome: Outcome, rows: Rows, request: Request) -> None:
    first: dict[tuple[str, ...], int] = {}
    again = [line for line, row in rows if first.setdefault(tuple(row), line) != line]
    text = "equal an earlier row: a split puts some of them on both sides"
    _named(outcome, "equal_rows", again, text, "Take them out, or keep them together.", counts=request.is_strict)


def _check_targets(outcome: Outcome, rows: Rows, place: int, labels: frozenset[str]) -> None:
    cells = [(line, row[place].strip()) for line, row in rows if len(row) > place]
    empty = [line for line, cell in cells if not cell]
    _named(outcome, "no_target", empty, "have no target", "Take them out, or fill them in.")
    foreign = [(line, cell) for line, cell in cells if cell and labels and cell not in labels]
    names = ", ".join(sorted({repr(cell) for _, cell in foreign})[:5])
    _named(outcome, "foreign_label", [line for line, _ in foreign], f"have a target that is not listed: {names}",
           "Correct them, or add the label to --labels.")  # fmt: skip


def _check_leaked(outcome: Outcome, header: list[str], rows: Rows, held_out: Path) -> None:
    theirs, others = _table(held_out)
    if sorted(theirs) != sorted(header):
        raise UncheckableError(f"{held_out.name} has other columns.", "Compare two tables with the same columns.")
    order = [theirs.index(name) for name in header]
    known = {tuple(row[place] for place in order) for _, row in others if len(row) == len(theirs)}
    leaked = [line for line, row in rows if tuple(row) in known]
    text = f"also stand in {held_out.name}: what is measured on that is too good"
    _named(outcome, "leaked_row", leaked, text, "Take them out of one of the two.")


def _named(
    outcome: Outcome, check: str, lines: list[int], text: str, remedy: str, *, counts: bool = True
) -> None:  # fmt: skip
    if lines:
        shown = f"{len(lines)} rows {text} (lines {', '.join(map(str, lines[:MAX_ROWS_NAMED]))})"
        outcome.found(check, shown, remedy, counts=counts, lines=lines[:MAX_ROWS_NAMED])


def _check_by_trainwright(outcome: Outcome, request: Request) -> None:
    try:
        from trainwright.trainer.base.errors import TrainwrightError
        from trainwright.trainer.data.validation.validate import validate_file
    except ImportError as error:
        if request.path.suffix.lower() not in SEPARATORS:
            raise UncheckableError(f"{request.path.name} needs Trainwright: {error}.", "Give it as csv.") from error
        outcome.not_checked.append(f"Trainwright's checks: it cannot be imported ({error})")
        return
    try:
        report = validate_file(request.path, request.target, request.expectations)
    except TrainwrightError as error:
        raise UncheckableError(error.message, error.remedy) from error
    counting = {"error", "warning"} if request.is_strict else {"error"}
    for one in report.worst_first():
        more = one.model_dump(mode="json", include={"family", "column", "severity", "rows"})
        outcome.found(one.name, one.text, one.remedy, counts=one.severity in counting, **more)
    outcome.not_checked += [f"{one.what}: {one.why}" for one in report.not_checked]
    outcome.facts |= {"rows": report.rows, "checks": len(report.checks)}


if __name__ == "__main__":
    sys.exit(main())
