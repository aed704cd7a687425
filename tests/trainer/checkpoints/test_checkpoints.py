"""What goes into a checkpoint, what stays on a full disk, and what is kept."""

from __future__ import annotations

import json
import math
import os
import resource
import shutil
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from trainwright.tools.ledger.summaries import summary_problem
from trainwright.tools.training_monitor.record import RunRecord
from trainwright.trainer.base.errors import UserCodeError
from trainwright.trainer.base.tensor_files import save_tensors
from trainwright.trainer.checkpoints.index import list_checkpoints, read_index, verify_checkpoint
from trainwright.trainer.checkpoints.packing import SavedState, pack, unpack
from trainwright.trainer.checkpoints.user_state import load_into
from trainwright.trainer.run import RunDirectory, RunState


@pytest.mark.requirement("CKPT-1", "CKPT-2")
def test_any_nested_state_comes_back_as_it_was_without_pickle() -> None:
    import random

    value = {
        "tuple": (1, (2.5, None), [True, "x"]),
        7: {"$": "a key of ours"},
        "nan": math.nan,
        "inf": -math.inf,
        "python": random.getstate(),
        "numpy": np.random.get_state(),
        "bf16": torch.randn(3, dtype=torch.bfloat16),
        "scalar": torch.tensor(3.5, dtype=torch.float64),
        "empty": torch.empty(0, 4),
        "array": np.arange(6, dtype=np.int16).reshape(2, 3),
        "number": np.float32(1.5),
    }
    tensors: dict[str, torch.Tensor] = {}
    text = json.dumps(pack(value, "state", tensors), allow_nan=False)
    again = unpack(json.loads(text), tensors)
    assert again["tuple"] == value["tuple"]
    assert again[7] == value[7]
    assert math.isnan(again["nan"])
    assert again["inf"] == -math.inf
    assert again["python"] == value["python"]
    random.setstate(again["python"])
    np.random.set_state(again["numpy"])
    for name in ("bf16", "scalar", "empty"):
        assert again[name].dtype == value[name].dtype  # type: ignore[attr-defined]
        assert torch.equal(again[name], value[name])  # type: ignore[arg-type]
    assert again["array"].dtype == np.int16
    assert (again["array"] == value["array"]).all()
    assert again["number"] == np.float32(1.5)


@pytest.mark.requirement("CKPT-1")
def test_objects_with_a_state_are_restored_in_place_and_others_are_told() -> None:
    module = torch.nn.Linear(2, 2)
    tensors: dict[str, torch.Tensor] = {}
    packed = pack({"extra": {"net": module}, "n": 1}, "context", tensors)
    fresh = {"extra": {"net": torch.nn.Linear(2, 2)}, "n": 9, "gone": 1}
    saved = unpack(packed, tensors)
    assert isinstance(saved["extra"]["net"], SavedState)
    load_into(fresh, saved)
    assert torch.equal(fresh["extra"]["net"].weight, module.weight)  # type: ignore[index]
    assert (fresh["n"], "gone" in fresh) == (1, False)
    with pytest.raises(UserCodeError, match="context/x holds a set"):
        pack({"x": {1, 2}}, "context", {})


PATIENT: dict[str, Any] = {
    "model": {"use": "mlp", "args": {"hidden": [8]}},
    "data": {"use": "iris"},
    "optimizer": {"learning_rate": 1e-12},
    "training": {"epochs": 30},
    "early_stopping": {"patience_epochs": 5, "min_delta": 0.01},
    "checkpoints": {"checkpoint_every_n_epochs": 3},
    "logging": {"tensorboard": False},
}


@pytest.mark.requirement("REPRO-6", "TRAIN-1")
def test_early_stopping_counts_on_across_a_kill(tmp_path: Path, make_run: Any, work: Any) -> None:
    def kill() -> None:
        from trainwright.trainer.engine.observers.checkpointing import Selection

        real = Selection.epoch

        def epoch(self: Selection, session: Any, result: Any) -> None:
            if result.epoch == 4:
                os.kill(os.getpid(), signal.SIGKILL)
            real(self, session, result)

        Selection.epoch = epoch  # type: ignore[method-assign]

    run = make_run(tmp_path / "run", PATIENT)
    assert work(run, before=kill) == -signal.SIGKILL
    assert work(run) == 0, run.log.read_text()
    assert (run.status().state, run.status().stop_reason) == (RunState.COMPLETED, "early_stopping")
    assert run.status().epoch == 6  # the first epoch and five without improvement, three of them before the kill
    assert [event.data["epoch"] for event in run.events("epoch")] == [1, 2, 3, 4, 5, 6]


@pytest.mark.requirement("CKPT-1", "CKPT-4", "CONF-5")
def test_best_last_and_periodic_are_kept_and_nothing_else(tmp_path: Path, make_run: Any, work: Any) -> None:
    values = {**PATIENT, "early_stopping": {"enabled": False}, "training": {"epochs": 7}}
    values["optimizer"] = {"learning_rate": 1e-2}
    run = make_run(tmp_path / "run", values)
    assert work(run) == 0, run.log.read_text()
    records = list_checkpoints(run)
    best = run.evidence("summary")["best"]
    per_epoch = run.evidence("resolved")["steps_per_epoch"]
    assert {tag: [r.step for r in records if tag in r.tags] for tag in ("best", "last", "periodic")} == {
        "best": [best["step"]],
        "last": [7 * per_epoch],
        "periodic": [3 * per_epoch, 6 * per_epoch],
    }
    assert all(record.tags for record in records)
    assert all(verify_checkpoint(record.path) == [] for record in records)
    assert sorted(path.name for path in run.checkpoints.iterdir()) == sorted([*(r.name for r in records), "index.json"])
    assert not [path for path in run.path.rglob("*") if path.suffix in {".pt", ".pth", ".pkl", ".bin"}]


@pytest.mark.requirement("CKPT-1", "CONF-5")
def test_of_equal_values_the_epoch_with_the_lowest_loss_is_kept_and_patience_counts_by_the_metric_alone(
    tmp_path: Path, make_run: Any, work: Any
) -> None:
    by = {"metrics": ["accuracy"], "selection": {"metric": "accuracy", "direction": "maximize"}}
    run = make_run(tmp_path / "run", {**PATIENT, **by, "optimizer": {"learning_rate": 1e-5}})
    assert work(run) == 0, run.log.read_text()
    epochs = [event.data for event in run.events("epoch")]
    high = max(one["validation"]["accuracy"] for one in epochs)
    equal = [one for one in epochs if one["validation"]["accuracy"] == high]
    lowest = min(equal, key=lambda one: one["validation"]["loss"])
    assert lowest is not equal[0], "the first of them has another loss"
    summary = run.evidence("summary")
    assert (summary["best"]["epoch"], summary["best"]["metrics"]) == (lowest["epoch"], lowest["validation"])
    assert (summary["stop_reason"], epochs[-1]["epoch"]) == ("early_stopping", equal[0]["epoch"] + 5)
    assert RunRecord(run).best.step == lowest["step"]
    path = run.artifacts / "summary.json"
    for kept, problem in ((lowest, False), (equal[0], True), (equal[1], True)):
        best = {**summary["best"], "epoch": kept["epoch"], "step": kept["step"], "metrics": kept["validation"]}
        path.write_text(json.dumps({**summary, "best": best}))
        assert bool(summary_problem(run)) is problem
    assert RunRecord(run).best.step == equal[1]["step"], "an ended run keeps its own"


@pytest.mark.requirement("CKPT-2", "CKPT-4")
def test_a_disk_that_fills_up_is_told_and_the_checkpoint_before_stays(tmp_path: Path, make_run: Any, work: Any) -> None:
    values = {**PATIENT, "early_stopping": {"enabled": False}, "training": {"epochs": 4}}
    values["model"] = {"use": "mlp", "args": {"hidden": [300]}}

    def fill_up() -> None:
        from trainwright.trainer.engine.observers.checkpointing import Checkpointing

        real = Checkpointing.save

        def save(self: Checkpointing, session: Any) -> None:
            if self.last is not None:  # the second checkpoint meets the limit of the file system
                resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))
            real(self, session)

        Checkpointing.save = save  # type: ignore[method-assign]

    run = make_run(tmp_path / "run", values)
    assert work(run, before=fill_up) == 1
    failure = run.status().failure
    assert failure.category == "storage", run.log.read_text()
    assert "resume_training" in failure.remedy
    assert [path.name for path in sorted(run.checkpoints.iterdir())] == [
        "index.json",
        read_index(run.checkpoints)["last"],
    ]
    assert verify_checkpoint(list_checkpoints(run)[0].path) == []
    assert run.events("ended")[0].data["state"] == "failed"
    assert work(run) == 0, run.log.read_text()
    assert run.events("resumed")[0].data["step"] == list_checkpoints(run)[0].step or run.status().attempt == 2


@pytest.mark.requirement("GATE-4")
def test_the_disk_limit_stops_a_run_in_order(tmp_path: Path, make_run: Any, work: Any) -> None:
    from trainwright.trainer.run import Limits

    values = {**PATIENT, "early_stopping": {"enabled": False}, "training": {"epochs": 100_000}}

    def look_often() -> None:
        from trainwright.trainer.supervision import heartbeat

        heartbeat.DISK_CHECK_SECONDS = 0.0

    run = make_run(tmp_path / "run", values, limits=Limits(disk_bytes=300_000))
    assert work(run, before=look_often) == 0, run.log.read_text()
    assert (run.status().state, run.status().stop_reason) == (RunState.STOPPED, "disk_limit")


@pytest.mark.requirement("CKPT-2")
def test_when_no_checkpoint_is_whole_training_starts_over_and_says_so(
    tmp_path: Path, digits_run: RunDirectory, make_run: Any, work: Any, digits: dict[str, Any]
) -> None:
    run = make_run(tmp_path / "run", digits)
    for path in digits_run.checkpoints.glob("step-*"):
        copy = Path(shutil.copytree(path, run.checkpoints / path.name))
        (copy / "state.json").write_text("{}")
    assert work(run) == 0, run.log.read_text()
    assert run.events("note")[0].data["skipped"]
    ours, theirs = run.evidence("summary"), digits_run.evidence("summary")
    assert ours["steps"] == theirs["steps"]
    assert all(verify_checkpoint(record.path) == [] for record in list_checkpoints(run))


def test_a_checkpoint_with_weights_that_are_not_finite_is_never_written(
    tmp_path: Path, make_run: Any, work: Any
) -> None:
    optimizer = {"name": "sgd", "learning_rate": 1e3, "weight_decay": 1e9}
    values = {**PATIENT, "optimizer": optimizer, "schedule": {"warmup_steps": 0}}
    values["model"] = {"use": "mlp", "args": {"hidden": []}}
    run = make_run(tmp_path / "run", {**values, "loader": {"batch_size": 200}})
    assert work(run) == 1
    assert run.status().failure.category == "divergence"
    assert not list(run.checkpoints.glob("step-*")) or all(
        bool(torch.isfinite(tensor).all())
        for record in list_checkpoints(run)
        for tensor in __import__("safetensors.torch").torch.load_file(record.path / "model.safetensors").values()
    )


@pytest.mark.requirement("CKPT-5")
def test_tensors_may_be_read_by_whoever_may_read_their_folder(tmp_path: Path) -> None:
    for mode in (0o755, 0o700):
        folder = tmp_path / f"{mode:o}"
        folder.mkdir()
        folder.chmod(mode)
        save_tensors({"a": torch.zeros(2)}, folder / "a.safetensors")
        assert (folder / "a.safetensors").stat().st_mode & 0o777 == mode & 0o666
