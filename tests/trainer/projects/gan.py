"""A generative adversarial network on the digits, as a user writes it: two networks, two optimizers, one train_step."""

import torch
import torch.nn.functional as F  # noqa: N812 - the name in use everywhere
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import TensorDataset

NOISE = 16


def networks():
    generator = nn.Sequential(
        nn.Linear(NOISE, 128), nn.BatchNorm1d(128), nn.ReLU(), nn.Linear(128, 128), nn.BatchNorm1d(128), nn.ReLU(),
        nn.Linear(128, 64), nn.Sigmoid(),
    )  # fmt: skip
    discriminator = nn.Sequential(
        nn.Linear(64, 128), nn.LeakyReLU(0.2), nn.Dropout(0.2), nn.Linear(128, 64), nn.LeakyReLU(0.2), nn.Linear(64, 1)
    )
    return nn.ModuleDict({"generator": generator, "discriminator": discriminator})


def build(config, context):
    images = torch.from_numpy(load_digits().data).float() / 16.0
    images = images[torch.randperm(len(images), generator=torch.Generator().manual_seed(0))]
    model = networks()
    betas = (0.5, 0.999)
    optimizers = {
        "generator": torch.optim.Adam(model["generator"].parameters(), lr=2e-3, betas=betas),
        "discriminator": torch.optim.Adam(model["discriminator"].parameters(), lr=1e-3, betas=betas),
    }

    def train_step(model, batch, context):
        (real,) = batch
        fake = model["generator"](torch.randn(len(real), NOISE))
        judged_real, judged_fake = model["discriminator"](real), model["discriminator"](fake.detach())
        told_apart = F.softplus(-judged_real).mean() + F.softplus(judged_fake).mean()
        optimizers["discriminator"].zero_grad()
        told_apart.backward()
        optimizers["discriminator"].step()
        fooled = F.softplus(-model["discriminator"](fake)).mean()
        optimizers["generator"].zero_grad()
        fooled.backward()
        optimizers["generator"].step()
        return {"loss": told_apart.detach() + fooled.detach(), "told_apart": told_apart, "fooled": fooled}

    def validation_step(model, batch, context):
        """How far the samples' first two moments are from those of real images."""
        (real,) = batch
        fake = model["generator"](torch.randn(len(real), NOISE))
        return {"loss": F.mse_loss(fake.mean(0), real.mean(0)) + F.mse_loss(fake.std(0), real.std(0))}

    return {
        "model": model,
        "train": TensorDataset(images[:1400]),
        "validation": TensorDataset(images[1400:]),
        "batch_size": 64,
        "train_step": train_step,
        "validation_step": validation_step,
        "optimizers": optimizers,
    }
