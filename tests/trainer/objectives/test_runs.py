"""Whole runs under an objective, in worker processes: killed in mid-epoch, by two processes, exported, taught by it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.variants import variants

from trainwright.trainer.run import RunDirectory, RunKind

pytestmark = pytest.mark.slow

CLASSES: dict[str, Any] = {
    "model": {"use": "mlp", "args": {"hidden": [16], "dropout": 0.1}},
    "data": {"use": "iris", "split": {"test": 0.2}},
    "loader": {"batch_size": 16},
    "training": {"epochs": 3},
    "logging": {"tensorboard": False},
}
OBJECTIVES: dict[str, dict[str, Any]] = {
    "adversarial": {"name": "adversarial", "epsilon": 0.2, "steps": 2, "evaluation_steps": 2},
    "contrastive": {"name": "contrastive", "outputs": 4, "projection": [8]},
}
ENDS = ("weights_digest", "best", "final", "stop_reason", "epochs", "steps")


def assert_same_end(run: RunDirectory, other: RunDirectory) -> None:
    ours, theirs = run.evidence("summary"), other.evidence("summary")
    assert {key: ours[key] for key in ENDS} == {key: theirs[key] for key in ENDS}
    for path in other.checkpoints.glob("step-*"):
        for file in ("model.safetensors", "optimizer.safetensors"):
            assert (run.checkpoints / path.name / file).read_bytes() == (path / file).read_bytes()


TWO_TARGETS = """
import torch
def two():
    x = torch.randn(80, 4, generator=torch.Generator().manual_seed(0))
    y = torch.stack([(x[:, 0] > 0).float(), 3 * x[:, 1]], 1)
    return {"train": torch.utils.data.TensorDataset(x[:64], y[:64]),
            "validation": torch.utils.data.TensorDataset(x[64:], y[64:])}
"""
TASKS: dict[str, Any] = {"side": {"outputs": 2}, "height": {"loss": "mse", "outputs": 1}}


@pytest.mark.requirement("REPRO-6", "TRAIN-5")
def test_learned_weights_of_tasks_go_on_where_a_run_was_halted(
    tmp_path: Path, assert_halted_ends_the_same: Any, recorded: Any
) -> None:
    (tmp_path / "two.py").write_text(TWO_TARGETS)
    values = {**CLASSES, "data": {"use": "two:two"}, "objective": {"name": "multi_task", "tasks": TASKS}}
    keys = ("train/side_weight", "train/height_weight")
    whole = assert_halted_ends_the_same({**values, "loader": {"batch_size": 8}}, 2 * 8 + 4, *keys)
    assert all(len({value for _, value in series}) == 24 for series in recorded(whole, *keys).values()), "are learned"


@pytest.mark.long
@pytest.mark.requirement("TRAIN-5", "TRAIN-6")
@pytest.mark.parametrize("name", variants(OBJECTIVES, quick=["contrastive"]))
def test_two_processes_train_and_measure_it_together(name: str, tmp_path: Path, make_run: Any, work: Any) -> None:
    import torch.distributed
    import torch.nn.parallel

    assert torch.nn.parallel.DistributedDataParallel
    values = {**CLASSES, "objective": OBJECTIVES[name], "distributed": {"processes": 2}}
    runs = [make_run(tmp_path / which, values) for which in ("one", "again")]
    for run in runs:
        assert work(run) == 0, run.log.read_text()
    assert_same_end(*runs)
    measured = runs[0].evidence("summary")["final"]
    added = {"adversarial": "robust_accuracy", "contrastive": "linear_probe_accuracy"}[name]
    assert 0.0 <= measured[added] <= 1.0


@pytest.mark.long
@pytest.mark.requirement("TRAIN-5")
def test_an_exported_run_teaches_a_student_whose_export_needs_no_teacher(
    tmp_path: Path, make_run: Any, work: Any
) -> None:
    teacher = make_run(tmp_path / "teacher", {**CLASSES, "model": {"use": "mlp", "args": {"hidden": [32, 16]}}})
    export = make_run(tmp_path / "final", CLASSES, kind=RunKind.EXPORT, source_run=str(teacher.path))
    assert [work(teacher), work(export)] == [0, 0], export.log.read_text()
    folder = "final/artifacts/final_model"
    objective = {"name": "distillation", "teacher": {"weights": folder}}
    objective["features"] = [{"student": "layers.2", "teacher": "layers.2"}]
    student = make_run(tmp_path / "student", {**CLASSES, "objective": objective})
    assert work(student) == 0, student.log.read_text()
    resolved = student.evidence("resolved")["objective_rests_on"]["teacher"]
    assert resolved["weights_digest"] == export_digest(export, tmp_path / folder)
    files = student.evidence("data")["files"]
    assert files == {f"{folder}/model.safetensors": resolved["weights_file_digest"]}
    (tmp_path / folder / "model.safetensors").unlink()
    last = make_run(tmp_path / "last", CLASSES, kind=RunKind.EXPORT, source_run=str(student.path))
    assert work(last) == 0, last.log.read_text()
    measured = last.evidence("export")["validation"]["metrics"]
    assert measured == student.evidence("summary")["best"]["metrics"]


def export_digest(export: RunDirectory, folder: Path) -> str:
    from safetensors.torch import load_file

    from trainwright.trainer.data.fingerprint import weights_digest

    assert export.evidence("export")
    return weights_digest(load_file(folder / "model.safetensors"))


@pytest.mark.long
@pytest.mark.requirement("TRAIN-5")
def test_a_contrastive_export_is_measured_through_the_trained_head(tmp_path: Path, make_run: Any, work: Any) -> None:
    run = make_run(tmp_path / "run", {**CLASSES, "objective": OBJECTIVES["contrastive"]})
    export = make_run(tmp_path / "export", CLASSES, kind=RunKind.EXPORT, source_run=str(run.path))
    assert [work(run), work(export)] == [0, 0], export.log.read_text()
    measured = export.evidence("export")["validation"]["metrics"]
    assert measured == run.evidence("summary")["best"]["metrics"]
