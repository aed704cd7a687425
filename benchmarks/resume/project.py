"""The work that is killed: what users train, with every kind of randomness that a resume could lose."""

import random

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

CLASSES = 4


class Digits(torch.utils.data.Dataset):
    """Real 8x8 images of the digits 0 to 3; augmented with draws from torch, NumPy and Python where asked for."""

    def __init__(self, first, last, augment):
        images, labels = load_digits(n_class=CLASSES, return_X_y=True)
        self.x = torch.tensor(images[first:last] / 16.0, dtype=torch.float32)
        self.y = torch.tensor(labels[first:last])
        self.augment = augment

    def __len__(self):
        return len(self.y)

    def __getitem__(self, index):
        x = self.x[index]
        if self.augment:
            x = x + 0.1 * torch.randn(64) + 0.05 * float(np.random.random()) + 0.05 * random.random()
        return x, self.y[index]


def network():
    """Batch statistics and dropout: both carry state or draws from one step to the next."""
    return nn.Sequential(nn.Linear(64, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, CLASSES))


class Stream(torch.utils.data.IterableDataset):
    """The same digits in an order and with noise that are drawn while iterating."""

    def __init__(self, first, last):
        self.samples = Digits(first, last, augment=True)

    def __len__(self):
        return len(self.samples)

    def __iter__(self):
        for index in torch.randperm(len(self.samples)).tolist():
            yield self.samples[index]


def data(augment=True, stream=False):
    """Return the splits by name."""
    train = Stream(0, 120) if stream else Digits(0, 120, augment)
    return {"train": train, "validation": Digits(120, 180, augment=False)}


def carried(_, context):
    """A task whose step carries a hidden value from batch to batch in context.state."""
    context.state["moving"] = torch.zeros(())

    def step(model, batch, context):
        x, y = batch
        output = model(x)
        loss = nn.functional.cross_entropy(output, y) * (1 + 0.1 * torch.tanh(context.state["moving"]))
        if context.training:
            context.state["moving"] = 0.9 * context.state["moving"] + 0.1 * loss.detach()
        return {"loss": loss, "output": output, "target": y, "moving": context.state["moving"]}

    return {"model": network(), **data(), "step": step}
