"""Rows of named fields, as the user has them: JSON in the argument, files of JSON or CSV, or texts as they are."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainwright.trainer.prediction.frame import WrongInputError

ENDINGS = frozenset({".txt", ".csv", ".tsv", ".jsonl", ".ndjson", ".json"})
Cells = dict[str, Any]


@dataclass(frozen=True)
class Fields:
    """What a row has."""

    needed: tuple[str, ...]
    """Names of the fields that every row has."""
    plain: str = ""
    """The field that a text by itself is; empty: a text alone is no row."""
    is_plain: Callable[[Any], bool] = lambda value: isinstance(value, str)
    """Whether a value of JSON is that field, and no row."""

    def rows(self, given: Sequence[str]) -> Iterator[tuple[Cells, Cells]]:
        """Yield for each row of some arguments what names it among the answers, and its cells.

        Raises:
            WrongInputError: an argument is no file and no row, or a row lacks a field.
        """
        for argument in given:
            path = Path(argument)
            is_file = path.suffix in ENDINGS and (len(argument.split()) == 1 or path.is_file())
            try:
                rows = self._of_file(path) if is_file else self._of_argument(argument)
                for number, row in enumerate(rows, start=1):
                    if missing := [name for name in self.needed if row.get(name) is None]:
                        has = ", ".join(str(name) for name, cell in row.items() if cell is not None) or "nothing"
                        raise ValueError(f"row {number} has no {missing[0]!r}; it has {has}")
                    place = {"row": number} if is_file or len(rows) > 1 else {}
                    yield place | {key: cell for key, cell in row.items() if key not in self.needed}, row
            except (OSError, ValueError, csv.Error, AttributeError, TypeError) as problem:
                told = getattr(problem, "strerror", None) or problem
                raise WrongInputError(f"{argument[:60]}: {told}.", self.remedy) from None

    @property
    def remedy(self) -> str:
        """What to give."""
        row = json.dumps(dict.fromkeys(self.needed, "…"), ensure_ascii=False)
        return f"Give {row}, or files of such rows (.jsonl, .json, .csv){', or a text' if self.plain else ''}."

    def _of_argument(self, argument: str) -> list[Cells]:
        if argument.lstrip().startswith(("{", "[")):
            try:
                return self._of_json(json.loads(argument))
            except json.JSONDecodeError:
                if not self.plain:
                    raise
        if not self.plain:
            raise ValueError("it is no row, and no file")
        return [{self.plain: argument}]

    def _of_json(self, found: Any) -> list[Cells]:
        listed = found if isinstance(found, list) and not self._is_one(found) else [found]
        rows = [{self.plain: one} if self._is_one(one) else one for one in listed]
        if not all(isinstance(row, dict) for row in rows):
            raise ValueError("it is no row, and no list of rows")
        return rows

    def _is_one(self, value: Any) -> bool:
        return bool(self.plain) and self.is_plain(value)

    def _of_file(self, path: Path) -> list[Cells]:
        content = path.read_text(encoding="utf-8-sig")
        lines = [line.removesuffix("\r") for line in content.split("\n") if line.strip()]
        if path.suffix == ".txt":
            return [row for line in lines for row in self._of_argument(line)]
        if path.suffix == ".json":
            return self._of_json(json.loads(content))
        if path.suffix in {".jsonl", ".ndjson"}:
            return [row for line in lines for row in self._of_json(json.loads(line))]
        first, wanted = lines[0] if lines else "", self.plain or self.needed[0]
        marks = [mark for mark in ",;\t|" if wanted in next(csv.reader([first], delimiter=mark), [])]
        mark = max(marks or ",", key=first.count)
        return list(csv.DictReader(io.StringIO(content, newline=""), delimiter=mark))
