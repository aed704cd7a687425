"""Sources, splits, order and keyed draws; and every way in which a table can be bad."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.trainer.data.loading import load

from trainwright.trainer.base.errors import DataError
from trainwright.trainer.data.assemble import from_loaded
from trainwright.trainer.data.fingerprint import record_split, sample_digest
from trainwright.trainer.data.loader import BatchLoader
from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.data.splits import split_indices
from trainwright.trainer.data.tensors import TensorSamples

TABLE = "a,b,kind\n1,2,x\n3,4,y\n5,6,x\n7,8,y\n"


@pytest.mark.requirement("TRAIN-1")
@pytest.mark.parametrize(
    ("name", "shape", "classes"),
    [
        ("digits", (1, 8, 8), 10),
        ("iris", (4,), 3),
        ("wine", (13,), 3),
        ("breast_cancer", (30,), 2),
        ("diabetes", (10,), 0),
    ],
)
def test_built_in_sources_hold_what_the_library_holds(name: str, shape: tuple[int, ...], classes: int) -> None:
    from sklearn import datasets

    loaded, bunch = load(name), getattr(datasets, f"load_{name}")()
    inputs, targets = loaded.samples.tensors
    assert tuple(inputs.shape[1:]) == shape
    assert len(loaded.class_names or []) == classes
    np.testing.assert_array_equal(
        inputs.flatten(1).numpy(), (bunch.data / (16 if name == "digits" else 1)).astype("f4")
    )
    np.testing.assert_array_equal(targets.numpy(), bunch.target.astype(targets.numpy().dtype))


@pytest.mark.requirement("TRAIN-1")
def test_a_table_is_read_with_classes_by_name(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("\ufeff" + TABLE)
    loaded = load("csv", tmp_path / "t.csv", target="kind")
    assert loaded.class_names == ["x", "y"]
    assert loaded.samples.tensors[1].tolist() == [0, 1, 0, 1]
    assert loaded.feature_names == ["a", "b"]
    number = load("csv", tmp_path / "t.csv", target="b", features=["a"], task="regression")
    assert number.class_names is None
    assert number.samples.tensors[1].tolist() == [2.0, 4.0, 6.0, 8.0]


BAD_TABLES = {
    "empty": ("", {}, "0 line"),
    "header only": ("a,kind\n", {}, "1 line"),
    "binary": (b"\xff\xfe\x00\x01", {}, "cannot be read"),
    "no target": (TABLE, {"target": "knd"}, "Near: kind"),
    "no feature": (TABLE, {"features": ["aa"]}, "no column 'aa'"),
    "text cell": (TABLE.replace("5,6", "5,six"), {}, "line 4, column 'b': 'six'"),
    "infinite cell": (TABLE.replace("5,6", "5,inf"), {}, "line 4, column 'b': 'inf' is no finite number"),
    "short row": (TABLE.replace("5,6,x", "5,6"), {}, "line 4 has 2 cells"),
    "one class": (TABLE.replace("y", "x"), {}, "has one class only"),
    "empty target": (TABLE.replace("5,6,x", "5,6,"), {}, "line 4: the target 'kind' is empty"),
}


@pytest.mark.requirement("PIPE-2", "TRAIN-1")
@pytest.mark.parametrize("fault", BAD_TABLES)
def test_a_bad_table_is_told_by_row_and_column(fault: str, tmp_path: Path) -> None:
    content, args, told = BAD_TABLES[fault]
    path = tmp_path / "t.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(DataError) as caught:
        load("csv", path, **{"target": "kind", **args})
    assert told in caught.value.message
    assert caught.value.remedy


@pytest.mark.requirement("PIPE-2")
def test_bad_arrays_are_told_and_pickles_are_not_read(tmp_path: Path) -> None:
    x, y = np.zeros((4, 2), "f4"), np.arange(4) % 2
    np.savez(tmp_path / "good.npz", x=x, y=y)
    assert len(load("npz", tmp_path / "good.npz").samples) == 4
    np.savez(tmp_path / "short.npz", x=x, y=y[:3])
    np.savez(tmp_path / "named.npz", inputs=x, y=y)
    np.savez(tmp_path / "objects.npz", x=np.array([{}, {}], dtype=object), y=y[:2])
    (tmp_path / "torn.npz").write_bytes((tmp_path / "good.npz").read_bytes()[:100])
    np.save(tmp_path / "single.npy", x)
    (tmp_path / "single.npz").write_bytes((tmp_path / "single.npy").read_bytes())
    for name in ("short", "named", "objects", "torn", "single"):
        with pytest.raises(DataError):
            load("npz", tmp_path / f"{name}.npz")


@pytest.mark.requirement("GATE-5", "PIPE-2")
@pytest.mark.parametrize(
    ("data", "category", "told"),
    [
        (
            {"use": "csv", "args": {"path": "../outside.csv", "target": "kind"}},
            "configuration",
            "outside the code root",
        ),
        ({"use": "csv", "args": {"path": "tabel.csv", "target": "kind"}}, "configuration", "Near: table.csv"),
        ({"use": "csv", "args": {"path": "tiny.csv", "target": "kind"}}, "data", "too few for the split"),
    ],
)
def test_a_worker_tells_bad_data_apart(  # noqa: PLR0917 - fixtures
    data: dict[str, Any], category: str, told: str, tmp_path: Path, make_run: Any, work: Any
) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "table.csv").write_text(TABLE)
    (root / "tiny.csv").write_text("a,kind\n1,x\n2,y\n")
    (tmp_path / "outside.csv").write_text(TABLE)
    run = make_run(tmp_path / "run", {"model": {"use": "mlp"}, "data": data}, code_root=str(root))
    assert work(run) == 1
    assert run.status().failure.category == category
    assert told in run.status().failure.message


@pytest.mark.requirement("REPRO-4", "PIPE-2")
def test_copies_of_a_sample_never_stand_on_both_sides() -> None:
    rows = torch.randn(60, 3).repeat(3, 1)
    digests = [sample_digest(row) for row in rows]
    splits = split_indices(digests, None, SplitSection(validation=0.2, test=0.2))
    seen = {name: {digests[i] for i in indices} for name, indices in splits.items()}
    assert not seen["train"] & seen["test"]
    assert not seen["train"] & seen["validation"]
    assert sum(len(indices) for indices in splits.values()) == 180
    again = split_indices(digests, None, SplitSection(validation=0.2, test=0.2))
    assert all((again[name] == indices).all() for name, indices in splits.items())


@pytest.mark.requirement("REPRO-4")
def test_standardising_is_measured_on_the_train_split_alone() -> None:
    splits = from_loaded(load("wine"), SplitSection(), source="wine")
    train, test = splits.samples["train"].tensors[0], splits.samples["test"].tensors[0]
    torch.testing.assert_close(train.mean(0), torch.zeros(13), atol=1e-5, rtol=0)
    torch.testing.assert_close(train.std(0, unbiased=False), torch.ones(13), atol=1e-5, rtol=0)
    assert test.mean(0).abs().max() > 0.05


class Drawing(torch.utils.data.Dataset[torch.Tensor]):
    """Samples made of draws from every generator."""

    def __len__(self) -> int:
        return 11

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor([index, random.random(), float(np.random.random()), float(torch.rand(()))])


@pytest.mark.requirement("REPRO-1", "REPRO-6")
@pytest.mark.parametrize("workers", [0, 2])
def test_augmentation_is_keyed_to_the_sample_whoever_fetches_it(workers: int) -> None:
    loader = BatchLoader(Drawing(), 3, seed=5, shuffle=True, num_workers=workers)
    state = torch.get_rng_state()
    first = list(loader.batches(0))
    assert torch.equal(torch.get_rng_state(), state)  # training does not notice
    plain = list(BatchLoader(Drawing(), 3, seed=5, shuffle=True).batches(0))
    assert all(torch.equal(a, b) for a, b in zip(first, plain, strict=True))
    rest = list(loader.batches(0, offset=2))
    assert all(torch.equal(a, b) for a, b in zip(first[2:], rest, strict=True))
    other = torch.cat(list(loader.batches(1)))
    assert sorted(other[:, 0].tolist()) == list(range(11))
    assert other[:, 0].tolist() != torch.cat(first)[:, 0].tolist()
    assert not set(other[:, 1].tolist()) & set(torch.cat(first)[:, 1].tolist())
    assert len(set(other[:, 1].tolist())) == 11, "each sample has draws of its own"
    assert loader.indices(0, 1) == first[1][:, 0].long().tolist()


def test_in_memory_batches_are_those_of_any_other_loader() -> None:
    samples = TensorSamples(torch.arange(10.0), torch.arange(10))
    fast = list(BatchLoader(samples, 4, seed=1, shuffle=True, drop_last=True).batches(3))
    slow = list(BatchLoader([samples[i] for i in range(10)], 4, seed=1, shuffle=True, drop_last=True).batches(3))
    assert len(fast) == 2
    assert all(
        torch.equal(a, b) for left, right in zip(fast, slow, strict=True) for a, b in zip(left, right, strict=True)
    )


@pytest.mark.requirement("REPRO-4")
def test_a_fingerprint_is_of_the_content() -> None:
    x, y = torch.randn(8, 3), torch.arange(8) % 2
    one = record_split(TensorSamples(x, y), 42)
    assert record_split(TensorSamples(x.clone(), y), 42).fingerprint == one.fingerprint
    changed = x.clone()
    changed[3, 1] = torch.nextafter(changed[3, 1], torch.tensor(9.0))
    assert record_split(TensorSamples(changed, y), 42).fingerprint != one.fingerprint
    assert dict(one.labels) == {0: 4, 1: 4}


def test_a_part_of_a_data_set_tells_it_the_epoch() -> None:
    """A set that the engine has split hears of each epoch like a whole one."""

    class Told(torch.utils.data.Dataset[int]):
        epoch = -1

        def set_epoch(self, epoch: int) -> None:
            self.epoch = epoch

        def __len__(self) -> int:
            return 4

        def __getitem__(self, index: int) -> int:
            return 10 * self.epoch + index

    loader = BatchLoader(torch.utils.data.Subset(Told(), [1, 2]), 2, 0, shuffle=False)
    assert [next(loader.batches(epoch)).tolist() for epoch in (0, 3)] == [[1, 2], [31, 32]]
