"""Cases of `make predict` by code of the user's own: boxes in a picture's own pixels, and a policy's actions."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

STATES = {"use": "pole.py:states", "split": {"test": 0.2}, "present": "pole.py:action"}
BOXES = """\
import numpy
import torch
from pathlib import Path
from PIL import Image
from serve import SIDE, prepare

HERE = Path(__file__).parent
lines = [line.split(",") for line in (HERE / "boxes.txt").read_text().split()]


class Pictures(torch.utils.data.Dataset):
    def __init__(self, split):
        self.rows = [row for row in lines if row[0].startswith(split)]
        self.raw_inputs = [str(HERE / row[0]) for row in self.rows]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, place):
        width, height = Image.open(self.raw_inputs[place]).size
        box = numpy.array(self.rows[place][1:], dtype=numpy.float32) / [width, height, width, height]
        return torch.from_numpy(prepare(self.raw_inputs[place])), torch.from_numpy(box.astype(numpy.float32))


def load():
    return {split: Pictures(split) for split in ("train", "validation", "test")}
"""
SERVE_BOXES = """\
import numpy
from PIL import Image, ImageDraw

SIDE = 16


def prepare(path):
    with Image.open(path) as picture:
        return numpy.asarray(picture.convert("L").resize((SIDE, SIDE)), dtype=numpy.float32)[None] / 255


def present(output, path):
    with Image.open(path) as opened:
        picture = opened.convert("RGB")
    width, height = picture.size
    left, top, right, bottom = (float(one) * side for one, side in zip(output, (width, height) * 2))
    corners = (min(left, right), min(top, bottom), max(left, right), max(top, bottom))
    ImageDraw.Draw(picture).rectangle(corners, outline="red")
    drawn = path.replace("\\\\", "/").rpartition("/")[2].replace(".png", "-box.png")
    picture.save(drawn)
    return {"box": [left, top, right, bottom], "drawn": drawn}
"""


def boxes(folder: Path) -> tuple[list[str], Sequence[Any]]:
    """Write pictures of several sizes with a bright rectangle each, and code that finds it."""
    from PIL import Image

    lines, truth = [], []
    for n in range(80):
        draw, split = np.random.default_rng(n), ("train", "train", "validation", "test")[n % 4]
        width, height = int(draw.integers(20, 60)), int(draw.integers(20, 60))
        left, top = int(draw.integers(0, width // 2)), int(draw.integers(0, height // 2))
        box = (left, top, left + width // 3, top + height // 3)
        pixels = np.zeros((height, width), np.uint8)
        pixels[box[1] : box[3], box[0] : box[2]] = 255
        Image.fromarray(pixels).save(folder / f"{split}{n}.png")
        lines.append(",".join(map(str, (f"{split}{n}.png", *box))))
        if split == "test":
            truth.append((str(folder / f"{split}{n}.png"), width, height, box))
    for name, text in (("data.py", BOXES), ("serve.py", SERVE_BOXES), ("boxes.txt", "\n".join(lines))):
        (folder / name).write_text(text)
    return [one[0] for one in truth], truth


def box_error(answers: Sequence[dict[str, Any]], truth: Sequence[Any]) -> float:
    """Return the mean absolute error of sides as shares of the picture's own, each picture drawn at its own size."""
    from PIL import Image

    errors = []
    for said, (_, width, height, box) in zip(answers, truth, strict=True):
        sides = np.array([*Image.open(said["drawn"]).size] * 2)  # other ones than the picture's give another figure
        errors.append(np.abs(np.array(said["box"]) / sides - box / np.array([width, height] * 2)))
    return float(np.mean(errors))


POLE = """

def action(output):
    return {"push": ("left", "right")[int(output[0] < output[1])]}
"""


def policy(folder: Path) -> tuple[list[str], Sequence[Any]]:
    """Write a pole's policy; its test states are those of the fixed rows."""
    sys.path.insert(1, str(Path(__file__).parents[2] / "tests"))
    from worlds.pole import CODE

    (folder / "pole.py").write_text(CODE + POLE)
    return [], []


def pushes(answers: Sequence[dict[str, Any]], truth: Sequence[Any]) -> float:
    """Return the share of actions that are the rule's."""
    return float(
        np.mean([said["push"] == ("left", "right")[int(one)] for said, one in zip(answers, truth, strict=True)])
    )
