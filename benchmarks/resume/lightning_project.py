"""A LightningModule with its data module, as a user has them: draws of every kind, and state of every kind."""

import random

import lightning
import numpy as np
import torch
import torchmetrics
from lightning.pytorch.callbacks import EarlyStopping
from project import CLASSES, Digits
from torch import nn
from torch.utils.data import DataLoader


class Drawing(Digits):
    """Digits with draws from torch, NumPy and Python, in the loader's workers."""

    def __getitem__(self, index):
        x, y = super().__getitem__(index)
        return x + 0.1 * torch.randn(64) + 0.05 * float(np.random.random()) + 0.05 * random.random(), y


class Data(lightning.LightningDataModule):
    """The digits 0 to 3 in two loader workers."""

    def setup(self, _stage):
        self.train_set, self.held_out = Drawing(0, 120, augment=False), Digits(120, 180, augment=False)

    def train_dataloader(self):
        return DataLoader(self.train_set, batch_size=8, shuffle=True, num_workers=2)

    def val_dataloader(self):
        return DataLoader(self.held_out, batch_size=16)


class Classifier(lightning.LightningModule):
    """Batch statistics, dropout, a metric over the epoch and a counter: each carries something from step to step."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(64, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, CLASSES)
        )
        self.accuracy = torchmetrics.Accuracy("multiclass", num_classes=CLASSES)
        self.moving = 0.0

    def forward(self, x):
        return self.layers(x)

    def training_step(self, batch, _):
        x, y = batch
        output = self(x)
        loss = nn.functional.cross_entropy(output, y) * (1 + 0.01 * self.moving)
        self.moving = 0.9 * self.moving + 0.1 * loss.item()
        self.accuracy(output, y)
        self.log("train_loss", loss, on_step=True, on_epoch=True)
        self.log("train_accuracy", self.accuracy, on_step=False, on_epoch=True)
        return loss

    def validation_step(self, batch, _):
        x, y = batch
        output = self(x)
        self.log("val_loss", nn.functional.cross_entropy(output, y))
        self.log("val_accuracy", (output.argmax(1) == y).float().mean())

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=3e-3)
        plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, threshold=0.5)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": plateau, "monitor": "train_loss_epoch"}}


def make_trainer():
    """Return what a script would call fit() on."""
    trainer = lightning.Trainer(
        max_epochs=3, devices=1, accelerator="auto", gradient_clip_val=1.0, accumulate_grad_batches=2,
        callbacks=[EarlyStopping("train_loss_epoch", patience=2)], log_every_n_steps=3, logger=False,
    )  # fmt: skip
    return trainer, Classifier(), Data()
