"""Data that promise more than they hold."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils.data import Dataset, IterableDataset

from trainwright.trainer.base.errors import DataError
from trainwright.trainer.data.assemble import from_user
from trainwright.trainer.data.sections import SplitSection


class Boasting(Dataset[Any]):
    """A billion samples, ten of which are there."""

    def __init__(self, present: int = 10) -> None:
        self.held = torch.randn(present, 3)

    def __len__(self) -> int:
        return 10**9

    def __getitem__(self, index: int) -> Any:
        return self.held[index], index % 2


class BoastingStream(IterableDataset[Any]):
    """The same as a stream."""

    def __len__(self) -> int:
        return 10**9

    def __iter__(self) -> Any:
        return iter(torch.randn(10, 3))


@pytest.mark.requirement("TRAIN-1")
@pytest.mark.parametrize("section", [SplitSection(), None])
def test_a_billion_samples_promised_and_ten_there_are_refused_at_once(section: SplitSection | None) -> None:
    with pytest.raises(DataError, match=r"promises 1,000,000,000 samples, .* the last that is there is 9"):
        from_user(Boasting(), section, source="own", seed=1)
    with pytest.raises(DataError, match=r"None of the 1,000,000,000 samples is there"):
        from_user({"train": Boasting(0)}, section, source="own", seed=1)
    with pytest.raises(DataError, match=r"ends after 10 samples; its `__len__` says 1000000000"):
        from_user(BoastingStream(), section, source="own", seed=1)
