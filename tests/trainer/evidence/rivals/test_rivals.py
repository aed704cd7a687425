"""Rivals of texts and pictures, what an export keeps of them, and data that have none."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from trainwright.trainer.assembly.build import build_data
from trainwright.trainer.config import TrainingConfig, parse_config
from trainwright.trainer.data.splits import Splits
from trainwright.trainer.data.tensors import TensorSamples
from trainwright.trainer.evidence.rivals import rivals_evidence
from trainwright.trainer.evidence.rivals.fitted import targets_of
from trainwright.trainer.run.rivals import Rival

pytestmark = pytest.mark.requirement("PHASE-3", "PIPE-3")


def config_of(use: str, **args: Any) -> TrainingConfig:
    return parse_config({"model": {"use": "mlp"}, "data": {"use": use, "args": args}, "metrics": ["accuracy"]})


def rival_of(
    splits: Splits, config: TrainingConfig, keep_in: Path | None = None, of: Sequence[str] = ("validation",)
) -> Rival:
    found = rivals_evidence(splits, config, keep_in, of)
    assert found is not None
    assert found.not_fitted is None
    (rival,) = found.rivals
    return rival


@pytest.mark.parametrize("tokenizer", ["bytes", "bpe:330"])
def test_counted_words_tell_topics_whose_words_are_in_any_order(tokenizer: str, tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    words = {"bill": ["money", "charge", "refund", "price"], "login": ["password", "account", "locked", "code"]}
    rows = [f"{' '.join(draw.choice(words[topic], 4))} {row},{topic}" for row, topic in enumerate([*words] * 60)]
    (tmp_path / "t.csv").write_text("\n".join(["text,topic", *rows]))
    config = config_of("csv", path="t.csv", text="text", target="topic", tokenizer=tokenizer, max_length=48)
    rival = rival_of(build_data(config, tmp_path), config)
    assert rival.metrics["accuracy"] > 0.95
    assert rival.told.startswith("counted words" if tokenizer == "bytes" else "counted tokens")


def test_the_nearest_class_mean_of_pixels_is_that_of_numpy(tmp_path: Path) -> None:
    config = config_of("digits")
    splits = build_data(config, tmp_path)
    train, held_out = (splits.samples[name] for name in ("train", "validation"))
    (x, y), (held_x, held_y) = ((one.column(0).flatten(1).numpy(), targets_of(one)) for one in (train, held_out))
    means = np.stack([x[y == digit].mean(axis=0) for digit in range(10)])
    nearest = np.linalg.norm(held_x[:, None] - means, axis=2).argmin(axis=1)
    rival = rival_of(splits, config)
    assert rival.metrics["accuracy"] == pytest.approx((nearest == held_y).mean())


def test_an_export_keeps_what_a_rival_gives_for_the_rows_as_they_lie_in_files(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    for number in range(40):
        folder = tmp_path / "photos" / ("dark" if number % 2 else "light")
        folder.mkdir(parents=True, exist_ok=True)
        pixels = draw.integers(0, 100, (8, 8, 3)) + 100 * (1 - number % 2)
        Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{number}.png")
    config = config_of("images", path="photos", size=[8, 8], augment={"flip": "horizontal"})
    splits = build_data(config, tmp_path)
    assert list(rival_of(splits, config, tmp_path).kept) == ["validation"], "a baseline's test rows are left alone"
    rival = rival_of(splits, config, tmp_path, ("validation", "test"))
    assert rival.metrics["accuracy"] == 1.0
    for name, kept in rival.kept.items():
        for one in (kept.outputs, kept.targets):
            assert hashlib.sha256((tmp_path / one.path).read_bytes()).hexdigest() == one.digest
        outputs, targets = (np.load(tmp_path / one.path) for one in (kept.outputs, kept.targets))
        assert (targets == targets_of(splits.samples[name])).all()
        assert (outputs.argmax(1) == targets).all()
    assert sorted(rival.kept) == ["test", "validation"]


def test_small_arrays_are_a_table_of_their_numbers_and_large_ones_are_pictures() -> None:
    rows = torch.randn(300, 5, 3)
    targets = (rows[:, 0, 1] + rows[:, 4, 2] > 0).long()
    parts = {"train": slice(0, 200), "validation": slice(200, 300)}
    config = config_of("digits")
    for width, names in ((5, ["boosted_trees", "linear"]), (100, ["class_means"])):
        wide = torch.cat([rows, torch.zeros(300, width - 5, 3)], dim=1)
        samples = {name: TensorSamples(wide[part], targets[part]) for name, part in parts.items()}
        found = rivals_evidence(Splits(samples, {}, "npz"), config)
        assert found is not None
        assert [one.name for one in found.rivals] == names
        assert all(one.metrics["accuracy"] > 0.85 for one in found.rivals if width < 100)


def test_other_data_have_no_rival() -> None:
    rows = torch.randn(30, 2, 3, 4, 5)
    parts = {name: TensorSamples(rows, torch.randint(0, 2, (30,))) for name in ("train", "validation")}
    assert rivals_evidence(Splits(parts, {}, "npz"), config_of("digits")) is None
