"""A folder of images: classes by folder, sizes and channels as asked, what training saw as the measure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from trainwright.trainer.base.errors import ConfigurationError, DataError
from trainwright.trainer.data.assemble import from_loaded
from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.data.sources import load_source
from trainwright.trainer.engine.evaluation import evaluate_split


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The digits 0, 1 and 2 of scikit-learn as files: 537 images of 8 x 8."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    for number, (image, label) in enumerate(zip(digits.images, digits.target, strict=True)):
        if label < 3:
            place = tmp_path / "digits" / f"class {label}"
            place.mkdir(parents=True, exist_ok=True)
            Image.fromarray((image * 15).astype(np.uint8)).save(place / f"{number}.png")
    (tmp_path / "digits" / "notes.txt").write_text("no image")
    return tmp_path


@pytest.mark.requirement("TRAIN-1")
def test_pixels_and_classes_are_those_of_the_files_and_the_measure_is_the_train_splits(folder: Path) -> None:
    loaded = load_source("images", {"path": "digits", "channels": 3}, folder, SplitSection())
    assert loaded.class_names == ["class 0", "class 1", "class 2"]
    inputs = loaded.samples.tensors[0]
    assert inputs.shape == (537, 3, 8, 8)
    splits = from_loaded(loaded, SplitSection(), source="images")
    train = splits.samples["train"].tensors[0]
    assert train.mean(dim=(0, 2, 3)).tolist() == pytest.approx([0, 0, 0], abs=1e-5)
    assert train.std(dim=(0, 2, 3)).tolist() == pytest.approx([1, 1, 1], abs=1e-3)
    assert splits.preprocessing is not None
    assert torch.tensor(splits.preprocessing["mean"]).shape == (3, 1, 1)
    grey = load_source("images", {"path": "digits", "channels": 1, "size": [6, 4]}, folder, SplitSection())
    assert grey.samples.tensors[0].shape == (537, 1, 6, 4)


@pytest.mark.slow
@pytest.mark.requirement("TRAIN-1")
def test_a_small_resnet_learns_them(folder: Path, open_session: Any, take_steps: Any) -> None:
    values = {
        "model": {"use": "resnet", "args": {"depth": 8, "width": 4}},
        "data": {"use": "images", "args": {"path": "digits", "channels": 1}},
        "metrics": ["accuracy"],
        "optimizer": {"learning_rate": 1e-2},
        "training": {"epochs": 3},
        "logging": {"tensorboard": False},
    }
    session = open_session(values)
    for epoch in range(3):
        session.progress.epoch, session.progress.batch = epoch, 0
        take_steps(session, 100)
    assert evaluate_split(session, session.validation_loader)["accuracy"] > 0.9


@pytest.mark.requirement("TRAIN-1")
@pytest.mark.parametrize(
    ("args", "error", "told"),
    [
        ({"path": "digits/class 0"}, DataError, "has 0 folder"),
        ({"path": "torn"}, DataError, "The image a/1.png cannot be read"),
        ({"path": "uneven"}, DataError, "b/1.png is 4 x 5 pixels high and wide, the first image 3 x 3"),
        ({"path": "linked"}, ConfigurationError, "leads outside the code root"),
    ],
)
def test_a_bad_image_or_argument_is_told_with_its_path(
    args: dict[str, Any], error: type[Exception], told: str, folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside") / "1.png"
    Image.new("L", (3, 3)).save(outside)
    for name in ("torn", "uneven", "linked"):
        for label in "ab":
            (folder / name / label).mkdir(parents=True)
            size = (5, 4) if (name, label) == ("uneven", "b") else (3, 3)
            Image.new("L", size).save(folder / name / label / "1.png")
    torn = folder / "torn" / "a" / "1.png"
    torn.write_bytes(torn.read_bytes()[:40])
    link = folder / "linked" / "a" / "1.png"
    link.unlink()
    link.symlink_to(outside)
    with pytest.raises(error, match=told):
        load_source("images", args, folder, SplitSection())
