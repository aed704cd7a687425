"""Data sets of the user's own are read before they are trusted, however much they hold."""

from __future__ import annotations

import pytest
import torch
from torch.utils.data import Dataset

from trainwright.trainer.data.assemble import from_user


class Letters(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Names as numbers of their letters, and another data set of the same names within, as scripts have it."""

    def __init__(self, names: list[str], within: Letters | None = None) -> None:
        self.names, self.within, self.raw_inputs = names, within, names

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        codes = torch.tensor([ord(letter) for letter in self.names[index]])
        return codes[:-1], codes[1:]


@pytest.mark.requirement("TRAIN-1", "PIPE-2")
def test_a_data_set_of_thousands_of_words_around_another_one_is_read() -> None:
    names = [f"{number:05d}" for number in range(5000)]
    parts = {"train": names[:4200], "validation": names[4200:4600], "test": names[4600:]}
    splits = {name: Letters(part, Letters(part)) for name, part in parts.items()}
    found = from_user(splits, None, source="own", seed=1)
    assert {name: len(samples) for name, samples in found.samples.items()} == {
        name: len(part) for name, part in parts.items()
    }
