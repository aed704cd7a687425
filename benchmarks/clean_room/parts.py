"""Files of further users: honest code of every kind of task, input and output, small enough to train in a second."""

from __future__ import annotations

SEVERAL_INPUTS = """\
import torch
from torch import nn


class Pairs(torch.utils.data.Dataset):
    def __init__(self, count, seed):
        draw = torch.Generator().manual_seed(seed)
        self.left, self.right = torch.randn(count, 3, generator=draw), torch.randn(count, 2, generator=draw)

    def __len__(self):
        return len(self.left)

    def __getitem__(self, index):
        left, right = self.left[index], self.right[index]
        return left, right, (left.sum() > right.sum()).long()


class Both(nn.Module):
    def __init__(self):
        super().__init__()
        self.left, self.right, self.head = nn.Linear(3, 8), nn.Linear(2, 8), nn.Linear(16, 2)

    def forward(self, left, right):
        return self.head(torch.cat([self.left(left), self.right(right)], dim=1).relu())


def build(config, context):
    parts = {"train": 240, "validation": 60, "test": 60}
    return {"model": Both(), "loss": "cross_entropy", "metrics": ["accuracy", "f1"],
            **{name: Pairs(count, context.data_seed + at) for at, (name, count) in enumerate(parts.items())}}
"""

NAMED_INPUTS = """\
import torch
from torch import nn


class Sentences(torch.utils.data.Dataset):
    def __init__(self, count, seed):
        draw = torch.Generator().manual_seed(seed)
        self.tokens = torch.randint(1, 20, (count, 12), generator=draw)
        self.lengths = torch.randint(4, 13, (count,), generator=draw)

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, index):
        mask = (torch.arange(12) < self.lengths[index]).long()
        tokens = self.tokens[index] * mask
        return {"tokens": tokens, "mask": mask, "labels": (tokens.sum() > 10 * mask.sum()).long()}


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.head = nn.Embedding(20, 16), nn.Linear(16, 2)

    def forward(self, tokens, mask):
        weights = mask.unsqueeze(-1).float()
        return self.head((self.words(tokens) * weights).sum(1) / weights.sum(1))


def build(config, context):
    parts = {"train": 240, "validation": 60, "test": 60}
    return {"model": Reader(), "loss": "cross_entropy", "metrics": ["accuracy"],
            **{name: Sentences(count, context.data_seed + at) for at, (name, count) in enumerate(parts.items())}}
"""

RAGGED = """\
import torch
from torch import nn


class Words(torch.utils.data.Dataset):
    def __init__(self, count, seed):
        draw = torch.Generator().manual_seed(seed)
        lengths = torch.randint(3, 15, (count,), generator=draw).tolist()
        self.rows = [torch.randint(1, 20, (length,), generator=draw) for length in lengths]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        row = self.rows[index]
        return row, (row.float().mean() > 10).long()


def collate(rows):
    inputs = nn.utils.rnn.pad_sequence([row for row, _ in rows], batch_first=True)
    return inputs, torch.stack([label for _, label in rows])


class Bag(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.head = nn.Embedding(20, 16, padding_idx=0), nn.Linear(16, 2)

    def forward(self, tokens):
        there = (tokens > 0).unsqueeze(-1).float()
        return self.head((self.words(tokens) * there).sum(1) / there.sum(1).clamp(min=1))


def build(config, context):
    parts = {"train": 240, "validation": 60, "test": 60}
    return {"model": Bag(), "loss": "cross_entropy", "metrics": ["accuracy"], "collate": collate,
            **{name: Words(count, context.data_seed + at) for at, (name, count) in enumerate(parts.items())}}
"""

OWN_COLLATE = """\
import torch
from torch import nn


def collate(rows):
    return torch.stack([x for x, _ in rows]), torch.tensor([int(y) for _, y in rows])


def build(config, context):
    x = torch.randn(360, 4, generator=torch.Generator().manual_seed(context.data_seed))
    y = (x[:, 0] > x[:, 1]).long()
    cuts = {"train": slice(0, 240), "validation": slice(240, 300), "test": slice(300, 360)}
    return {"model": nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2)), "collate": collate,
            "loss": "cross_entropy", "metrics": ["accuracy"],
            **{name: list(zip(x[cut], y[cut])) for name, cut in cuts.items()}}
"""

LABELS = """\
import torch


def samples():
    x = torch.randn(360, 5, generator=torch.Generator().manual_seed(3))
    return x, torch.stack([(x[:, 0] > 0), (x[:, 1] > x[:, 2]), (x.sum(1) > 0)], dim=1).float()
"""

YES_OR_NO = """\
import torch


def samples():
    x = torch.randn(360, 5, generator=torch.Generator().manual_seed(4))
    return x, (x[:, :2].sum(1) > 0).float()
"""

NUMBERS = """\
import torch


def samples():
    x = torch.randn(360, 5, generator=torch.Generator().manual_seed(5))
    return x, (400.0 + 90.0 * x[:, 0] - 40.0 * x[:, 1] * x[:, 2]).reshape(-1, 1)
"""

SEGMENTS = """\
import torch
from torch import nn


def build(config, context):
    draw = torch.Generator().manual_seed(context.data_seed)
    x = torch.rand(300, 1, 8, 8, generator=draw)
    y = (x[:, 0] > 0.5).long()
    cuts = {"train": slice(0, 200), "validation": slice(200, 250), "test": slice(250, 300)}
    model = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 2, 1))
    return {"model": model, "loss": "dice_cross_entropy", "metrics": ["mean_iou", "accuracy"],
            **{name: (x[cut], y[cut]) for name, cut in cuts.items()}}
"""

LOSS_OF_THE_MODEL = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))

    def forward(self, rows, target=None):
        logits = self.layers(rows)
        return logits, None if target is None else nn.functional.cross_entropy(logits, target)
"""

LOSS = """\
from torch import nn


def softened(output, target):
    return nn.functional.cross_entropy(output, target, label_smoothing=0.1)


def certainty(output, target):
    return float(output.softmax(1).max(1).values.mean())
"""

WAVES = """\
import torch
from torch import nn


class Forecast(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.head = nn.LSTM(1, 8, batch_first=True), nn.Linear(8, 1)

    def forward(self, x):
        return self.head(self.lstm(x)[0][:, -1])


def build(config, context):
    start = torch.rand(360, 1, generator=torch.Generator().manual_seed(context.data_seed)) * 6
    wave = torch.sin(start + torch.arange(17) / 3).unsqueeze(-1)
    cuts = {"train": slice(0, 240), "validation": slice(240, 300), "test": slice(300, 360)}
    return {"model": Forecast(), "loss": "mse", "metrics": ["mae", "r2"],
            **{name: (wave[cut, :16], wave[cut, 16]) for name, cut in cuts.items()}}
"""

OUTPUT_STEP = """\
import torch
from torch import nn


def build(config, context):
    x = torch.randn(360, 4, generator=torch.Generator().manual_seed(context.data_seed))
    y = x[:, :3].argmax(1)
    cuts = {"train": slice(0, 240), "validation": slice(240, 300), "test": slice(300, 360)}
    return {"model": nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3)), "step": step,
            "metrics": ["accuracy"],
            **{name: torch.utils.data.TensorDataset(x[cut], y[cut]) for name, cut in cuts.items()}}


def step(model, batch, context):
    x, y = batch
    logits = model(x)
    loss = nn.functional.cross_entropy(logits, y) + 1e-4 * sum(p.square().sum() for p in model.parameters())
    return {"loss": loss, "output": logits, "target": y}
"""

BYTES = """\
import torch
from torch import nn


class Pixels(torch.utils.data.Dataset):
    def __init__(self, count, seed):
        draw = torch.Generator().manual_seed(seed)
        self.y = torch.randint(0, 2, (count,), generator=draw)
        self.x = torch.randint(0, 120, (count, 1, 8, 8), generator=draw, dtype=torch.uint8)
        self.x[self.y == 1, :, :4] += 120

    def __len__(self):
        return len(self.y)

    def __getitem__(self, index):
        return self.x[index], self.y[index]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 2))

    def forward(self, pixels):
        return self.layers(pixels.float() / 255)


def build(config, context):
    parts = {"train": 240, "validation": 60, "test": 60}
    return {"model": Net(), "loss": "cross_entropy", "metrics": ["accuracy"],
            **{name: Pixels(count, context.data_seed + at) for at, (name, count) in enumerate(parts.items())}}
"""

DRAWN = """

def apart(program, seed):
    noise = torch.randn(200, 2, generator=torch.Generator().manual_seed(seed)).numpy()
    drawn = torch.from_numpy(program(noise))
    return float((drawn.mean(0) - torch.tensor([2.0, -1.0])).abs().sum() + (drawn.std(0) - 0.5).abs().sum())
"""
