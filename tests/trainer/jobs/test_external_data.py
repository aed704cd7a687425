"""ONNX programs above 2 GB: weights beside the file, compared, run by the clean room, and refused when changed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from tests.trainer.saving import checkpoint_of

from trainwright.trainer.clean_room.programs import open_program
from trainwright.trainer.clean_room.rows import RefusalError
from trainwright.trainer.jobs.export import exporters
from trainwright.trainer.jobs.export.program import AT_THE_END, prepared, write_program

pytestmark = pytest.mark.slow


@pytest.mark.long
@pytest.mark.requirement("CKPT-5", "GATE-6")
def test_a_large_program_keeps_its_weights_in_a_file_beside_it(
    open_session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exporters, "LARGEST_BYTES", 20_000)
    values = {"model": {"use": "mlp", "args": {"hidden": [96, 64]}}, "data": {"use": "iris"}}
    session = open_session(values)
    session.model.eval()
    serving, rows, (_, inputs) = prepared(session)
    folder = session.run.artifacts / "model"
    written = write_program(serving, rows, folder, AT_THE_END, 1e-4)
    assert written.exporter == exporters.DYNAMO, "TorchScript's exporter comes first, and cannot"
    assert {path.name for path in folder.iterdir()} == {"model.onnx", "model.onnx.data"}
    record = written.record(session.run.artifacts, replace(checkpoint_of(session), manifest={"digest": "this"}))
    assert record.data.keys() == {"model.onnx.data"}
    assert record.bytes > 20_000 > written.path.stat().st_size
    assert exporters.onnx_evidence(written.path, written.parity).passed
    order = {"path": str(written.path), **record.model_dump(include={"form", "digest", "data", "inputs", "outputs"})}
    given = rows.first(inputs)
    with torch.no_grad():
        wanted = serving(*given.values())
    found = open_program(order, threads=1)({name: value.numpy() for name, value in given.items()})
    np.testing.assert_allclose(found["output"], wanted.numpy(), atol=1e-4)
    weights = exporters.data_of(written.path)
    content = bytearray(weights.read_bytes())
    content[100] ^= 1
    weights.write_bytes(bytes(content))
    with pytest.raises(RefusalError, match="model.onnx.data"):
        open_program(order, threads=1)
    weights.unlink()
    with pytest.raises(RefusalError, match="no model.onnx.data beside model.onnx"):
        open_program(order, threads=1)
