"""Masks of the worst rows: the true ones as the files have them, the predicted ones as the model gives them."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from trainwright.tools.figures.drawing import draw
from trainwright.trainer.jobs.evaluation.record import evaluation
from trainwright.trainer.run.evaluation import FILE

pytestmark = pytest.mark.requirement("TRACK-1", "MON-2", "PHASE-6")


def write(root: Path, count: int = 30, size: int = 32) -> None:
    """Write pictures of a bright disc and a dark bar on noise, with their masks: ground, disc, bar."""
    down, across = np.mgrid[:size, :size]
    for number in range(count):
        draws = np.random.default_rng(number)
        top, left = draws.integers(8, size - 8, 2)
        mask = np.zeros((size, size), np.uint8)
        mask[(down - top) ** 2 + (across - left) ** 2 < 36] = 1
        mask[:, left // 4 : left // 4 + 3] = 2
        noise = draws.integers(60, 160, (size, size, 3))
        picture = np.where(mask[..., None] == 1, noise + 90, np.where(mask[..., None] == 2, noise - 60, noise))
        for name, pixels in (("photos", picture.astype(np.uint8)), ("masks", mask)):
            (root / name).mkdir(exist_ok=True)
            Image.fromarray(pixels).save(root / name / f"{number}.png")


@pytest.mark.slow
def test_the_worst_masks_are_kept_true_and_predicted_and_drawn(
    open_session: Any, take_steps: Any, tmp_path: Path
) -> None:
    write(tmp_path)
    args = {"path": "photos", "masks": "masks", "classes": ["ground", "disc", "bar"]}
    values = {
        "model": {"use": "unet", "args": {"depth": 1, "width": 4}},
        "data": {"use": "images", "args": args},
        "metrics": ["mean_iou"],
        "optimizer": {"learning_rate": 0.02},
    }
    session = open_session(values)
    take_steps(session, 6)
    found = evaluation(session)
    assert found.problem is None, found.problem
    session.run.write_evidence(found)
    with np.load(io.BytesIO((session.run.artifacts / FILE).read_bytes())) as arrays:
        images, targets, predictions = (arrays[f"worst_{name}"] for name in ("images", "targets", "predictions"))
    assert targets.shape == predictions.shape == images.shape[:3]
    samples = session.work.splits.samples["validation"]
    for row, target, guess in zip(found.worst, targets, predictions, strict=True):
        picture, mask = samples[row.row]
        with torch.no_grad():
            wanted = session.model.eval()(picture[None])[0].argmax(0)
        assert target.tolist() == mask.tolist()
        assert guess.tolist() == wanted.tolist()
    assert draw("worst_samples", [session.run], tmp_path / "worst.png").stat().st_size > 10_000
