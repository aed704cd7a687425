"""A Lightning repository: module, data module and command line of somebody who classifies cloud pictures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from task import Array, Goal, Task, draws, numbered, read_table, write_picture, write_table, write_text

SIDE, PICTURES = 24, 900
KINDS = ("cirrus", "cumulus", "stratus")
DATA = """\
from pathlib import Path

import lightning as L
import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset, random_split

CLASSES = ["cirrus", "cumulus", "stratus"]


class CloudPictures(Dataset):
    def __init__(self, root, augment=False):
        self.root, self.augment = Path(root), augment
        lines = (self.root / "labels.csv").read_text().splitlines()[1:]
        self.items = [line.split(",") for line in lines]

    def __len__(self):
        return len(self.items)

    def __getitem__(self, idx):
        name, label = self.items[idx]
        img = torch.from_numpy(np.array(Image.open(self.root / name), dtype=np.float32) / 255 - 0.5)[None]
        if self.augment and torch.rand(1) < 0.5:
            img = img.flip(-1)
        return img, CLASSES.index(label)


class CloudData(L.LightningDataModule):
    def __init__(self, root="sky", batch_size=64):
        super().__init__()
        self.save_hyperparameters()

    def setup(self, stage=None):
        full = CloudPictures(self.hparams.root)
        n = len(full)
        self.train, self.val, self.test = random_split(
            full, [n - 2 * (n // 6), n // 6, n // 6], torch.Generator().manual_seed(1)
        )

    def train_dataloader(self):
        return DataLoader(self.train, batch_size=self.hparams.batch_size, shuffle=True)

    def val_dataloader(self):
        return DataLoader(self.val, batch_size=128)

    def test_dataloader(self):
        return DataLoader(self.test, batch_size=128)
"""
MODULE = """\
import lightning as L
import torch
import torch.nn.functional as F
from torch import nn
from torchmetrics import Accuracy


class CloudNet(L.LightningModule):
    def __init__(self, lr=1e-3, width=16):
        super().__init__()
        self.save_hyperparameters()
        self.net = nn.Sequential(
            nn.Conv2d(1, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(width, 2 * width, 3, padding=1), nn.BatchNorm2d(2 * width), nn.ReLU(),
            nn.AdaptiveAvgPool2d(3), nn.Flatten(), nn.Dropout(0.2), nn.Linear(18 * width, 3),
        )
        self.acc = Accuracy("multiclass", num_classes=3)

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = F.cross_entropy(self(x), y)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        x, y = batch
        logits = self(x)
        self.acc(logits, y)
        self.log("val_loss", F.cross_entropy(logits, y), prog_bar=True)
        self.log("val_acc", self.acc, on_epoch=True, prog_bar=True)

    def configure_optimizers(self):
        opt = torch.optim.AdamW(self.parameters(), lr=self.hparams.lr)
        return {"optimizer": opt, "lr_scheduler": torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=12)}
"""
MAIN = """\
import argparse

import lightning as L
from clouds.data import CloudData
from clouds.module import CloudNet
from lightning.pytorch.callbacks import ModelCheckpoint

if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=12)
    p.add_argument("--lr", type=float, default=1e-3)
    a = p.parse_args()
    L.seed_everything(0)
    trainer = L.Trainer(max_epochs=a.epochs, callbacks=[ModelCheckpoint(monitor="val_acc", mode="max")])
    trainer.fit(CloudNet(lr=a.lr), CloudData())
"""


def lay_out(folder: Path) -> None:
    """Draw streaks, heaps and layers, in noise."""
    draw, rows = draws("weather_lit"), []
    down, across = np.mgrid[0:SIDE, 0:SIDE] / SIDE
    for number in range(PICTURES):
        kind = int(draw.integers(0, 3))
        if kind == 0:
            slope, phase = draw.uniform(0.7, 1.4), draw.uniform(0, 6)
            sky = np.sin(20 * (across + slope * down) + phase)
        elif kind == 1:
            middles = draw.uniform(0.1, 0.9, (4, 2))
            sky = 2 * sum(np.exp(-(((down - y) ** 2 + (across - x) ** 2) / 0.012)) for y, x in middles) - 0.6
        else:
            sky = np.sin(draw.uniform(12, 22) * down + draw.uniform(0, 6)) * np.ones_like(across)
        name = f"{number:04d}.png"
        write_picture(folder / "sky" / name, 120 + 30 * sky + draw.normal(0, 60, (SIDE, SIDE)))
        rows.append((name, KINDS[kind]))
    write_table(folder / "sky" / "labels.csv", ("file", "kind"), rows)
    code = {"clouds/__init__.py": "", "clouds/data.py": DATA, "clouds/module.py": MODULE, "main.py": MAIN}
    write_text(folder, code)


def truth(folder: Path) -> list[Array]:
    """Return the kinds' numbers; the repository's are in the order of the alphabet."""
    return [numbered(read_table(folder / "sky" / "labels.csv")["kind"])]


TASK = Task(
    name="weather_lit",
    field="a Lightning repository",
    sentence="This repository trains with `python main.py`. Run it as it is, without changing its files, and give me "
    "the best model with honest figures: val_acc of at least 0.92, the same on the test pictures, and a file that "
    "runs without Lightning.",
    goal=Goal("acc", 0.92),
    lay_out=lay_out,
    truth=truth,
)
