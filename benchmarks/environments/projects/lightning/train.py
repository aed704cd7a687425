"""A Lightning script as a user wrote it for Lightning 2.2: a module, its data module, a Trainer."""

import lightning
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Points(lightning.LightningDataModule):
    def setup(self, stage=None):
        generator = np.random.default_rng(5)
        x = torch.tensor(generator.normal(size=(480, 6)), dtype=torch.float32)
        y = (x[:, 0] + x[:, 1] ** 2 > 1).long()
        self.parts = [TensorDataset(x[a:b], y[a:b]) for a, b in ((0, 320), (320, 400), (400, 480))]

    def train_dataloader(self):
        return DataLoader(self.parts[0], batch_size=16, shuffle=True)

    def val_dataloader(self):
        return DataLoader(self.parts[1], batch_size=80)

    def test_dataloader(self):
        return DataLoader(self.parts[2], batch_size=80)


class Classifier(lightning.LightningModule):
    def __init__(self, rate=0.01):
        super().__init__()
        self.save_hyperparameters()
        self.layers = nn.Sequential(nn.Linear(6, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 2))

    def forward(self, x):
        return self.layers(x)

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = nn.functional.cross_entropy(self(x), y)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        x, y = batch
        output = self(x)
        self.log("val_loss", nn.functional.cross_entropy(output, y))
        self.log("val_accuracy", (output.argmax(1) == y).float().mean())

    def test_step(self, batch, batch_idx):
        x, y = batch
        self.log("test_accuracy", (self(x).argmax(1) == y).float().mean())

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=self.hparams.rate)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 20, gamma=0.5)]


def make():
    trainer = lightning.Trainer(max_epochs=40, accelerator="cpu", devices=1, logger=False, enable_progress_bar=False)
    return trainer, Classifier(), Points()


if __name__ == "__main__":
    trainer, module, data = make()
    trainer.fit(module, data)
    trainer.test(module, data)
