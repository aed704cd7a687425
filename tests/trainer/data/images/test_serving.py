"""Serving: from an image file to the prediction by the final model's folder alone, as training had it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from trainwright.trainer.assembly.build import build_data
from trainwright.trainer.config import parse_config
from trainwright.trainer.run import RunKind
from trainwright.trainer.run.results import Export

VALUES: dict[str, Any] = {
    "model": {"use": "cnn", "args": {"channels": [4]}},
    "data": {
        "use": "images",
        "args": {"path": "photos", "size": [9, 7], "augment": {"flip": "horizontal"}},
        "split": {"validation": 0.3, "test": 0.2},
    },
    "optimizer": {"learning_rate": 0.02},
    "training": {"epochs": 2},
    "metrics": ["accuracy"],
    "logging": {"tensorboard": False},
}


@pytest.mark.slow
@pytest.mark.requirement("CKPT-5", "TRAIN-1")
def test_files_give_the_very_rows_and_figures_of_training_by_the_final_folder_alone(
    tmp_path: Path, make_run: Any, work: Any, photos: Callable[..., Path]
) -> None:
    root = photos(60, (12, 10), "jpg")
    for number in range(0, 60, 7):  # of other sizes and kinds, as people's pictures are
        pixels = np.random.default_rng(number).integers(0, 255, (20 + number, 15), dtype=np.uint8)
        Image.fromarray(pixels).save(root / "photos" / "ab"[number % 2] / f"{number:03d}.jpg")
    source = make_run(tmp_path / "source", VALUES, code_root=str(root))
    assert work(source) == 0, source.log.read_text()
    run = make_run(tmp_path / "export", VALUES, kind=RunKind.EXPORT, source_run=str(source.path), code_root=str(root))
    assert work(run) == 0, run.log.read_text()
    folder = run.artifacts / "final_model"
    assert json.loads((folder / "schema.json").read_text())["pictures"]["size"] == [9, 7]

    validation = build_data(parse_config(VALUES), root).samples["validation"]
    files = [validation.pictures.files[row] for row in validation.rows]
    made = tmp_path / "rows.npz"
    command = [sys.executable, "-I", folder / "predict.py", "--json", "--inputs", made, *files]
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    rows = np.load(made)["input"]
    assert rows.dtype == np.uint8
    assert np.array_equal(rows, np.stack([validation.raw[row][0].numpy() for row in range(len(validation))]))

    import onnxruntime

    session = onnxruntime.InferenceSession(folder / "model.onnx")
    assert session.get_inputs()[0].type == "tensor(uint8)"
    (logits,) = session.run(None, {"input": rows})
    accuracy = float((logits.argmax(1) == validation.targets.numpy()).mean())
    names = json.loads((folder / "resolved.json").read_text())["class_names"]
    labels = [json.loads(line)["answer"]["label"] for line in done.stdout.splitlines()]
    assert labels == [names[place] for place in logits.argmax(1)]
    assert run.part(Export).skew.kind == "picture"
    assert accuracy == pytest.approx(run.part(Export).validation.metrics["accuracy"])
