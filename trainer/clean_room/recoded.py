"""A program on rows that were encoded for a later one: columns in its own order, categories by its own codes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from .rows import Array, RefusalError

if TYPE_CHECKING:
    from .programs import Program


class Recoded:
    """A program of one input, a table's columns (rows, columns), that is given rows of another encoding."""

    def __init__(self, program: Program, recode: Mapping[str, Any]) -> None:
        self.program, self.batch, self.versions = program, program.batch, program.versions
        self.take: list[int] = list(recode["take"])
        """Of each of the program's columns its place among those of the rows."""
        self.codes = {int(column): np.asarray(codes) for column, codes in recode["codes"].items()}
        """By the program's column: its code for each code of the rows; -1 where it does not know the category."""

    def __call__(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return the program's outputs for rows (rows, columns) of the other encoding.

        Raises RefusalError where it has no numbers for rows with empty cells.
        """
        ((name, values),) = inputs.items()
        taken = np.array(values[:, self.take])
        for column, codes in self.codes.items():
            with np.errstate(invalid="ignore"):
                known = (taken[:, column] >= 0) & (taken[:, column] < len(codes))  # neither unknown nor missing
            taken[known, column] = codes[taken[known, column].astype(int)]
        outputs = self.program({name: taken})
        lost = [~np.isfinite(one).reshape(len(taken), -1).all(1) for one in outputs.values() if len(one) == len(taken)]
        if (np.logical_or.reduce(lost) & np.isnan(taken).any(1)).any():
            raise RefusalError(
                "The earlier version answers rows with an empty cell by no number: it was trained on none.",
                "Fill the cell, or leave the row out, in the file of the later version.",
            )
        return outputs
