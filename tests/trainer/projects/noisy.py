"""A user's task in which everything that could break exact resume takes part."""

import random

import numpy as np
import torch
from torch import nn


class Points(torch.utils.data.Dataset):
    """Two noisy classes; each sample is augmented with draws from three generators."""

    def __init__(self, size, seed):
        generator = torch.Generator().manual_seed(seed)
        self.y = torch.arange(size) % 2
        self.x = torch.randn(size, 6, generator=generator) + self.y[:, None]

    def __len__(self):
        return len(self.y)

    def __getitem__(self, index):
        noise = 0.1 * torch.randn(6) + 0.1 * random.random() + 0.1 * float(np.random.random())
        return self.x[index] + noise, self.y[index]


class Shifted(nn.Module):
    """Leans on a running mean that it keeps out of its state_dict."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(6), persistent=False)

    def forward(self, x):
        if self.training:
            self.mean = 0.9 * self.mean + 0.1 * x.detach().mean(dim=0)
        return x - 0.1 * self.mean


def build(config, context):
    layers = nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 2)
    model = nn.Sequential(Shifted(), *layers)
    context.state["moving"] = torch.zeros(())

    def step(model, batch, context):
        x, y = batch
        output = model(x)
        loss = nn.functional.cross_entropy(output, y) * (1 + 0.1 * torch.tanh(context.state["moving"]))
        if context.training:
            context.state["moving"] = 0.9 * context.state["moving"] + 0.1 * loss.detach()
            context.state["seen"] = context.state.get("seen", 0) + len(y)
        return {"loss": loss, "output": output, "target": y, "moving": context.state["moving"]}

    return {"model": model, "train": Points(150, 1), "validation": Points(60, 2), "step": step}
