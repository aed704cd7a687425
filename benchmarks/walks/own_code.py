"""Files of users: honest code as people write it, small enough to train in a second."""

from __future__ import annotations

import json
import math
import random
from datetime import UTC, datetime, timedelta

NET = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, width), nn.ReLU(), nn.Linear(width, 3))

    def forward(self, rows):
        return self.layers(rows)
"""

SLOW_TASK = """\
import time

import torch
from torch import nn


class Points(torch.utils.data.Dataset):
    def __init__(self, count, seed):
        self.x = torch.randn(count, 4, generator=torch.Generator().manual_seed(seed))

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        time.sleep(0.004)
        return self.x[index], (self.x[index].sum() > 0).long()


def build(config, context):
    parts = {"train": 160, "validation": 40, "test": 40}
    return {"model": nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2)),
            **{name: Points(count, context.data_seed + at) for at, (name, count) in enumerate(parts.items())},
            "loss": "cross_entropy", "metrics": ["accuracy"]}
"""

STEP = """\
import torch
from torch import nn


def build(config, context):
    x = torch.randn(240, 6, generator=torch.Generator().manual_seed(context.data_seed))
    model = nn.ModuleDict({"encoder": nn.Linear(6, 3), "decoder": nn.Linear(3, 6)})
    parts = {"train": x[:160], "validation": x[160:200], "test": x[200:]}
    return {"model": model, **{name: torch.utils.data.TensorDataset(rows) for name, rows in parts.items()},
            "step": step, "example_input": x[:1]}


def step(model, batch, context):
    (x,) = batch
    code = torch.tanh(model["encoder"](x))
    return {"loss": nn.functional.mse_loss(model["decoder"](code), x) + 0.001 * code.abs().mean()}
"""

TRAIN_STEP = """\
import torch
from torch import nn


def build(config, context):
    x = torch.randn(240, 4, generator=torch.Generator().manual_seed(context.data_seed))
    model = nn.ModuleDict({"encoder": nn.Linear(4, 2), "decoder": nn.Linear(2, 4)})
    rate = config.get("rate", 0.01)
    optimizers = {name: torch.optim.Adam(part.parameters(), lr=rate) for name, part in model.items()}

    def validation_step(model, batch, context):
        (x,) = batch
        return {"loss": nn.functional.mse_loss(model["decoder"](model["encoder"](x)), x)}

    def train_step(model, batch, context):
        loss = validation_step(model, batch, context)["loss"]
        for optimizer in optimizers.values():
            optimizer.zero_grad()
        loss.backward()
        for optimizer in optimizers.values():
            optimizer.step()
        return {"loss": loss.detach()}

    parts = {"train": x[:160], "validation": x[160:200], "test": x[200:]}
    return {"model": model, **{name: torch.utils.data.TensorDataset(rows) for name, rows in parts.items()},
            "train_step": train_step, "validation_step": validation_step, "optimizers": optimizers}
"""

GAN = """\
import torch
from torch import nn


class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.generator = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 2))
        self.critic = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))

    def forward(self, noise):
        return self.generator(noise)


def build(config, context):
    draw = torch.Generator().manual_seed(context.data_seed)
    real = torch.randn(320, 2, generator=draw) * 0.5 + torch.tensor([2.0, -1.0])
    model = Pair()
    makers = {name: torch.optim.Adam(getattr(model, name).parameters(), lr=0.005) for name in ("generator", "critic")}
    judge = nn.BCEWithLogitsLoss()

    def train_step(model, batch, context):
        (x,) = batch
        ones, zeros = torch.ones(len(x), 1, device=x.device), torch.zeros(len(x), 1, device=x.device)
        fake = model(torch.randn(len(x), 2, device=x.device))
        loss = judge(model.critic(x), ones) + judge(model.critic(fake.detach()), zeros)
        makers["critic"].zero_grad()
        loss.backward()
        makers["critic"].step()
        fooled = judge(model.critic(fake), ones)
        makers["generator"].zero_grad()
        fooled.backward()
        makers["generator"].step()
        return {"loss": loss.detach(), "generator_loss": fooled.detach()}

    def validation_step(model, batch, context):
        (x,) = batch
        draw = torch.Generator().manual_seed(context.data_seed)
        fake = model(torch.randn(len(x), 2, generator=draw).to(x.device))
        return {"loss": (fake.mean(0) - x.mean(0)).pow(2).sum() + (fake.std(0) - x.std(0)).pow(2).sum()}

    parts = {"train": real[:200], "validation": real[200:260], "test": real[260:]}
    return {"model": model, **{name: torch.utils.data.TensorDataset(rows) for name, rows in parts.items()},
            "train_step": train_step, "validation_step": validation_step, "optimizers": makers,
            "example_input": torch.zeros(1, 2)}
"""

CARRIED = """\
import torch
from torch import nn


class Memory(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(1, 8, batch_first=True)
        self.head = nn.Linear(8, 1)

    def forward(self, x, kept=None):
        out, kept = self.lstm(x, kept)
        return self.head(out), kept


def build(config, context):
    draw = torch.Generator().manual_seed(context.data_seed)
    wave = torch.sin(torch.arange(801) / 5) + 0.05 * torch.randn(801, generator=draw)
    chunks = [(wave[t : t + 20].reshape(1, 20, 1), wave[t + 1 : t + 21].reshape(1, 20, 1)) for t in range(0, 780, 20)]
    return {"model": Memory(), "train": chunks[:18], "validation": chunks[18:28], "test": chunks[28:38], "step": step,
            "batch_size": None, "shuffle": False, "example_input": torch.zeros(1, 20, 1)}


def step(model, batch, context):
    x, y = batch
    name = "train" if context.training else "validation"
    kept = context.state.get(name)
    same_epoch = kept is not None and kept["epoch"] == context.epoch
    out, memory = model(x, kept["memory"] if same_epoch else None)
    context.state[name] = {"epoch": context.epoch, "memory": tuple(part.detach() for part in memory)}
    return {"loss": nn.functional.mse_loss(out, y)}
"""

STREAM = """\
import torch
from torch import nn


class Stream(torch.utils.data.IterableDataset):
    def __init__(self, seed, count):
        self.seed, self.count = seed, count

    def __len__(self):
        return self.count

    def __iter__(self):
        draw = torch.Generator().manual_seed(self.seed)
        for _ in range(self.count):
            x = torch.randn(4, generator=draw)
            yield x, (x.sum() > 0).long()


def build(config, context):
    parts = {"train": 320, "validation": 60, "test": 60}
    return {"model": nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2)),
            **{name: Stream(context.data_seed + at, count) for at, (name, count) in enumerate(parts.items())},
            "loss": "cross_entropy", "metrics": ["accuracy"], "example_input": torch.zeros(1, 4)}
"""

OPTIMIZER = """\
import torch


def make(parameters, rate=0.05):
    return torch.optim.Adadelta(parameters, lr=rate * 20)
"""

SEVERAL = """\
import torch


def samples():
    x = torch.randn(300, 4, generator=torch.Generator().manual_seed(7))
    return x, torch.stack([x[:, :3].argmax(dim=1).float(), x.sum(dim=1)], dim=1)
"""


def table(rows: int, *, noise: float = 0.0, seed: int = 0) -> str:
    """Return a CSV file of two features and a class that follows from them, but for the noise."""
    draw = random.Random(seed)
    lines = ["length,width,kind"]
    for _ in range(rows):
        length, width = round(draw.uniform(0, 10), 4), round(draw.uniform(0, 10), 4)
        kind = int(length > width) if draw.random() >= noise else draw.randint(0, 1)
        lines.append(f"{length},{width},{kind}")
    return "\n".join(lines) + "\n"


def series(hours: int, seed: int = 0) -> str:
    """Return a CSV file of hourly values with a day's season and a covariate that leads by three hours."""
    draw = random.Random(seed)
    wind = [draw.gauss(0, 1) for _ in range(hours + 3)]
    begin = datetime(2024, 1, 1, tzinfo=UTC)
    lines = ["date,wind,load"]
    for hour in range(hours):
        load = 20 + 5 * math.sin(2 * math.pi * hour / 24) + wind[hour] + draw.gauss(0, 0.3)
        lines.append(f"{begin + timedelta(hours=hour):%Y-%m-%d %H:%M},{wind[hour + 3]:.4f},{load:.4f}")
    return "\n".join(lines) + "\n"


def lines(rows: int) -> str:
    """Return the same table as one object to a line."""
    head, *found = (line.split(",") for line in table(rows).splitlines())
    return "\n".join(json.dumps(dict(zip(head, map(float, row), strict=True))) for row in found) + "\n"


def sentences(documents: int, seed: int = 0) -> str:
    """Return small documents of words in random order, one to a line."""
    draw = random.Random(seed)
    words = "the cat dog bird sees hears finds a small red old house tree river and then so".split()
    return "\n".join(" ".join(draw.choice(words) for _ in range(40)) + f" {number}." for number in range(documents))


def reviews(count: int, seed: int = 0) -> str:
    """Return a CSV file of texts and whether they praise."""
    draw = random.Random(seed)
    good, bad = ("fine", "lovely", "great", "warm"), ("poor", "dull", "broken", "cold")
    lines = ["review,rating"]
    for number in range(count):
        rating = number % 2
        lines.append(
            f"a {draw.choice(good if rating else bad)} thing number {number} of {draw.randint(0, 10**6)},{rating}"
        )
    return "\n".join(lines) + "\n"
