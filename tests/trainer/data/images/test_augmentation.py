"""Augmentation: train alone, in any process, drawn by (seed, epoch, sample); a picture and its mask move together."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from trainwright.trainer.data.assemble import from_loaded
from trainwright.trainer.data.images.augmentation import AugmentSection
from trainwright.trainer.data.images.operations import Picture, mirrored, moved, turned
from trainwright.trainer.data.loader import BatchLoader
from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.data.sources import load_source
from trainwright.trainer.data.splits import Splits
from trainwright.trainer.evidence.data import data_evidence

Write = Callable[..., Path]
ALL = {"flip": "both", "crop": 0.5, "shift": 0.2, "rotate": 30, "color": 0.4, "erase": 0.5, "policy": "randaugment"}

CHANGES = [{name: value} for name, value in ALL.items()] + [{"policy": "trivial_augment"}, ALL]


def splits_of(root: Path, **args: Any) -> Splits:
    loaded = load_source("images", {"path": "photos", **args}, root, SplitSection())
    return from_loaded(loaded, SplitSection(), source="images")


def batches(splits: Splits, workers: int, epoch: int, offset: int = 0, seed: int = 1) -> list[torch.Tensor]:
    loader = BatchLoader(splits.samples["train"], 8, seed, shuffle=True, num_workers=workers)
    return [batch[0] for batch in loader.batches(epoch, offset)]


def equal(one: list[torch.Tensor], two: list[torch.Tensor]) -> bool:
    return all(torch.equal(first, second) for first, second in zip(one, two, strict=True))


@pytest.mark.requirement("TRAIN-1", "REPRO-1")
def test_draws_are_keyed_to_seed_epoch_and_sample_whoever_fetches_from_wherever(photos: Write) -> None:
    splits = splits_of(photos(), augment=ALL)
    whole = batches(splits, 0, epoch=1)
    assert equal(whole, batches(splits, 2, epoch=1))
    assert equal(whole[2:], batches(splits, 2, epoch=1, offset=2)), "as after a kill in the middle of an epoch"
    assert not equal(whole, batches(splits, 0, epoch=1, seed=2))
    ordered = [BatchLoader(splits.samples["train"], 28, 1, shuffle=False) for _ in range(2)]
    first, later = (next(loader.batches(epoch))[0] for epoch, loader in enumerate(ordered))
    assert not torch.equal(first, later), "every epoch draws anew"


@pytest.mark.requirement("TRAIN-1", "REPRO-4")
def test_only_train_is_changed_and_the_fingerprint_is_of_the_pictures_as_they_are(photos: Write) -> None:
    root = photos()
    plain, changed = splits_of(root), splits_of(root, augment=ALL)
    for name in ("validation", "test"):
        assert equal([row[0] for row in plain.samples[name]], [row[0] for row in changed.samples[name]])
    assert not equal([row[0] for row in plain.samples["train"]], [row[0] for row in changed.samples["train"]])
    assert data_evidence(plain, root).fingerprint == data_evidence(changed, root).fingerprint
    raw = changed.samples["train"].raw
    assert raw[0][0].dtype == torch.uint8
    assert torch.equal(raw[0][0], plain.samples["train"].raw[0][0])


@pytest.mark.requirement("TRAIN-1")
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(
    "change", [{name: value} for name, value in ALL.items()] + [{"policy": "trivial_augment"}, ALL]
)
def test_every_change_keeps_shape_and_type_and_changes_most_pictures(change: dict[str, Any], channels: int) -> None:
    augment = AugmentSection(**change).build()
    pixels = np.random.default_rng(0).integers(0, 255, (channels, 12, 16), dtype=np.uint8)
    changed = 0
    for seed in range(30):
        random.seed(seed)
        found, mask = augment(pixels)
        assert found.shape == pixels.shape
        assert found.dtype == np.uint8
        assert mask is None
        changed += not np.array_equal(found, pixels)
    assert changed >= 10
    random.seed(7)
    once = augment(pixels)[0]
    random.seed(7)
    assert np.array_equal(once, augment(pixels)[0])


@pytest.mark.requirement("TRAIN-1")
def test_a_mask_moves_with_its_picture_and_what_comes_from_outside_is_ignored() -> None:
    numbers = np.kron(np.arange(1, 5).reshape(2, 2), np.ones((8, 8), dtype=np.int64))
    pixels = (numbers * 60).astype(np.uint8)[None]
    for section in (
        AugmentSection(flip="both", crop=0.4, shift=0.3, rotate=90),
        AugmentSection(policy="trivial_augment"),
    ):
        augment = section.build()
        for seed in range(20):
            random.seed(seed)
            picture, mask = augment(pixels, numbers)
            assert mask is not None
            assert set(np.unique(mask)) <= {-100, 1, 2, 3, 4}
            if section.policy is None:
                inside = mask != -100
                same = np.abs(picture[0][inside].astype(int) - mask[inside] * 60) < 30
                assert same.mean() > 0.75, "but for borders, which are interpolated"


@pytest.mark.requirement("TRAIN-1")
def test_maps_move_pixels_as_their_names_say() -> None:
    pixels = np.arange(12, dtype=np.uint8).reshape(1, 3, 4)

    def after(places: Any) -> Any:
        picture = Picture(pixels)
        picture.move(places)
        return picture.pixels[0]

    assert np.array_equal(after(mirrored(4, 0)), pixels[0, :, ::-1])
    assert np.array_equal(after(mirrored(3, 1)), pixels[0, ::-1])
    assert np.array_equal(after(moved(1, 0))[:, :3], pixels[0, :, 1:])
    square = Picture(np.arange(9, dtype=np.uint8).reshape(1, 3, 3))
    square.move(turned(180, 3, 3))
    assert square.pixels[0, :2].tolist() == [[8, 7, 6], [5, 4, 3]]
    assert Image.fromarray(pixels[0]).mode == "L"
