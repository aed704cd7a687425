"""Fixed rows: what a smoke run's data worker writes of real data sets of users, and what it does not believe."""

from __future__ import annotations

import os
import signal
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from trainwright.trainer.base import seeding
from trainwright.trainer.base.errors import DataError
from trainwright.trainer.clean_room.rows import open_split
from trainwright.trainer.jobs import fork
from trainwright.trainer.jobs.data_worker import fix_rows
from trainwright.trainer.run import RunDirectory, RunKey, RunKind, RunState
from trainwright.trainer.run.artifacts import Array, FixedRows, FixedSplit
from trainwright.trainer.run.key import has_signed, rows_statement
from trainwright.trainer.supervision.stop import StopRequest

pytestmark = [pytest.mark.slow, pytest.mark.requirement("GATE-6")]

Smoke = Callable[..., RunDirectory]

NET = """
class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2)
    def forward(self, x, more=None):
        return self.layer(x if more is None else x + more)
"""


OWN: dict[str, Any] = {
    "model": {"use": "mine:Two"}, "data": {"use": "mine:data"}, "metrics": ["accuracy"], "training": {"epochs": 1},
}  # fmt: skip
"""The user's data set `data`, and a model that takes it."""


@pytest.fixture
def smoke(ended: Any) -> Smoke:
    """`smoke(code, values)` works on a smoke run of the user's code and returns its directory."""
    bound = {"kind": RunKind.SMOKE, "max_steps": 2}
    return lambda code, values=None, **fields: ended(NET + code, OWN | (values or {}), **{**bound, **fields})


@pytest.fixture
def fixed(prepared: Any) -> Smoke:
    """`fixed(code, values)` lets a smoke run's data worker fix the rows, and nothing be trained."""

    def run_it(code: str, values: dict[str, Any] | None = None, **fields: Any) -> RunDirectory:
        run: RunDirectory = prepared(NET + code, OWN | (values or {}), **{"kind": RunKind.SMOKE, **fields})
        with suppress(DataError):  # rows that cannot be fixed: their record says so
            fix_rows(run, run.specification(), 1, StopRequest(run.stop_reason))
        return run

    return run_it


def values_of(run: RunDirectory, array: Array | None) -> np.ndarray[Any, Any]:
    assert array is not None
    found: np.ndarray[Any, Any] = np.load(run.artifacts / array.path, allow_pickle=False)
    return found


def validation_of(run: RunDirectory) -> FixedSplit:
    record = run.part(FixedRows)
    assert record.problem is None, record.problem
    return record.splits["validation"]


SEVERAL = """
class Rows(torch.utils.data.Dataset):
    def __init__(self, start, size):
        self.start, self.size = start, size
    def __len__(self):
        return self.size
    def __getitem__(self, index):
        row = self.start + index
        x = torch.full((4,), float(row))
        return SAMPLE
def data():
    return {"train": Rows(0, 20), "validation": Rows(100, 7), "test": Rows(200, 5)}
"""


@pytest.mark.parametrize(
    ("sample", "names"),
    [
        ("(x, row % 2)", ["input"]),
        ("(x, x * 2, row % 2)", ["input_0", "input_1"]),
        ("{'x': x, 'more': x.numpy(), 'label': torch.tensor(row % 2)}", ["more", "x"]),
    ],
)
def test_rows_of_a_users_data_set_are_kept_by_the_names_of_the_models_inputs(
    fixed: Smoke, sample: str, names: list[str]
) -> None:
    run = fixed(SEVERAL.replace("SAMPLE", sample))
    kept = validation_of(run)
    assert sorted(kept.inputs) == names
    opened = open_split(run.artifacts, run.evidence("fixed_rows") or {}, "validation")
    assert [*opened.inputs] == kept.order == ([*names] if "{" not in sample else ["x", "more"])
    assert values_of(run, kept.inputs[names[-1]])[:, 0].tolist()[0] in {100.0, 200.0}
    assert values_of(run, kept.target).tolist() == [row % 2 for row in range(100, 107)]
    assert run.part(FixedRows).splits["test"].rows == 5


@pytest.mark.parametrize("seed", [42, pytest.param(7, marks=pytest.mark.long)])
def test_what_a_data_set_draws_is_drawn_as_the_evaluation_draws_it(smoke: Smoke, seed: int) -> None:
    code = SEVERAL.replace("SAMPLE", "(torch.randn(4), row % 2)")
    code += """
def seen(outputs, targets):
    return float(outputs.sum())
class Sum(nn.Module):
    def __init__(self):
        super().__init__()
        self.one = nn.Parameter(torch.zeros(1))
    def forward(self, x):
        return torch.stack([x.sum(1), x.sum(1)], 1) + 0 * self.one
"""
    values = {"seed": seed, "model": {"use": "mine:Sum"}, "metrics": [{"use": "mine:seen"}]}
    run = smoke(code, values)
    rows = values_of(run, validation_of(run).inputs["input"])
    assert run.metrics().series("validation/seen")[-1].value == pytest.approx(2 * float(rows.sum()), rel=1e-4)
    config = run.specification().config
    with seeding.preserved():
        seeding.seed_sample(config.data.split.seed, 0, 0, *seeding.of_split(seeding.SPLITS.index("validation")))
        assert rows[0].tolist() == torch.randn(4).tolist(), "of every run's seed the same: a study's repetitions too"


def test_rows_of_different_lengths_are_kept_flat_with_their_shapes(fixed: Smoke) -> None:
    code = SEVERAL.replace("SAMPLE", "(torch.ones(index + 1, 4) * row, row % 2)")
    code += """
def collate(items):
    return torch.stack([x.mean(0) for x, _ in items]), torch.tensor([y for _, y in items])
def build(config, context):
    return {**data(), "model": Two(), "collate": collate}
"""
    run = fixed(code, {"model": None, "data": None, "task": {"use": "mine:build"}})
    kept = validation_of(run).inputs["input"]
    assert kept.shape == [sum(range(1, 8)) * 4]
    assert values_of(run, kept.shapes).tolist() == [[length, 4] for length in range(1, 8)]
    split = open_split(run.artifacts, run.evidence("fixed_rows") or {}, "validation")
    for index in range(7):
        _, inputs, target = split.batch(index, 1)
        assert np.array_equal(inputs["input"], np.full((1, index + 1, 4), 100.0 + index))
        assert target is not None
        assert target.tolist() == [index % 2]


def test_a_stream_and_items_that_are_batches_are_read_row_by_row(fixed: Smoke) -> None:
    code = """
class Batches(torch.utils.data.IterableDataset):
    def __init__(self, size):
        self.size = size
    def __len__(self):
        return self.size
    def __iter__(self):
        for number in range(self.size):
            yield torch.full((3, 4), float(number)), torch.tensor([0, 1, 0])
def build(config, context):
    return {"model": Two(), "train": Batches(4), "validation": Batches(2), "batch_size": None}
"""
    run = fixed(code, {"model": None, "data": None, "task": {"use": "mine:build"}})
    kept = validation_of(run)
    assert (kept.size, kept.rows) == (6, 6)
    assert values_of(run, kept.inputs["input"])[:, 0].tolist() == [0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize(
    ("sample", "named", "remedy"),
    [
        ("(Odd(x), row % 2)", "Odd", "as_subclass(torch.Tensor)"),
        ("(x, 'two')", "builtins.str", "token numbers"),
        ("((x, x), row % 2)", "builtins.tuple", "one flat tuple"),
    ],
)
def test_values_with_methods_of_their_own_are_named_with_what_to_change(
    fixed: Smoke, sample: str, named: str, remedy: str
) -> None:
    code = "class Odd(torch.Tensor):\n    pass\n" + SEVERAL.replace("SAMPLE", sample)
    record = fixed(code).part(FixedRows)
    assert named in str(record.problem)
    assert remedy in str(record.remedy)
    assert not record.splits


def test_of_too_many_rows_a_sample_is_kept_that_the_key_draws(fixed: Smoke, tmp_path: Path) -> None:
    code = SEVERAL.replace("SAMPLE", "(x, row % 2)").replace("Rows(100, 7)", "Rows(100, 500)")
    run = fixed(code, evaluation_rows_bytes=4096)
    kept = validation_of(run)
    chosen = values_of(run, kept.chosen)
    assert kept.size == 500
    assert 40 < kept.rows == len(chosen) <= 4096 // 2 // 24
    assert (np.diff(chosen) > 0).all()
    assert values_of(run, kept.inputs["input"])[:, 0].tolist() == (chosen + 100).tolist()


def test_of_a_long_stream_a_sample_is_kept_in_a_second_pass(fixed: Smoke) -> None:
    code = """
class Stream(torch.utils.data.IterableDataset):
    def __init__(self, size):
        self.size = size
    def __len__(self):
        return self.size
    def __iter__(self):
        for number in range(self.size):
            yield torch.full((4,), float(number)), number % 2
def data():
    return {"train": Stream(20), "validation": Stream(400)}
"""
    run = fixed(code, evaluation_rows_bytes=2400)
    kept = validation_of(run)
    chosen = values_of(run, kept.chosen)
    assert 50 < len(chosen) <= 100
    assert values_of(run, kept.inputs["input"])[:, 0].tolist() == chosen.tolist()
    assert values_of(run, kept.target).tolist() == (chosen % 2).tolist()


def test_of_tensors_in_memory_a_sample_is_kept_too(fixed: Smoke) -> None:
    run = fixed("", {"data": {"use": "digits"}, "model": {"use": "mlp"}}, evaluation_rows_bytes=100_000)
    record = run.part(FixedRows)
    total = sum((run.artifacts / split.inputs["input"].path).stat().st_size for split in record.splits.values())
    assert 50_000 < total < 110_000
    assert all(0 < split.rows < split.size for split in record.splits.values())


LABELLED = """
class Rows(torch.utils.data.Dataset):
    def __init__(self, size):
        self.size = size
    def __len__(self):
        return self.size
    def __getitem__(self, index):
        return torch.full((4,), float(index)), int(index < 3)
def data():
    return {"train": Rows(20), "validation": Rows(7)}
def labels():
    def rows(size):
        targets = torch.tensor([[1.0, 0.0], [0.0, 0.0], [1.0, 1.0], [1.0, 0.0]] * size)
        return torch.utils.data.TensorDataset(torch.ones(4 * size, 4), targets)
    return {"train": rows(5), "validation": rows(1)}
"""


@pytest.mark.parametrize(
    ("data", "loss", "counts"),
    [
        ("data", {"use": "class_balanced"}, [[17.0, 3.0]]),
        ("labels", {"use": "bce_with_logits", "args": {"pos_weight": "balanced"}}, [[5.0, 15.0], [15.0, 5.0]]),
        ("data", {"use": "cross_entropy"}, []),
    ],
)
def test_of_the_train_split_the_counts_are_kept_that_a_loss_weighs_by(
    fixed: Smoke, data: str, loss: dict[str, Any], counts: list[list[float]]
) -> None:
    run = fixed(LABELLED, {"data": {"use": f"mine:{data}"}, "loss": loss, "metrics": []})
    assert validation_of(run)
    assert run.part(FixedRows).train_counts == counts


@pytest.mark.long
def test_a_hanging_data_set_fails_the_run_once_and_in_time(smoke: Smoke) -> None:
    code = """
import time
def data():
    while True:
        pass
"""
    run = smoke(code, limits={"user_code_seconds": 1.0})
    failure = run.last_status().failure
    assert failure is not None
    assert "in data (mine.py" in failure.message
    assert failure.details["limit"] == "user_code_seconds"
    assert "while True" in str(failure.traceback)
    assert [event.kind for event in run.events()].count("failed") == 1


def test_a_run_that_is_asked_to_stop_while_the_rows_are_read_stops(
    tmp_path: Path, make_run: Any, begin: Any, mine: str
) -> None:
    root = tmp_path / "project"
    root.mkdir()
    waiting = "import time, pathlib\ndef data():\n    pathlib.Path('here').touch()\n    time.sleep(600)\n"
    (root / "mine.py").write_text(mine + NET + waiting.replace("'here'", repr(str(tmp_path / "here"))))
    run = make_run(tmp_path / "run", OWN, code_root=str(root), kind=RunKind.SMOKE)
    pid = begin(run)
    while not (tmp_path / "here").exists():
        time.sleep(0.01)
    os.kill(pid, signal.SIGTERM)
    os.waitpid(pid, 0)
    assert run.last_status().state is RunState.STOPPED
    assert not run.part(FixedRows)


def test_the_rows_are_signed_by_a_key_that_the_worker_then_forgets(
    tmp_path: Path, make_run: Any, digits: dict[str, Any]
) -> None:
    made = make_run(tmp_path / "run", digits, kind=RunKind.SMOKE)
    run, key = RunDirectory(made.path, RunKey(bytes(range(32)))), RunKey(bytes(range(32)))
    fix_rows(run, run.specification(), 1, StopRequest(run.stop_reason))
    record = run.evidence("fixed_rows")
    assert record is not None
    assert has_signed(key.rows_public, rows_statement(run.run_id, record), record["signature"])
    assert not has_signed(key.public, rows_statement(run.run_id, record), record["signature"])
    record["splits"]["test"]["rows"] += 1
    assert not has_signed(key.rows_public, rows_statement(run.run_id, record), record["signature"])
    assert run.key is not None
    assert run.key.public == key.public
    for forgotten in ("seed", "rows_public", "rows_draw"):
        with pytest.raises(ValueError, match="32 bytes"):
            getattr(run.key, forgotten)


def test_an_answer_is_read_though_its_writer_has_ended_by_the_time_that_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:

    reading, writing = os.pipe()
    start, going = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        os.read(start, 1)
        os.write(writing, b'{"rows": 1}\n')
        os._exit(0)
    os.close(writing)
    os.close(start)

    def has_ended(_: fork.Fork) -> bool:
        """It answers and ends at this very moment."""
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT) is not None

    monkeypatch.setattr(fork.Fork, "_has_ended", has_ended)
    monkeypatch.setattr(fork, "POLL_SECONDS", 0.01)
    assert fork.Fork(pid, reading, going).answer(StopRequest(tmp_path / "stop")) == ({"rows": 1}, 0)


@pytest.mark.long
def test_of_several_processes_the_first_fixes_the_rows(smoke: Smoke) -> None:
    run = smoke(SEVERAL.replace("SAMPLE", "(x, row % 2)"), {"distributed": {"processes": 2}})
    assert validation_of(run).rows == 7


@pytest.mark.long
def test_a_resumed_smoke_run_keeps_its_rows(tmp_path: Path, make_run: Any, work: Any, digits: dict[str, Any]) -> None:
    run = make_run(tmp_path / "run", digits, kind=RunKind.SMOKE, max_steps=2)
    assert work(run) == 0
    before = (run.artifacts / "fixed_rows.json").stat().st_mtime_ns
    run.write_status(run.last_status().model_copy(update={"state": RunState.RUNNING}))
    assert work(run) == 0
    assert run.last_status().attempt == 2
    assert (run.artifacts / "fixed_rows.json").stat().st_mtime_ns == before


def test_only_smoke_runs_fix_rows(ended: Any, digits: dict[str, Any]) -> None:
    assert not ended("", digits | {"training": {"epochs": 1}}).part(FixedRows)


FINDS = """
import gc
class Finds(nn.Module):
    def __init__(self):
        super().__init__()
        found = [value for value in gc.get_objects() if type(value) is torch.Tensor and value.shape[1:] == (4,)]
        print("found", [sorted(int(row) for row in value[:, 0]) for value in found if len(value) > 4], flush=True)
        self.layer = nn.Linear(4, 2)
    def forward(self, x):
        return self.layer(x)
def data():
    def rows(start):
        return torch.arange(start, start + 6.0)[:, None].repeat(1, 4), torch.tensor([0, 1] * 3)
    return {"train": rows(100), "validation": rows(200), "test": rows(300)}
"""


@pytest.mark.requirement("PHASE-6")
def test_no_test_rows_of_a_built_in_source_are_in_a_worker_that_trains(smoke: Smoke, tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    inputs = np.repeat(np.arange(1.0, 61.0, dtype="f4")[:, None], 4, axis=1)
    np.savez(tmp_path / "project" / "rows.npz", x=inputs, y=np.arange(60) % 2)
    data = {"use": "npz", "args": {"path": "rows.npz"}, "split": {"validation": 0.1, "test": 0.2}}
    run = smoke(FINDS, {"model": {"use": "mine:Finds"}, "data": data}, kind=RunKind.BASELINE)
    log = run.log.read_text()
    assert f"found [[{', '.join(['0'] * 12)}, " in log, log
    assert log.count("found [[") == 1


@pytest.mark.requirement("PHASE-6")
def test_test_rows_that_user_code_returns_are_gone_before_the_model_is_built(smoke: Smoke) -> None:
    log = smoke(FINDS, {"model": {"use": "mine:Finds"}}, kind=RunKind.BASELINE).log.read_text()
    assert "[100, " in log
    assert "[200, " in log
    assert "[300, " not in log
