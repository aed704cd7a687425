"""State that no library declares: attributes, clocks, generators of the user's own, the rows behind a loader."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset

from trainwright.trainer.frameworks.attributes import Attributes, named
from trainwright.trainer.frameworks.generators import key, put_state, state_of
from trainwright.trainer.frameworks.lightning.settings import like
from trainwright.trainer.frameworks.positioned import PositionedLoader, has_rows_of

pytestmark = pytest.mark.requirement("TRAIN-7")


def _resumed(first: Any, changed: Any) -> None:
    """Put what changed of one object into the other, as a resumed run does."""
    saving = Attributes(lambda: {"it": changed})
    state = saving.state_dict()
    resuming = Attributes(lambda: {"it": first})
    resuming.load_state_dict(state)
    resuming.apply()


def test_a_tensor_is_put_back_in_place_so_that_an_optimizer_keeps_it() -> None:
    first, changed = (SimpleNamespace(temperature=torch.ones(2, requires_grad=True)) for _ in range(2))
    first.same = first.temperature
    optimizer = torch.optim.SGD([first.temperature], lr=1.0)
    with torch.no_grad():
        changed.temperature += 2
    _resumed(first, changed)
    assert first.temperature is optimizer.param_groups[0]["params"][0] is first.same
    assert first.temperature.tolist() == [3.0, 3.0]
    assert first.temperature.is_leaf
    assert first.temperature.requires_grad


def test_only_the_libraries_own_clocks_are_left_out() -> None:
    values = {"eval_time_mae": 1.0, "eval_runtime": 2.0, "eval_samples_per_second": 3.0, "eval_time_step": 4.0}
    assert named(values) == {"time_mae": 1.0, "time_step": 4.0}
    first, changed = SimpleNamespace(time_step=0), SimpleNamespace(time_step=7)
    _resumed(first, changed)
    assert first.time_step == 7


@pytest.mark.parametrize(
    ("made", "drawn"),
    [
        (lambda: torch.Generator().manual_seed(1), lambda each: torch.rand((), generator=each).item()),
        (lambda: np.random.default_rng(1), lambda each: each.random()),
        (lambda: np.random.Generator(np.random.MT19937(1)), lambda each: each.random()),
        (lambda: np.random.RandomState(1), lambda each: each.random_sample()),
        (lambda: random.Random(1), lambda each: each.random()),
    ],
)
def test_a_generator_of_ones_own_is_saved_and_keyed(made: Any, drawn: Any) -> None:
    first, changed = SimpleNamespace(rng=made()), SimpleNamespace(rng=made())
    drawn(changed.rng)
    _resumed(first, changed)
    assert drawn(first.rng) == drawn(changed.rng)
    put_state(first.rng, state_of(changed.rng))
    assert drawn(first.rng) == drawn(changed.rng)
    key([first.rng, changed.rng], 9)
    again = drawn(first.rng)
    assert again == drawn(changed.rng) != drawn(first.rng)


class OwnDraws(Dataset[Any]):
    """Samples with draws of a generator that nobody seeds but itself."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(1)

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> Any:
        return torch.tensor(index + self.rng.random())


@pytest.mark.parametrize("wrap", [lambda it: it, lambda it: Subset(it, range(12))])
def test_a_data_sets_own_generator_draws_the_same_from_any_position(wrap: Any) -> None:
    def batches(offset: int) -> list[Any]:
        loader = PositionedLoader(DataLoader(wrap(OwnDraws()), 4, shuffle=True), seed=5)
        return [batch.tolist() for batch in loader.batches(1, offset)]

    assert batches(2) == batches(0)[2:]
    assert len({value % 1 for batch in batches(0) for value in batch}) == 12


def test_validation_reads_every_row_in_order() -> None:
    samples = TensorDataset(torch.arange(10))
    read = like(DataLoader(samples, 4, shuffle=True, drop_last=True), samples)
    assert torch.cat([batch for (batch,) in read]).tolist() == list(range(10))


def test_a_loader_reads_the_rows_that_were_given() -> None:
    datasets = pytest.importorskip("datasets", reason="the package datasets, which TRL brings, is not installed")
    given = datasets.Dataset.from_dict({"a": [1, 2, 3], "b": [4, 5, 6]})
    assert has_rows_of(given.remove_columns("b"), given)
    assert not has_rows_of(datasets.Dataset.from_dict({"a": [1, 2, 4]}), given)
    assert not has_rows_of(given.select([2, 1, 0]), given)
    assert not has_rows_of([1, 2], [1, 2])


class FromItsWorker(Dataset[Any]):
    """Samples that only a worker that was set up can give."""

    number = 0

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> int:
        return index + self.number


def _set_up(_worker: int) -> None:
    FromItsWorker.number = 100


@pytest.mark.forks
def test_loader_workers_are_set_up_as_the_user_does() -> None:
    raw = DataLoader(FromItsWorker(), 4, num_workers=1, worker_init_fn=_set_up)
    assert [batch.tolist() for batch in PositionedLoader(raw, seed=5)] == [[100, 101, 102, 103]]


def test_what_no_checkpoint_can_hold_is_named() -> None:
    it = SimpleNamespace(own=OwnDraws(), number=3, rng=random.Random(1), names=["a"], scale=torch.ones(1))
    (told,) = Attributes(lambda: {"trainer": it}).left_out()
    assert told.endswith("trainer.own (OwnDraws).")
