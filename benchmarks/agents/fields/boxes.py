"""Pictures with one box each: parcels on a conveyor belt, and the code that is to find them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from task import Array, Goal, Task, columns, draws, write_picture, write_table, write_text

WIDTH, HEIGHT, PICTURES = 64, 48, 420
CODE = '''\
import csv
import os

import numpy as np
import torch
import torch.nn as nn
from PIL import Image
from torch.utils.data import Dataset

W, H = 64, 48


class Parcels(Dataset):
    """picture -> (left, top, right, bottom) as fractions of the picture"""

    def __init__(self, root):
        self.root = root
        with open(os.path.join(root, "boxes.csv")) as f:
            self.rows = list(csv.DictReader(f, delimiter=";"))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        r = self.rows[i]
        img = np.asarray(Image.open(os.path.join(self.root, "img", r["file"])), dtype=np.float32) / 255
        l, t, w, h = (float(r[k]) for k in ("left", "top", "width", "height"))
        box = torch.tensor([l / W, t / H, (l + w) / W, (t + h) / H])
        return torch.from_numpy(img)[None], box


class Finder(nn.Module):
    def __init__(self, ch=16):
        super().__init__()
        def block(i, o):
            return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(), nn.MaxPool2d(2))
        self.body = nn.Sequential(block(1, ch), block(ch, 2 * ch), block(2 * ch, 2 * ch))
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(2 * ch * 6 * 8, 64), nn.ReLU(), nn.Linear(64, 4))

    def forward(self, x):
        return torch.sigmoid(self.head(self.body(x)))


def iou(pred, true):
    """mean overlap of boxes given as left, top, right, bottom"""
    lt = torch.maximum(pred[:, :2], true[:, :2])
    rb = torch.minimum(pred[:, 2:], true[:, 2:])
    inter = (rb - lt).clamp(min=0).prod(1)
    area = lambda b: (b[:, 2:] - b[:, :2]).clamp(min=0).prod(1)
    return (inter / (area(pred) + area(true) - inter).clamp(min=1e-9)).mean()
'''
TRAIN = """\
# quick and dirty, gave ~0.5 on everything (train pictures included...)
import torch
from finder import Finder, Parcels, iou

data = Parcels("data")
net = Finder()
opt = torch.optim.SGD(net.parameters(), lr=0.01)
for epoch in range(5):
    for x, y in torch.utils.data.DataLoader(data, batch_size=32, shuffle=True):
        opt.zero_grad()
        torch.nn.functional.smooth_l1_loss(net(x), y).backward()
        opt.step()
    print(epoch, iou(net(x), y).item())
"""


def lay_out(folder: Path) -> None:
    """Draw a bright parcel on a belt with stripes, labels and noise in each picture."""
    draw, rows = draws("boxes"), []
    for number in range(PICTURES):
        picture = 60 + 30 * draw.random() + draw.normal(0, 9, (HEIGHT, WIDTH))
        picture[:, :: int(draw.integers(6, 12))] -= 18
        for _ in range(3):  # what lies about, smaller than a parcel
            top, left = draw.integers(0, HEIGHT - 4), draw.integers(0, WIDTH - 4)
            picture[top : top + 3, left : left + 3] += 70
        width, height = (int(side) for side in draw.integers((14, 12), (30, 24)))
        left, top = int(draw.integers(0, WIDTH - width)), int(draw.integers(0, HEIGHT - height))
        picture[top : top + height, left : left + width] += 55 + 40 * draw.random()
        picture[top + height // 2, left : left + width] -= 40  # the tape
        rows.append((f"cam1_{number:04d}.png", left, top, width, height))
        write_picture(folder / "data" / "img" / rows[-1][0], picture)
    write_table(folder / "data" / "boxes.csv", ("file", "left", "top", "width", "height"), rows, ";")
    write_text(folder, {"finder.py": CODE, "train.py": TRAIN})


def truth(folder: Path) -> list[Array]:
    """Return corners as fractions, as the user's code has them."""
    left, top, width, height = columns(folder / "data" / "boxes.csv", ("left", "top", "width", "height"), ";").T
    return [np.stack([left / WIDTH, top / HEIGHT, (left + width) / WIDTH, (top + height) / HEIGHT], axis=1)]


def overlap(outputs: Array, targets: Array) -> float:
    """Return the mean of intersection over union of boxes, (samples, 4) corners each."""
    shared = np.minimum(outputs[:, 2:], targets[:, 2:]) - np.maximum(outputs[:, :2], targets[:, :2])
    common = np.clip(shared, 0, None).prod(axis=1)
    ours, theirs = (np.clip(box[:, 2:] - box[:, :2], 0, None).prod(axis=1) for box in (outputs, targets))
    return float((common / np.clip(ours + theirs - common, 1e-9, None)).mean())


TASK = Task(
    name="boxes",
    field="pictures with boxes, user code",
    sentence="finder.py is meant to find the parcel in the pictures of our belt camera (data/), but train.py never got "
    "anywhere. Train it properly: a mean IoU of at least 0.7 on pictures it was not trained on, measured with the iou "
    "of finder.py. I need a file that I can run on a new picture without your code.",
    goal=Goal("iou", 0.7),
    lay_out=lay_out,
    truth=truth,
    figure=overlap,
)
