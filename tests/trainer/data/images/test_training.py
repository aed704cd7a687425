"""Training on images: halted in the middle it ends with the same bits; masks and several labels are learned."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.trainer.whole_runs import Halted, assert_same_end, train_here

from trainwright.trainer.data.images import loading
from trainwright.trainer.run.artifacts import Program
from trainwright.trainer.run.evidence import Summary

Write = Callable[..., Path]
BASE: dict[str, Any] = {
    "optimizer": {"learning_rate": 0.01},
    "training": {"epochs": 2},
    "loader": {"batch_size": 8},
    "logging": {"tensorboard": False},
}


@pytest.mark.long
@pytest.mark.requirement("REPRO-6", "TRAIN-1")
def test_an_augmented_run_halted_in_mid_epoch_ends_with_the_bits_of_one_with_other_workers(
    tmp_path: Path, make_run: Any, photos: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = photos(60)
    args = {"path": "photos", "augment": {"flip": "both", "rotate": 20, "policy": "randaugment"}}
    values = {**BASE, "model": {"use": "cnn", "args": {"channels": [4]}}, "data": {"use": "images", "args": args}}
    whole = make_run(tmp_path / "whole", values, code_root=str(root))
    train_here(whole)
    values = {**values, "loader": {"batch_size": 8, "num_workers": 2}}
    run = make_run(tmp_path / "halted", values, code_root=str(root))
    monkeypatch.setattr(loading, "DECODED_BYTES", 0)
    with pytest.raises(Halted):
        train_here(run, halt_at=8)
    train_here(run)
    assert run.events("resumed")
    assert_same_end(run, whole)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.requirement("TRAIN-1", "TRAIN-6")
def test_a_unet_learns_masks_and_leaves_a_program(tmp_path: Path, make_run: Any, work: Any) -> None:
    random = np.random.default_rng(0)
    for number in range(60):
        mask = np.zeros((16, 16), dtype=np.uint8)
        top, left = random.integers(1, 8, 2)
        mask[top : top + 7, left : left + 7] = 1
        pixels = (mask[..., None] * 120 + random.integers(0, 60, (16, 16, 3))).astype(np.uint8)
        mask[0] = 255
        for name, array in (("photos", pixels), ("masks", mask)):
            place = tmp_path / "code" / name / f"{number}.png"
            place.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(array).save(place)
    args = {"path": "photos", "masks": "masks", "classes": ["ground", "block"], "augment": {"flip": "both"}}
    values = {
        **BASE,
        "model": {"use": "unet", "args": {"depth": 2, "width": 4}},
        "data": {"use": "images", "args": args},
        "loss": "dice_cross_entropy",
        "metrics": ["mean_iou"],
        "training": {"epochs": 4},
    }
    run = make_run(tmp_path / "run", values, code_root=str(tmp_path / "code"), exports_program=True)
    assert work(run) == 0, run.log.read_text()
    assert run.part(Summary).final["mean_iou"] > 0.7
    assert run.part(Program).problem is None


@pytest.mark.slow
@pytest.mark.requirement("TRAIN-1")
def test_several_labels_of_a_table_are_learned(tmp_path: Path, make_run: Any, work: Any) -> None:
    random = np.random.default_rng(0)
    (tmp_path / "photos").mkdir()
    lines = ["file,labels"]
    for number in range(80):
        has = random.random(2) < 0.5
        pixels = random.integers(0, 60, (8, 8, 3)).astype(np.uint8)
        pixels[..., 0] += 120 * has[0].astype(np.uint8)
        pixels[..., 2] += 120 * has[1].astype(np.uint8)
        Image.fromarray(pixels).save(tmp_path / "photos" / f"{number}.png")
        lines.append(f"photos/{number}.png,{';'.join(np.array(['red', 'blue'])[has])}")
    (tmp_path / "labels.csv").write_text("\n".join(lines))
    values = {
        **BASE,
        "model": {"use": "cnn", "args": {"channels": [4]}},
        "data": {"use": "images", "args": {"path": "labels.csv", "target": "labels", "separator": ";"}},
        "loss": "bce_with_logits",
        "metrics": ["f1"],
        "optimizer": {"learning_rate": 0.05},
        "training": {"epochs": 6},
    }
    run = make_run(tmp_path / "run", values, code_root=str(tmp_path))
    assert work(run) == 0, run.log.read_text()
    assert run.part(Summary).final["f1"] > 0.8
