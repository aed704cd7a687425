"""Data sets of the user's own are read before they are trusted, however much they hold."""

from __future__ import annotations

import pytest
import torch
from torch.utils.data import Dataset, TensorDataset

from trainwright.trainer.data.assemble import from_user
from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.jobs.export.own_functions import raw_inputs_of


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


@pytest.mark.requirement("PHASE-6")
@pytest.mark.parametrize("is_divided", [True, False])
def test_a_tensor_data_set_keeps_what_its_rows_were(is_divided: bool) -> None:
    whole = TensorDataset(torch.arange(60.0)[:, None], torch.arange(60) % 2)
    whole.raw_inputs = [f"{number}.0" for number in range(60)]  # type: ignore[attr-defined]
    parts = dict.fromkeys(("train", "validation", "test"), whole)
    split = None if is_divided else SplitSection()
    validation = from_user(parts if is_divided else whole, split, source="own", seed=1).samples["validation"]
    told = raw_inputs_of(validation)
    assert told == [str(validation[place][0].item()) for place in range(len(validation))]
