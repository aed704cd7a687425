"""Programs of language models: of the one by name, and of the library's with adapters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from trainwright.trainer.checkpoints.store import store_of
from trainwright.trainer.engine.session import DEPLOYED
from trainwright.trainer.jobs.export.program import best_checkpoint

pytestmark = pytest.mark.slow

GPT: dict[str, Any] = {
    "model": {"use": "gpt", "args": {"layers": 1, "heads": 2, "width": 8}},
    "data": {"use": "text", "args": {"path": "sentences.jsonl", "block_size": 16}},
    "loss": "next_token",
    "metrics": ["bits_per_byte"],
}
SHORT: dict[str, Any] = {"training": {"epochs": 1, "max_steps": 4}, "logging": {"tensorboard": False}}


@pytest.mark.requirement("GATE-6", "CKPT-5")
@pytest.mark.parametrize("kind", ["gpt", "library with adapters"])
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
    session.load_components(store_of(run).open(best_checkpoint(run)), DEPLOYED)
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
