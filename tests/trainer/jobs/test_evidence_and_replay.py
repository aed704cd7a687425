"""What a run leaves as evidence, and what a replay of it finds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from trainwright.trainer import worker
from trainwright.trainer.checkpoints.index import list_checkpoints
from trainwright.trainer.run import RunDirectory, RunKind, RunState
from trainwright.trainer.run.directory import EVIDENCE
from trainwright.trainer.run.environment import launch_environment


@pytest.mark.requirement("TRAIN-1", "TRAIN-9", "MON-1")
def test_a_run_leaves_status_metrics_events_and_every_evidence_file(digits_run: RunDirectory) -> None:
    assert digits_run.status().state is RunState.COMPLETED
    for name in EVIDENCE:
        assert digits_run.evidence(name), name
    store = digits_run.metrics()
    assert [point.step for point in store.series("train/loss")] == list(range(1, 121))
    assert [point.value for point in store.series("epoch")] == [1.0, 2.0, 3.0]
    for key in ("train/gradient_norm", "train/learning_rate", "validation/accuracy", "throughput/samples_per_second"):
        assert store.last(key) is not None, key
    kinds = [event.kind for event in digits_run.events()]
    assert [kind for kind in kinds if kind != "worst_samples"] == [
        "started", "probe", *["epoch", "checkpoint"] * 3, "stopping", "ended",
    ]  # fmt: skip
    assert not (digits_run.path / ".ballast").exists()


@pytest.mark.requirement("TRAIN-9")
def test_tensorboard_reads_the_values_that_were_recorded(digits_run: RunDirectory) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    shown = EventAccumulator(str(digits_run.path / "tensorboard"))
    shown.Reload()
    store = digits_run.metrics()
    for key, points in (("train/loss", 12), ("train/learning_rate", 12), ("validation/accuracy", 3)):
        scalars = shown.Scalars(key)
        recorded = {point.step: point.value for point in store.series(key)}
        assert len(scalars) == points
        assert all(scalar.value == pytest.approx(recorded[scalar.step]) for scalar in scalars)


@pytest.mark.requirement("REPRO-1", "REPRO-2")
def test_seeds_and_settings_are_probed_in_the_worker(digits_run: RunDirectory) -> None:
    proof = digits_run.evidence("reproducibility")
    assert proof["passed"] is True
    assert proof["probe"]["nondeterministic_operation_refused"] is True
    assert {name for name, repeats in proof["probe"]["draws_repeat"].items() if repeats} >= {
        "python", "numpy", "torch", "loader_workers",
    }  # fmt: skip
    wanted = launch_environment(digits_run.specification().config)
    assert proof["settings"]["pythonhashseed"] == wanted["PYTHONHASHSEED"]
    assert proof["settings"]["deterministic_algorithms"] is True


@pytest.mark.requirement("REPRO-3")
def test_the_environment_is_captured_as_installed(digits_run: RunDirectory) -> None:
    environment = digits_run.evidence("environment")
    from importlib.metadata import version

    for name in ("torch", "numpy", "pydantic", "scikit-learn"):
        assert environment["packages"][name] == version(name)
    assert environment["import_tested"]["torch"] == torch.__version__
    assert environment["hardware"]["cores"] > 0
    assert worker.__name__ in environment["command_line"]


@pytest.mark.requirement("REPRO-4")
def test_splits_are_fingerprinted_disjoint_and_the_test_split_shows_no_labels(digits_run: RunDirectory) -> None:
    data = digits_run.evidence("data")
    splits = data["splits"]
    assert sum(split["size"] for split in splits.values()) == 1797
    assert data["disjoint"] is True
    assert sorted(splits["test"]) == ["different", "fingerprint", "size"]
    assert len({split["fingerprint"] for split in splits.values()}) == 3
    shares = [splits["validation"]["classes"][label] / count for label, count in splits["train"]["classes"].items()]
    assert max(shares) - min(shares) < 0.03  # stratified, to the nearest sample


@pytest.mark.requirement("REPRO-5")
def test_a_replay_is_identical_tensor_by_tensor(
    tmp_path: Path, digits_run: RunDirectory, make_run: Any, work: Any, digits: dict[str, Any]
) -> None:
    replay = make_run(tmp_path / "replay", digits, kind=RunKind.REPLAY, source_run=str(digits_run.path))
    assert work(replay) == 0, replay.log.read_text()
    comparison = replay.evidence("comparison")
    assert comparison["identical"] is True
    assert comparison["metrics_identical"] is True
    assert (comparison["tensors"], comparison["different"], comparison["causes"]) == (4, [], [])


UNSEEDED = """
import os, torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(64, 10)
        with torch.no_grad():
            self.layer.weight[0] += int.from_bytes(os.urandom(2), "big") / 65536 + 1e-3
    def forward(self, x):
        return self.layer(x.flatten(1))
"""


@pytest.mark.requirement("REPRO-5")
def test_a_replay_of_unseeded_code_differs_and_the_cause_is_named(
    tmp_path: Path, make_run: Any, work: Any, digits: dict[str, Any]
) -> None:
    (tmp_path / "unseeded.py").write_text(UNSEEDED)
    values = {**digits, "model": {"use": "unseeded:Net"}, "training": {"epochs": 1}}
    source = make_run(tmp_path / "source", values)
    replay = make_run(tmp_path / "replay", values, kind=RunKind.REPLAY, source_run=str(source.path))
    assert work(source) == 0, source.log.read_text()
    assert work(replay) == 0, replay.log.read_text()
    comparison = replay.evidence("comparison")
    assert comparison["identical"] is False
    assert {entry["name"] for entry in comparison["different"]} == {"layer.bias", "layer.weight"}
    assert comparison["first_difference_step"] == 1
    assert "os.urandom" in comparison["causes"][0]


@pytest.mark.long
@pytest.mark.requirement("REPRO-5", "PHASE-8")
def test_changed_code_is_named_as_the_cause(tmp_path: Path, make_run: Any, work: Any, digits: dict[str, Any]) -> None:
    code = UNSEEDED.replace('int.from_bytes(os.urandom(2), "big") / 65536', "0.5")
    (tmp_path / "changing.py").write_text(code)
    values = {**digits, "model": {"use": "changing:Net"}, "training": {"epochs": 1}}
    source = make_run(tmp_path / "source", values)
    assert work(source) == 0, source.log.read_text()
    (tmp_path / "changing.py").write_text(code.replace("0.5", "0.25"))
    replay = make_run(tmp_path / "replay", values, kind=RunKind.REPLAY, source_run=str(source.path))
    assert work(replay) == 0, replay.log.read_text()
    assert replay.evidence("comparison")["causes"] == ["The user's code changed between the runs."]
    assert "code" in replay.evidence("comparison")["fingerprint_differences"]


@pytest.mark.requirement("PHASE-8", "GATE-3")
def test_a_run_is_held_to_the_digests_of_its_plan(
    tmp_path: Path, make_run: Any, work: Any, digits: dict[str, Any]
) -> None:
    names = ["code", "data", "environment"]
    run = make_run(tmp_path / "held", digits, expected=dict.fromkeys(names, "blake3:" + "0" * 64))
    assert work(run) == 1
    failure = run.status().failure
    assert failure.category == "reproducibility"
    assert sorted(failure.details["changed"]) == names
    assert all(name in failure.message for name in names)
    assert run.status().step == 0


@pytest.fixture(scope="module")
def exported(
    tmp_path_factory: pytest.TempPathFactory, digits_run: RunDirectory, make_run: Any, work: Any, digits: dict[str, Any]
) -> RunDirectory:
    folder = tmp_path_factory.mktemp("export") / "export"
    run: RunDirectory = make_run(folder, digits, kind=RunKind.EXPORT, source_run=str(digits_run.path))
    assert work(run) == 0, run.log.read_text()
    return run


@pytest.mark.requirement("CKPT-5", "PHASE-6")
def test_an_export_is_checked_against_the_model_at_several_batch_sizes(
    exported: RunDirectory, digits_run: RunDirectory
) -> None:
    evidence = exported.evidence("export")
    assert evidence["onnx"]["passed"] is True
    assert len(evidence["onnx"]["batch_sizes"]) >= 2
    assert evidence["onnx"]["max_abs_difference"] < 1e-5
    assert evidence["onnx"]["rows_compared"] == evidence["validation"]["size"]
    program = exported.evidence("program")
    assert program["path"] == "final_model/model.onnx"
    assert program["checkpoint_digest"] == evidence["checkpoint_digest"]
    assert program["parity"]["extreme_compared"] > 0
    assert evidence["safetensors"] == {"tensors": 4, "reloaded_identical": True}
    folder = exported.artifacts / "final_model"
    files = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
    assert sorted(evidence["files"]) == sorted(files)
    best = next(record for record in list_checkpoints(digits_run) if "best" in record.tags)
    weights = load_file(folder / "model.safetensors")
    assert all(torch.equal(value, weights[name]) for name, value in load_file(best.path / "model.safetensors").items())


@pytest.mark.requirement("PHASE-6", "TRACK-1")
def test_the_test_split_is_measured_at_export_and_nowhere_before(
    exported: RunDirectory, digits_run: RunDirectory
) -> None:
    evidence = exported.evidence("export")
    assert evidence["test"]["fingerprint"] == digits_run.evidence("data")["splits"]["test"]["fingerprint"]
    assert 0.5 < evidence["test"]["metrics"]["accuracy"] <= 1.0
    assert evidence["validation"]["metrics"] == digits_run.evidence("summary")["best"]["metrics"]
    assert not [key for key in digits_run.metrics().keys() if key.startswith("test")]  # noqa: SIM118 - not a mapping


@pytest.mark.long
@pytest.mark.requirement("CKPT-5")
def test_an_exported_table_model_takes_raw_rows(tmp_path: Path, make_run: Any, work: Any) -> None:
    values = {"model": {"use": "mlp"}, "data": {"use": "wine"}, "training": {"epochs": 2}, "metrics": ["f1"]}
    source = make_run(tmp_path / "source", values)
    assert work(source) == 0, source.log.read_text()
    run = make_run(tmp_path / "export", values, kind=RunKind.EXPORT, source_run=str(source.path))
    assert work(run) == 0, run.log.read_text()
    resolved = json.loads((run.artifacts / "final_model" / "resolved.json").read_text())
    assert resolved["onnx_includes_preprocessing"] is True
    import onnxruntime
    from sklearn.datasets import load_wine

    table = load_wine()
    session = onnxruntime.InferenceSession(str(run.artifacts / "final_model" / "model.onnx"))
    (logits,) = session.run(None, {"input": table.data.astype("float32")})
    assert (logits.argmax(1) == table.target).mean() > 0.6


@pytest.mark.requirement("CKPT-2")
def test_an_export_of_a_damaged_checkpoint_is_refused(
    tmp_path: Path, digits_run: RunDirectory, make_run: Any, work: Any, digits: dict[str, Any]
) -> None:
    import shutil

    copy = RunDirectory(Path(shutil.copytree(digits_run.path, tmp_path / "copy")))
    best = next(record for record in list_checkpoints(copy) if "best" in record.tags)
    data = bytearray((best.path / "model.safetensors").read_bytes())
    data[-1] ^= 1
    (best.path / "model.safetensors").write_bytes(bytes(data))
    run = make_run(tmp_path / "export", digits, kind=RunKind.EXPORT, source_run=str(copy.path))
    assert work(run) == 1
    assert run.status().failure.category == "integrity"


@pytest.mark.requirement("TRAIN-1", "GATE-4")
@pytest.mark.parametrize(("bound", "epochs_done"), [pytest.param(50, 1, marks=pytest.mark.long), (80, 2)])
def test_a_smoke_run_stops_at_its_bound_validated_saved_and_on_the_same_path(  # noqa: PLR0917 - fixtures
    bound: int, epochs_done: int, tmp_path: Path, digits_run: RunDirectory, make_run: Any, work: Any, recorded: Any
) -> None:
    config = digits_run.specification().config.model_dump(mode="json", exclude_defaults=True)
    run = make_run(tmp_path / "smoke", config, kind=RunKind.SMOKE, max_steps=bound)
    assert work(run) == 0, run.log.read_text()
    status = run.status()
    assert (status.state, status.stop_reason) == (RunState.COMPLETED, "max_steps")
    assert (status.step, status.epoch, status.total_steps) == (bound, epochs_done, bound)
    assert run.metrics().last("validation/accuracy").step == bound
    assert [record.step for record in list_checkpoints(run) if "last" in record.tags] == [bound]
    whole = recorded(digits_run, "train/loss", "train/learning_rate")
    assert recorded(run, "train/loss", "train/learning_rate") == {key: points[:bound] for key, points in whole.items()}
