"""Streams: one order, the same draws wherever it is read, and any position found again."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import IterableDataset, get_worker_info

from trainwright.trainer.data.loader import BatchLoader
from trainwright.trainer.evidence import ignored_keys


class Noisy(IterableDataset[Any]):
    """Counts, with noise of all three generators, and tells in which process it was read."""

    def __len__(self) -> int:
        return 22

    def __iter__(self) -> Iterator[Any]:
        for number in range(22):
            noise = torch.tensor([random.random(), float(np.random.rand()), float(torch.rand(()))])
            yield torch.tensor(number), noise, torch.tensor(get_worker_info() is not None)


def batches(workers: int, epoch: int, offset: int = 0) -> list[Any]:
    return list(BatchLoader(Noisy(), 4, seed=7, shuffle=False, num_workers=workers).batches(epoch, offset))


@pytest.mark.requirement("REPRO-6", "TRAIN-2")
def test_a_stream_is_the_same_for_any_number_of_workers_and_from_any_position() -> None:
    here, there, more = batches(0, 3), batches(1, 3), batches(2, 3)
    assert len(here) == 6
    assert not here[0][2].any()
    assert there[0][2].all()
    for other in (there, more):
        for ours, theirs in zip(here, other, strict=True):
            assert torch.equal(ours[0], theirs[0])
            assert torch.equal(ours[1], theirs[1])
    for workers in (0, 2):
        rest = batches(workers, 3, offset=4)
        assert all(torch.equal(ours[1], theirs[1]) for ours, theirs in zip(here[4:], rest, strict=True))
    assert not torch.equal(here[0][1], batches(0, 4)[0][1])


STREAM = """
class Stream(torch.utils.data.IterableDataset):
    def __len__(self):
        return 40
    def __iter__(self):
        for x, y in data():
            yield x + 0.1 * torch.randn(4), y
def streams():
    return {"train": Stream(), "validation": data(20)}
"""


@pytest.mark.requirement("REPRO-6", "CONF-1")
@pytest.mark.parametrize("workers", [0, 1, 2])
def test_training_on_a_stream_resumes_to_the_bit(
    workers: int, tmp_path: Path, mine: str, assert_resumes_exactly: Any
) -> None:
    (tmp_path / "streamed.py").write_text(mine + STREAM)
    values = {
        "model": {"use": "streamed:Net"},
        "data": {"use": "streamed:streams"},
        "loader": {"batch_size": 4, "num_workers": workers},
        "logging": {"tensorboard": False},
    }
    resumed = assert_resumes_exactly(values)
    one_reads_ahead = ["loader.num_workers"] if workers > 1 else []
    assert ignored_keys(resumed.config, resumed) == one_reads_ahead, "more workers than one are not silently left out"
