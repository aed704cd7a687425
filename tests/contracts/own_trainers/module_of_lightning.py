"""A LightningModule whose samples, dropout and attributes draw or keep something at every step."""

import random

import lightning
import torch
from torch.utils.data import DataLoader, Dataset

MADE = []
"""How often the function was called."""


class Noisy(Dataset):
    """Points with a new draw at each reading."""

    def __init__(self, first, last, noise):
        self.x = torch.randn(60, 4, generator=torch.Generator().manual_seed(7))[first:last]
        self.y, self.noise = (self.x[:, 0] > 0).long(), noise
        self.rng = random.Random(3)  # a generator of its own

    def __len__(self):
        return len(self.y)

    def __getitem__(self, index):
        return self.x[index] + self.noise * (torch.randn(4) + self.rng.random()), self.y[index]


class Data(lightning.LightningDataModule):
    """The three splits."""

    def setup(self, stage):
        self.points = Noisy(0, 40, 0.1), Noisy(40, 50, 0.0)
        if stage == "test":
            self.test_points = Noisy(50, 60, 0.0)

    def train_dataloader(self):
        return DataLoader(self.points[0], 4, shuffle=True)

    def val_dataloader(self):
        return DataLoader(self.points[1], 4)

    def test_dataloader(self):
        return DataLoader(self.test_points, 4)


class Module(lightning.LightningModule):
    """Keeps a moving loss between steps, which the next step depends on; from step `bad_from` on it is not a number."""

    def __init__(self, bad_from, closure):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.2), torch.nn.Linear(8, 2))
        self.moving, self.bad_from, self.closure = 0.0, bad_from, closure
        self.drawing = torch.Generator().manual_seed(5)

    def loss(self, batch):
        return torch.nn.functional.cross_entropy(self.layers(batch[0]), batch[1])

    def training_step(self, batch, _):
        loss = self.loss(batch) * (1 + 0.01 * self.moving + 0.01 * torch.rand((), generator=self.drawing))
        self.moving = 0.9 * self.moving + 0.1 * loss.item()
        is_bad = self.bad_from is not None and self.global_step + 1 >= self.bad_from
        return loss * float("nan") if is_bad else loss

    def validation_step(self, batch, _):
        self.log("val_loss", self.loss(batch))

    def configure_optimizers(self):
        if self.closure:
            return torch.optim.LBFGS(self.parameters())
        return torch.optim.AdamW(self.parameters(), lr=0.01)


def make_trainer(epochs=2, bad_from=None, closure=False):
    """Return trainer, module and data module."""
    MADE.append(True)
    trainer = lightning.Trainer(
        max_epochs=epochs, accelerator="cpu", devices=1, gradient_clip_val=1.0, accumulate_grad_batches=2,
        log_every_n_steps=1, logger=False,
    )  # fmt: skip
    return trainer, Module(bad_from, closure), Data()
