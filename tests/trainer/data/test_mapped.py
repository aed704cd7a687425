"""Rows mapped from a disk: the same samples, evidence and bits as rows in memory, and never changed in place."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from pyarrow import parquet

from trainwright.trainer import worker
from trainwright.trainer.base.errors import DataError
from trainwright.trainer.checkpoints.index import list_checkpoints
from trainwright.trainer.config import config_digest, parse_config
from trainwright.trainer.data import cache, order
from trainwright.trainer.data import mapped as mapped_module
from trainwright.trainer.data.assemble import from_loaded, withhold_test
from trainwright.trainer.data.loader import BatchLoader
from trainwright.trainer.data.mapped import Rows, mapped
from trainwright.trainer.data.order import BlockOrder
from trainwright.trainer.data.preprocessing import ToStandardize
from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.data.sources import load_source
from trainwright.trainer.data.sources.source import Loaded
from trainwright.trainer.data.tensors import TensorSamples
from trainwright.trainer.evidence.data import data_evidence
from trainwright.trainer.run import RunDirectory, RunKind, RunSpecification, RunState
from trainwright.trainer.run.environment import launch_environment

RNG = np.random.default_rng(0)
INPUTS, TARGETS = RNG.standard_normal((600, 3), dtype=np.float32), RNG.integers(0, 3, 600)
INPUTS[300:320] = INPUTS[:20]
TARGETS[300:320] = TARGETS[:20]


@pytest.fixture(autouse=True)
def kept(tmp_path: Path) -> Any:
    """The data cache of the test."""
    used = cache.DataCache(tmp_path / "cache")
    cache.use(used)
    yield used
    cache.use(None)


def write(rows: Rows) -> dict[str, Any]:
    for start in range(0, 600, 70):
        rows.add(inputs=INPUTS[start : start + 70], targets=TARGETS[start : start + 70])
    return {"classes": ["a", "b", "c"]}


def on_disk() -> TensorSamples:
    found = mapped(["source"], write)
    assert found.about == {"classes": ["a", "b", "c"]}
    return TensorSamples(*(found.arrays[name] for name in ("inputs", "targets")), is_mapped=True)


@pytest.mark.requirement("TRAIN-1", "REPRO-4")
def test_mapped_rows_give_the_evidence_of_rows_in_memory() -> None:
    in_memory = TensorSamples(torch.from_numpy(INPUTS.copy()), torch.from_numpy(TARGETS.copy()))
    evidence = [
        data_evidence(from_loaded(Loaded(samples, preprocessing=ToStandardize()), SplitSection(), source="x"), Path())
        for samples in (on_disk(), in_memory)
    ]
    assert evidence[0] == evidence[1]
    assert evidence[0].disjoint, "equal rows are in one split"


@pytest.mark.requirement("TRAIN-1")
def test_whoever_gets_mapped_rows_may_change_them() -> None:
    splits = from_loaded(Loaded(on_disk()), SplitSection(), source="x")
    samples = splits.samples["train"]
    for part in (samples[0], samples.gather([1, 2]), samples.gather(slice(4)), on_disk().gather(slice(4))):
        for tensor in part:
            tensor.zero_()
    assert np.array_equal(on_disk().base[0].numpy(), INPUTS)


@pytest.mark.requirement("TRAIN-1", "GATE-4")
def test_a_process_that_trains_maps_no_test_rows(kept: cache.DataCache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapped_module, "COPIED_AT_ONCE", 700)
    for _ in range(2):
        splits = from_loaded(Loaded(on_disk(), preprocessing=ToStandardize()), SplitSection(), source="x")
        train, held = splits.samples["train"], splits.samples["test"].rows.long()
        before = [tensor.clone() for tensor in train.gather(range(len(train)))]
        withhold_test(splits, is_built_in=True)
        assert "test" not in splits.samples
        for part in splits.samples.values():
            others = np.setdiff1d(np.arange(600), held)
            assert part.is_mapped
            for tensor, whole in zip((*part.base, part.prepare.raw), (INPUTS, TARGETS, INPUTS), strict=True):
                assert not tensor[held].any()
                assert np.array_equal(tensor[others].numpy(), whole[others])
        assert all(map(torch.equal, before, train.gather(range(len(train)))))
        assert np.array_equal(on_disk().base[0].numpy(), INPUTS)
        assert len(list(kept.folder.glob("*/*/manifest.json"))) == 2


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of 10 samples of 20 bytes, 4 of which are mixed."""
    monkeypatch.setattr(order, "BLOCK_BYTES", 200)
    monkeypatch.setattr(order, "BLOCKS_AT_ONCE", 4)


@pytest.mark.requirement("TRAIN-1", "REPRO-6")
@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("size", [1, 9, 10, 40, 405, 413])
def test_an_order_by_blocks_has_every_sample_once_wherever_it_is_begun(size: int) -> None:
    whole = BlockOrder(size, 3, 1, 20).rows(0, size)
    assert torch.equal(whole.sort().values, torch.arange(size))
    for start in (0, 1, size // 2, size - 1):
        fresh = BlockOrder(size, 3, 1, 20)
        assert torch.equal(fresh.rows(start, start + 37), whole[start : start + 37])
    others = [BlockOrder(size, 3, 2, 20), BlockOrder(size, 4, 1, 20)]
    assert size == 1 or not any(torch.equal(other.rows(0, size), whole) for other in others)
    first = Counter((row // 10) for row in whole[:40].tolist())
    assert len(first) <= 4, "the first batches read few places of the disk"


@pytest.mark.requirement("TRAIN-1", "REPRO-6")
@pytest.mark.usefixtures("small_blocks")
def test_mapped_rows_are_shuffled_by_blocks_unless_asked_otherwise() -> None:
    train = from_loaded(Loaded(on_disk()), SplitSection(), source="x").samples["train"]
    chosen = {
        by_blocks: BatchLoader(train, 16, seed=5, shuffle=True, by_blocks=by_blocks)
        for by_blocks in (None, True, False)
    }
    taken = {by_blocks: torch.cat([batch[0] for batch in one.batches(2)]) for by_blocks, one in chosen.items()}
    assert torch.equal(taken[None], taken[True])
    assert not torch.equal(taken[True], taken[False])
    assert torch.equal(taken[True].sort(dim=0).values, taken[False].sort(dim=0).values)
    resumed = torch.cat([batch[0] for batch in BatchLoader(train, 16, seed=5, shuffle=True).batches(2, offset=7)])
    assert torch.equal(resumed, taken[None][7 * 16 :])


def write_table(path: Path, rows: int = 400) -> None:
    """Write a table with numbers, categories, dates and holes, in two files."""
    for number in range(2):
        lines = [
            f"{RNG.integers(18, 90) if RNG.random() > 0.1 else ''},{'abc'[RNG.integers(3)]},"
            f"2024-0{RNG.integers(1, 9)}-11,{'yes' if RNG.random() > 0.5 else 'no'},{RNG.integers(2)}"
            for _ in range(rows // 2)
        ]
        path.mkdir(exist_ok=True)
        (path / f"{number}.csv").write_text("age,plan,since,member,score\n" + "\n".join(lines) + "\n")


def load_table(path: Path) -> Loaded:
    found = load_source("csv", {"path": "*.csv", "target": "score"}, path, SplitSection())
    assert isinstance(found, Loaded)
    return found


@pytest.mark.requirement("TRAIN-1")
def test_a_large_table_is_converted_once_and_prepared_as_one_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_table(tmp_path / "table")
    in_memory = load_table(tmp_path / "table")
    monkeypatch.setattr(mapped_module, "MAPPED_FROM_BYTES", 4000)
    large = load_table(tmp_path / "table")
    assert isinstance(large.samples, TensorSamples)
    assert isinstance(in_memory.samples, TensorSamples)
    assert large.samples.is_mapped
    assert not in_memory.samples.is_mapped
    for ours, theirs in zip(large.samples.base, in_memory.samples.base, strict=True):
        assert torch.equal(ours.nan_to_num(-1), theirs.nan_to_num(-1))
    assert large.class_names == in_memory.class_names
    monkeypatch.setattr(mapped_module.Rows, "add", None)
    again = load_table(tmp_path / "table")
    assert again.schema == large.schema, "what was found while it was converted is kept"
    fitted = [
        from_loaded(loaded, SplitSection(), source="csv").samples["train"].gather(slice(None))[0]
        for loaded in (again, in_memory)
    ]
    torch.testing.assert_close(*fitted, rtol=1e-5, atol=1e-6)


@pytest.mark.requirement("TRAIN-1", "PIPE-2")
@pytest.mark.parametrize("bound", [1 << 30, 1 << 10])
def test_metadata_that_promise_a_billion_rows_are_refused(
    bound: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mapped_module, "MAPPED_FROM_BYTES", bound)
    path = tmp_path / "x.parquet"
    parquet.write_table(pa.table({"a": np.arange(10.0), "score": np.arange(10) % 2}), path)
    whole = path.read_bytes()
    size = int.from_bytes(whole[-8:-4], "little")
    footer = whole[-8 - size : -8].replace(
        b"\x16\x14", b"\x16\x80\xa8\xd6\xb9\x07", 1
    )  # 10 and 10**9, as thrift has it
    path.write_bytes(whole[: -8 - size] + footer + len(footer).to_bytes(4, "little") + b"PAR1")
    for use, args in (("parquet", {"target": "score"}), ("images", {"target": "score"}), ("chat", {})):
        with pytest.raises(DataError, match=r"promise 1,000,000,000 rows, and 10 are there"):
            load_source(use, {"path": path.name, **args}, tmp_path, SplitSection())
    assert not list((tmp_path / "cache").glob("*/*")), "nothing half-done is kept"


def make_run(place: Path, folder: Path, kept: Path) -> RunDirectory:
    config = parse_config(
        {
            "model": {"use": "mlp", "args": {"hidden": [4]}},
            "data": {"use": "csv", "args": {"path": "*.csv", "target": "score"}},
            "loader": {"batch_size": 4},
            "training": {"epochs": 2},
            "checkpoints": {"checkpoint_every_n_steps": 30},
            "logging": {"tensorboard": False},
        }
    )
    specification = RunSpecification(
        run_id="large", project="p", kind=RunKind.BASELINE, config=config, config_digest=config_digest(config),
        code_root=str(folder), data_cache=str(kept),
    )  # fmt: skip
    place.mkdir()
    return RunDirectory.create(place / "large", specification)


FRESH = """
import sys
from pathlib import Path
sys.path.append(sys.argv[1])
from tests.trainer.data.test_mapped import three_runs
three_runs(Path(sys.argv[2]))
"""


def three_runs(folder: Path) -> None:
    """Work on the run `whole`, and on `killed`, which is killed in the middle of its first epoch and resumed.

    In forks of a process that has used nothing yet: other tests of the first one use polars, which such a run uses too
    to validate its data, and whose threads do not survive a fork: it would wait for them forever.
    """
    order.BLOCK_BYTES, order.BLOCKS_AT_ONCE, mapped_module.MAPPED_FROM_BYTES = 200, 4, 4000
    whole, killed = (RunDirectory(folder / name / "large") for name in ("whole", "killed"))
    work_on(whole)
    work_on(killed, kill=True)
    work_on(killed)


def work_on(run: RunDirectory, *, kill: bool = False) -> None:
    """Work on a run in a fork of this process; kill it in the middle of its first epoch."""
    process = multiprocessing.get_context("fork").Process(target=_work, args=(run,))
    process.start()
    while kill and process.is_alive() and not any(1 < one.step < 70 for one in list_checkpoints(run)):
        time.sleep(0.002)
    if kill:
        process.kill()
    process.join()
    assert (run.status().state is RunState.COMPLETED) != kill, run.log.read_text() if run.log.exists() else ""


def _work(run: RunDirectory) -> None:
    os.environ.update(launch_environment(run.specification().config))
    os._exit(worker.main([str(run.path)]))


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.requirement("TRAIN-1", "REPRO-6")
def test_a_run_on_mapped_rows_that_is_killed_resumes_with_the_same_bits(tmp_path: Path) -> None:
    write_table(tmp_path / "table")
    whole, killed = (make_run(tmp_path / name, tmp_path / "table", tmp_path / "kept") for name in ("whole", "killed"))
    subprocess.run([sys.executable, "-P", "-c", FRESH, str(Path(__file__).parents[3]), str(tmp_path)], check=True)
    weights = [(run.evidence("summary") or {})["weights_digest"] for run in (whole, killed)]
    assert weights[0] == weights[1]
    losses = [
        [(point.step, point.value) for point in run.metrics().series("train/epoch_loss")] for run in (whole, killed)
    ]
    assert losses[0] == losses[1]
    assert len(list((tmp_path / "kept").glob("*/*/content/inputs.npy"))) == 2, (
        "converted once, and once without test rows"
    )
