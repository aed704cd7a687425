"""Labels: their order in the loss, in the batch and in the epoch; and what is compared between splits."""

from __future__ import annotations

import pytest
import torch

from trainwright.trainer.data.tensors import TensorSamples
from trainwright.trainer.watch.silent.functions import LossCall
from trainwright.trainer.watch.silent.inputs_check import other_preprocessing
from trainwright.trainer.watch.silent.labels_check import labels_in_blocks, shuffled_targets, targets_of
from trainwright.trainer.watch.silent.record import StepRecord
from trainwright.trainer.watch.silent.steps_check import Rates
from trainwright.trainer.watch.silent.tensors import facts_of

pytestmark = pytest.mark.requirement("DIAG-7")
INPUTS, LABELS = torch.randn(64, 5, generator=torch.Generator().manual_seed(1)), torch.arange(64) % 4


def record(batch: torch.Tensor, target: torch.Tensor) -> StepRecord:
    made = StepRecord(1, {}, set(), batches=[(INPUTS[:16], batch)], rows=16, indices=list(range(16)))
    made.functions.losses.append(LossCall("cross_entropy", (16, 4), (16,), True, target))
    return made


def test_targets_in_another_order_are_found_in_the_loss_and_in_the_batch() -> None:
    order, moved = LABELS[:16], LABELS[:16].roll(1)
    assert shuffled_targets(record(order, order), LABELS) is None
    in_loss, in_batch = shuffled_targets(record(order, moved), LABELS), shuffled_targets(record(moved, moved), LABELS)
    assert in_loss is not None
    assert in_batch is not None
    assert in_loss.rows == tuple(range(16))
    assert "the batch has" in in_batch.detail
    assert shuffled_targets(record(order, (LABELS[:16] + 1) % 4), None) is not None, "a permutation, by chance or not"
    assert shuffled_targets(record(order, torch.zeros(16, dtype=torch.int64)), LABELS) is None, "other targets"


def test_targets_are_read_where_no_sample_has_to_be_fetched() -> None:
    class Fetching:
        def __len__(self) -> int:
            return 64

        def __getitem__(self, index: int) -> object:
            raise AssertionError("a fetch may draw")

    assert torch.equal(targets_of(TensorSamples(INPUTS, LABELS)), LABELS)  # type: ignore[arg-type]
    assert torch.equal(targets_of([(x, int(y)) for x, y in zip(INPUTS, LABELS, strict=True)]), LABELS)  # type: ignore[arg-type]
    assert targets_of(Fetching()) is None


def test_blocks_of_a_label_are_no_chance() -> None:
    ordered = LABELS.sort().values
    blocks = [list(range(n * 16, n * 16 + 16)) for n in range(3)]
    found = labels_in_blocks(ordered, blocks)
    assert found is not None
    assert found.measured == 1.0
    assert labels_in_blocks(LABELS, blocks) is None
    assert labels_in_blocks(torch.tensor([0] * 63 + [1]), blocks) is None, "a rare label"
    assert labels_in_blocks(torch.zeros(64, dtype=torch.int64), blocks) is None


def test_blocks_are_judged_beside_the_rows_that_the_epoch_draws_from() -> None:
    among = torch.tensor([*(LABELS == 0).nonzero().flatten().tolist(), 1, 5])
    mixed = [among[torch.arange(start, len(among), 2)].tolist() for start in (0, 1)]
    order = [[*rows, *rows] for rows in mixed]
    assert labels_in_blocks(LABELS, order) is not None, "of all rows a quarter are of that class"
    assert labels_in_blocks(LABELS, order, among) is None, "of those that a curriculum lets in almost all"
    ordered = torch.arange(64)
    blocks = [[*range(0, 64, 4)], [*range(1, 64, 4)], [*range(2, 64, 4)]]
    assert labels_in_blocks(LABELS, blocks, ordered) is not None


def test_inputs_on_another_scale_are_told_from_a_shift_of_one_column() -> None:
    trained = {"0": facts_of(INPUTS)}
    shifted = INPUTS.clone()
    shifted[:, 0] += 50
    assert other_preprocessing(trained, {"0": facts_of(shifted)}, "in validation") is None
    assert other_preprocessing(trained, {"0": facts_of(INPUTS[:20] * 1.5 + 0.3)}, "in validation") is None
    for other in (INPUTS * 255, INPUTS * 4 + 2, INPUTS.double()):
        assert other_preprocessing(trained, {"0": facts_of(other)}, "in validation") is not None


def test_a_rate_is_followed_over_the_run() -> None:
    def found(rates: list[float], total: int) -> bool:
        watch = Rates(total)
        return any(watch.note(step, rate) is not None for step, rate in enumerate(rates, 1))

    assert found([0.1, 0.01, 0.001], 100)
    assert found([0.1, 0.05, 0.0], 100)
    assert not found([0.1 * 0.9999**step for step in range(5)], 5000)
    assert not found([0.0, 0.05, 0.1], 100)
    assert not found([0.1] * 90 + [0.0] * 10, 100)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_rows_that_are_no_numbers_are_named_and_masks_are_not(bad: float) -> None:
    rows = INPUTS.clone()
    rows[[3, 9], 1] = bad
    rows[5] = -torch.inf
    assert facts_of(rows).bad_rows == [3, 9]


def test_a_wild_row_is_found_and_is_no_other_preprocessing() -> None:
    wild = INPUTS.clone()
    wild[7] = 2000.0
    found = facts_of(wild)
    assert found.wild_rows == [7]
    assert found.wildest > 1000
    assert other_preprocessing({"x": facts_of(INPUTS)}, {"x": found}, "in validation") is None
    assert other_preprocessing({"x": facts_of(INPUTS)}, {"x": facts_of(INPUTS + 9)}, "in validation") is not None
    tail = INPUTS.clone()
    tail[7, 0] = 2000.0
    assert facts_of(tail).wild_rows == [], "one column far outside may be a heavy tail"
    assert facts_of(INPUTS * 1000).wild_rows == []
    assert facts_of(torch.cat([wild[7:8].expand(32, 5), INPUTS[:32]])).wild_rows == [], "half of the rows are a cluster"
    assert facts_of(torch.zeros(64, 0)).wild_rows == []
    masked = INPUTS.clone()
    masked[7] = -torch.inf
    assert facts_of(masked).wild_rows == [], "a row that is masked as a whole"
