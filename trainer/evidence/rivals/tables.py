"""Columns of a table as rivals are fed with them."""

from __future__ import annotations

import numpy as np

from trainwright.trainer.config import TrainingConfig
from trainwright.trainer.data.splits import Splits
from trainwright.trainer.data.tensors import TensorSamples
from trainwright.trainer.evidence.data import places_of
from trainwright.trainer.evidence.rivals.fitted import Array

MAX_OF_ARRAY = 200
"""Numbers in a row of three dimensions, (rows, steps, values), that is read as a table's."""
MAX_CATEGORIES = 255
"""Of a column that is declared as one of categories; of more its codes are taken as numbers."""


def is_table(samples: TensorSamples) -> bool:
    """Return whether samples are rows of numbers each with one target or several: of two dimensions, or few numbers."""
    if len(samples.base) != 2 or samples.base[1].dim() > 2:
        return False
    inputs = samples.base[0]
    return inputs.dim() == 2 or (inputs.dim() == 3 and inputs[0].numel() <= MAX_OF_ARRAY)


def inputs_of(samples: TensorSamples) -> Array:
    """Return a table's inputs, (rows, inputs), as the source has them; those of an array one behind the other."""
    return np.asarray(samples.column(0).flatten(1).numpy(force=True))


def seed_of(config: TrainingConfig) -> int:
    """Return the seed of the data."""
    return config.data.split.seed if config.data is not None else 0


def category_codes(splits: Splits, inputs: Array) -> dict[int, Array]:
    """Return the codes of each declared column of categories by its place among inputs, (rows, inputs)."""
    columns = splits.schema.features if splits.schema is not None else []
    named, found = {one.name for one in columns if one.kind == "category"}, dict[int, Array]()
    for place in (place for name, place in places_of(splits).items() if name in named):
        codes = np.unique(inputs[:, place])
        codes = codes[codes >= 0]
        if 0 < len(codes) <= MAX_CATEGORIES:
            found[place] = codes
    return found
