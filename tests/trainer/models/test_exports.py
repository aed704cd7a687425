"""Exports and programs of the models by name, and of the library's with adapters: they give what the model gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from trainwright.trainer.checkpoints.store import DirectoryStore
from trainwright.trainer.engine.session import DEPLOYED
from trainwright.trainer.jobs.export.program import best_checkpoint
from trainwright.trainer.run import RunKind

pytestmark = pytest.mark.slow

GPT: dict[str, Any] = {
    "model": {"use": "gpt", "args": {"layers": 1, "heads": 2, "width": 8}},
    "data": {"use": "text", "args": {"path": "sentences.jsonl", "block_size": 16}},
    "loss": "next_token",
    "metrics": ["bits_per_byte"],
}
RESNET: dict[str, Any] = {
    "model": {"use": "resnet", "args": {"depth": 8, "width": 4}},
    "data": {"use": "digits"},
    "metrics": ["accuracy"],
}
SHORT: dict[str, Any] = {"training": {"epochs": 1, "max_steps": 4}, "logging": {"tensorboard": False}}


def exported(values: dict[str, Any], project: Path, make_run: Any, work: Any) -> Any:
    source = make_run(project / "runs" / "source", {**values, **SHORT}, code_root=str(project))
    assert work(source) == 0, source.log.read_text()
    run = make_run(
        project / "runs" / "export", {**values, **SHORT}, code_root=str(project),
        kind=RunKind.EXPORT, source_run=str(source.path),
    )  # fmt: skip
    assert work(run) == 0, run.log.read_text()
    return run


@pytest.mark.long
@pytest.mark.requirement("CKPT-5", "TRAIN-1")
@pytest.mark.parametrize("values", [pytest.param(GPT, marks=pytest.mark.long), RESNET], ids=["gpt", "resnet"])
def test_a_model_by_name_is_written_as_onnx(values: dict[str, Any], project: Path, make_run: Any, work: Any) -> None:
    evidence = exported(values, project, make_run, work).evidence("export")
    assert evidence["onnx"]["passed"]
    assert evidence["safetensors"]["reloaded_identical"]
    assert evidence["library"] is None


@pytest.mark.long
@pytest.mark.requirement("CKPT-5", "TRAIN-1")
def test_a_library_model_is_written_for_the_library_with_its_adapters_taken_in(
    project: Path, classify: dict[str, Any], make_run: Any, work: Any
) -> None:
    import torch
    from transformers import pipeline

    run = exported({**classify, "adapter": {"rank": 2}}, project, make_run, work)
    evidence = run.evidence("export")
    assert evidence["onnx"]["passed"]
    assert evidence["library"]["max_abs_difference"] <= 1e-4
    adapter = evidence["adapter"]
    assert (adapter["kind"], adapter["merged_in"], adapter["reloaded_identical"]) == ("lora", "transformers", True)
    assert adapter["merged"]["passed"]
    assert adapter["merged"]["rows_compared"] == 64
    assert {"adapter/adapter_config.json", "adapter/adapter_model.safetensors"} <= set(evidence["files"])
    folder = run.artifacts / "final_model" / "transformers"
    assert {f"transformers/{path.name}" for path in folder.iterdir()} <= set(evidence["files"])
    with torch.no_grad():
        (answer,) = pipeline("text-classification", model=str(folder))("The debugger's prompt is (Pdb).")
    assert answer["label"] in {"compound", "debugger", "string-methods", "formatstrings"}


TASKS = {
    "an example of one row": ("example_input': torch.zeros(1, 4)", 20),
    "an example by name": ("example_input': {'x': torch.zeros(1, 4)}", 20),
    "an example of another kind": ("example_input': (torch.zeros(3, 4), torch.ones(3, 1))", 3),
    "no example": ("shuffle': True", 20),
}


@pytest.mark.requirement("CKPT-5", "PHASE-6")
@pytest.mark.parametrize("kind", TASKS)
def test_an_export_is_compared_on_real_rows_where_they_are_what_the_model_takes(
    kind: str, tmp_path: Path, mine: str, open_session: Any
) -> None:
    from trainwright.trainer.jobs.export.inputs import example_rows

    given, expected = TASKS[kind]
    name = f"rows_of_{list(TASKS).index(kind)}"
    build = (
        "class Net(Net):\n    def forward(self, x, shift=0.0): return super().forward(x + shift)\n"
        f"def build(config): return {{'model': Net(), 'train': data(), 'validation': data(20), '{given}}}\n"
    )
    (tmp_path / f"{name}.py").write_text(f"{mine}{build}")
    session = open_session({"task": {"use": f"{name}.py:build"}, **SHORT})
    rows = list(example_rows(session)[0].values())
    assert [len(row) for row in rows] == [expected] * len(rows)
    if expected == 20:
        assert torch.equal(rows[0], session.work.splits.samples["validation"].tensors[0])


@pytest.mark.requirement("GATE-6", "CKPT-5")
@pytest.mark.parametrize("kind", ["gpt", "library with adapters"])
@pytest.mark.long
def test_a_language_model_leaves_a_program_that_gives_its_outputs(
    kind: str, project: Path, make_run: Any, work: Any, request: pytest.FixtureRequest
) -> None:
    import onnxruntime

    classify = request.getfixturevalue("classify")
    values = {**(GPT if kind == "gpt" else {**classify, "adapter": {"rank": 2}}), **SHORT}
    run = make_run(project / "runs" / "source", values, code_root=str(project), exports_program=True)
    assert work(run) == 0, run.log.read_text()
    record = run.evidence("program")
    assert record.get("problem") is None, record
    assert record["form"] == "onnx"
    alone = onnxruntime.SessionOptions()
    alone.intra_op_num_threads = 1  # a pool of threads would not survive the next fork
    path = str(run.artifacts / record["path"])
    program = onnxruntime.InferenceSession(path, alone, providers=["CPUExecutionProvider"])
    session = request.getfixturevalue("open_session")(values, "again")
    session.load_components(DirectoryStore(run).open(best_checkpoint(run)), DEPLOYED)
    session.model.eval()
    for batch in list(session.validation_loader.batches(0))[:2]:
        with torch.no_grad():
            wanted = session.validation_objective(session.model, batch).output
        named = batch if isinstance(batch, dict) else {"input": batch[0]}
        given = {name: named[name].numpy() for name in record["inputs"]}
        np.testing.assert_allclose(program.run(["output"], given)[0], wanted.numpy(), atol=1e-4)
    if kind == "gpt":  # shorter texts than it was trained on
        shorter = {name: value[:1, :5] for name, value in given.items()}
        assert program.run(["output"], shorter)[0].shape[:2] == (1, 5)
