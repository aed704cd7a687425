"""Tables whose columns are named by a line of the file, which may not be the first, or not be there."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import dropwhile
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, model_validator

from trainwright.trainer.data.sources import csv_faults as faults
from trainwright.trainer.data.sources.cells import named
from trainwright.trainer.data.sources.source import Name
from trainwright.trainer.data.sources.tables import Table


class Headed(Table):
    """A file whose columns are named by one of its lines."""

    header: Annotated[int, Field(ge=0, le=1_000_000)] | None = None
    """Line of the columns' names, counted from 1; 0: there is none. Left out: the first line that is no comment."""
    names: Annotated[list[Name], Field(min_length=1)] | None = None
    """Names of the columns where the file has no header line, or with `header` other ones than it has."""

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        if self.names is not None and len(set(self.names)) < len(self.names):
            raise ValueError("two of the names are equal")
        return self

    @property
    def is_headed(self) -> bool:
        """Whether a line of the file names the columns."""
        return self.header != 0 and (self.header is not None or self.names is None)

    def started(self, path: Path, lines: Sequence[faults.Line]) -> tuple[list[str], int]:
        """Return the columns' names, and the number of lines above the first row.

        Args:
            path: of the file.
            lines: the first that are not blank.

        Raises:
            DataError: there is no line, two columns are of one name, or the first line seems to be no header.
        """
        if self.is_headed:
            is_above = (self.header or 1) - 1
            lines = list(
                dropwhile(lambda line: line.above < is_above or not any(cell.strip() for cell in line.cells), lines)
            )
        if not lines:
            raise faults.too_short(path, 0)
        header, widths = lines[0].cells, {len(line.cells) for line in lines}
        if self.is_headed and self.header is None:
            faults.require_header(path, lines)
        if self.names is not None and len(self.names) not in widths:
            raise faults.other_width(path, self.names, header)
        if not self.is_headed:
            return self.names or [f"column_{number}" for number in range(1, len(header) + 1)], lines[0].above
        return self.names or named(header, path), lines[0].line
