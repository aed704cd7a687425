"""Columns of a table as rivals are fed with them."""

from __future__ import annotations

import numpy as np

from trainwright.trainer.data.splits import Splits
from trainwright.trainer.evidence.data import places_of
from trainwright.trainer.evidence.rivals.fitted import Array

MOST_CATEGORIES = 255
"""Of a column that is declared as one of categories; of more its codes are taken as numbers."""


def category_codes(splits: Splits, inputs: Array) -> dict[int, Array]:
    """Return the codes of each declared column of categories by its place among inputs, (rows, inputs)."""
    columns = splits.schema.features if splits.schema is not None else []
    named, found = {one.name for one in columns if one.kind == "category"}, dict[int, Array]()
    for place in (place for name, place in places_of(splits).items() if name in named):
        codes = np.unique(inputs[:, place])
        codes = codes[codes >= 0]
        if 0 < len(codes) <= MOST_CATEGORIES:
            found[place] = codes
    return found
