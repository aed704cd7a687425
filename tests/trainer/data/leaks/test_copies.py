"""Copies of held-out rows left out of train."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from trainwright.trainer.base.errors import DataError
from trainwright.trainer.data.assemble import from_loaded
from trainwright.trainer.data.leaks.copies import without_copies
from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.data.sources.source import Loaded
from trainwright.trainer.data.tensors import TensorSamples


@pytest.mark.requirement("PIPE-2")
def test_equal_and_almost_equal_rows_are_left_out_of_train():
    rng = np.random.default_rng(0)
    train, held_out = rng.normal(0, 1, (200, 5)), rng.normal(0, 1, (40, 5))
    train[:10] = held_out[:10]
    train[10:20] = held_out[10:20] + 1e-4
    kept = without_copies(train, held_out)
    assert not kept[:20].any()
    assert kept[20:].all()
    with pytest.raises(DataError, match="Every train row"):
        without_copies(held_out, held_out)


def test_a_split_that_keeps_copies_is_described_as_before():
    assert "drop_copies" not in SplitSection().describe()
    assert SplitSection(drop_copies=True).describe()["drop_copies"] is True


def test_how_many_rows_were_left_out_as_copies_is_said():
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.normal(0, 1, (200, 4)).astype(np.float32))
    x[150:] = x[:50] + 1e-5
    loaded = Loaded(TensorSamples(x, torch.arange(200) % 2))
    found = from_loaded(loaded, SplitSection(drop_copies=True), source="csv")
    parts = {name: part.base[0][part.rows] for name, part in found.samples.items()}
    assert not (torch.cdist(parts["validation"], parts["test"]) < 1e-3).any(), "nor between those that are held out"
    left = 200 - sum(map(len, found.samples.values()))
    assert left > 0
    assert found.understood["left_out"] == f"{left} of 200 rows: copies of rows held out after them, or almost"
