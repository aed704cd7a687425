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

from trainwright.trainer.base.errors import DataError
from trainwright.trainer.data import fingerprint
from trainwright.trainer.data.loader import BatchLoader
from trainwright.trainer.data.validation.frames import sampled
from trainwright.trainer.evidence.run_evidence import ignored_keys

pytestmark = pytest.mark.slow


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


@pytest.mark.requirement("PIPE-2")
def test_a_stream_is_no_table_though_torch_lets_it_inherit_a_getitem() -> None:
    assert hasattr(Noisy(), "__getitem__")
    assert sampled({"train": Noisy(), "validation": [(torch.ones(2), 0)]}, seed=1) is None


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
@pytest.mark.parametrize("workers", [2, *(pytest.param(workers, marks=pytest.mark.long) for workers in (0, 1))])
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


OF_LENGTH = """
class Counted(torch.utils.data.IterableDataset):
    def __init__(self, yields, says, later=None):
        self.yields, self.says, self.later = yields, says, later
    def set_epoch(self, epoch):
        self.yields = self.later if epoch and self.later is not None else self.yields
    def __len__(self):
        return self.says
    def __iter__(self):
        for place in range(self.yields):
            yield data()[place % 40]
def of(where="train", **lengths):
    return {"train": data(), "validation": data(20), where: Counted(**lengths)}
class Regression(torch.utils.data.IterableDataset):
    def __len__(self):
        return 24
    def __iter__(self):
        return ((x, 3 * x) for x, _ in (data()[place] for place in range(24)))
def regression():
    return {"train": Regression(), "validation": Regression()}
"""


@pytest.fixture
def streamed(tmp_path: Path, mine: str) -> Any:
    """`streamed(**lengths)` is a configuration that trains on a stream of so many samples."""
    (tmp_path / "streamed.py").write_text(mine + OF_LENGTH)

    def values(**args: Any) -> dict[str, Any]:
        return {
            "model": {"use": "mlp", "args": {"hidden": [8]}},
            "data": {"use": "streamed:of", "args": args},
            "loader": {"batch_size": 4},
            "logging": {"tensorboard": False},
        }

    return values


@pytest.mark.requirement("PIPE-2")
@pytest.mark.parametrize("where", ["train", "validation"])
@pytest.mark.parametrize("yields", [19, 21, 10**9])
def test_a_stream_of_another_length_than_it_says_is_refused_before_training(
    yields: int, where: str, streamed: Any, open_session: Any
) -> None:
    told = "ends after 19 samples" if yields == 19 else "yields more than 20 samples"
    with pytest.raises(DataError, match=told) as error:
        open_session(streamed(yields=yields, says=20, where=where))
    assert "islice" in error.value.remedy


@pytest.mark.requirement("PIPE-2")
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("later", [15, 21])
def test_a_stream_whose_length_changes_on_the_way_ends_the_run(
    later: int, workers: int, streamed: Any, open_session: Any, take_steps: Any
) -> None:
    values = streamed(yields=20, says=20, later=later)
    session = open_session({**values, "loader": {"batch_size": 4, "num_workers": workers}})
    take_steps(session, 6)
    assert session.progress.step == 5
    session.progress.epoch, session.progress.batch = 1, 0
    with pytest.raises(DataError, match="ends after 4 batches" if later < 20 else "more than 5 batches"):
        take_steps(session, 6)


@pytest.mark.requirement("PIPE-2", "TRAIN-2")
def test_a_last_batch_that_is_dropped_is_not_too_many(streamed: Any, open_session: Any, take_steps: Any) -> None:
    values = streamed(yields=22, says=22)
    session = open_session({**values, "loader": {"batch_size": 4, "drop_last": True}})
    take_steps(session, 9)
    assert (session.progress.step, session.progress.samples) == (5, 20)


@pytest.mark.requirement("TRAIN-1")
def test_a_built_in_model_takes_its_sizes_from_a_stream(streamed: Any, assert_resumes_exactly: Any) -> None:
    values = streamed(yields=24, says=24)
    session = assert_resumes_exactly(values, before=2, after=2)
    assert [tuple(p.shape) for p in session.model.parameters()][-1] == (2,)
    assert session.work.splits.records["train"].labels.total() == 24


@pytest.mark.requirement("TRAIN-1")
def test_so_does_one_for_numbers(streamed: Any, open_session: Any, take_steps: Any) -> None:
    session = open_session({**streamed(), "data": {"use": "streamed:regression"}, "loss": "mse"})
    take_steps(session, 2)
    assert [tuple(p.shape) for p in session.model.parameters()][-1] == (4,)


@pytest.mark.requirement("TRAIN-1", "CONF-1")
def test_classes_of_a_stream_that_is_too_long_to_read_first_are_not_guessed(
    streamed: Any, open_session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fingerprint, "MAX_SAMPLES_READ", 10)
    with pytest.raises(DataError, match="only the first 10 samples"):
        open_session(streamed(yields=24, says=24))
