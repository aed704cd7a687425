"""Data of the sound kinds, generated: series, graphs, ratings, masks, counts, pairs of sentences, noisy outcomes."""

from __future__ import annotations

import samples
import torch
from torch import Tensor
from torch.utils.data import TensorDataset


def series(seed: int = 0, rows: int = 600, length: int = 48, horizon: int = 12) -> TensorDataset:
    """Return windows of a daily rhythm with noise, and what follows each."""
    drawn = torch.Generator().manual_seed(seed)
    moments = torch.arange(rows + length + horizon)
    whole = torch.sin(moments * 6.2832 / 24) + 0.5 * torch.sin(moments * 6.2832 / 168)
    whole = whole + 0.3 * torch.randn(len(moments), generator=drawn)
    windows = whole.unfold(0, length + horizon, 1)[:rows]
    return TensorDataset(windows[:, :length].contiguous(), windows[:, length:].contiguous())


def graphs(seed: int = 0, rows: int = 500, nodes: int = 10) -> TensorDataset:
    """Return graphs with a feature a node, and whether nodes resemble their neighbours."""
    drawn = torch.Generator().manual_seed(seed)
    heard = (torch.rand(rows, nodes, nodes, generator=drawn) < 0.3).float()
    heard = ((heard + heard.mT) > 0).float()
    y = torch.randint(2, (rows,), generator=drawn)
    features = torch.randn(rows, nodes, 1, generator=drawn)
    alike = heard @ features / heard.sum(-1, keepdim=True).clamp(min=1.0)
    features = torch.where(y[:, None, None] == 1, features + 2.0 * alike + 0.5, features)
    return TensorDataset(torch.cat([features, heard], -1), y)


def ratings(seed: int = 0, rows: int = 2400) -> TensorDataset:
    """Return pairs of a user and a thing, and a rating from 1 to 5."""
    true = torch.Generator().manual_seed(5)
    users, things = torch.randn(60, 3, generator=true), torch.randn(40, 3, generator=true)
    drawn = torch.Generator().manual_seed(seed)
    x = torch.stack([torch.randint(60, (rows,), generator=drawn), torch.randint(40, (rows,), generator=drawn)], 1)
    liked = (users[x[:, 0]] * things[x[:, 1]]).sum(1) + 0.5 * torch.randn(rows, generator=drawn)
    return TensorDataset(x, (3.5 + liked).clamp(1, 5).round())


def masks(seed: int = 0, rows: int = 300) -> TensorDataset:
    """Return noisy pictures of discs, and which of their pixels are inside."""
    drawn = torch.Generator().manual_seed(seed)
    places = torch.stack(torch.meshgrid(torch.arange(16), torch.arange(16), indexing="ij"))[None].float()
    centre = 4 + 8 * torch.rand(rows, 2, 1, 1, generator=drawn)
    size = 2 + 3 * torch.rand(rows, 1, 1, generator=drawn)
    inside = ((places - centre).pow(2).sum(1).sqrt() < size).long()
    return TensorDataset(inside[:, None] + 0.5 * torch.randn(rows, 1, 16, 16, generator=drawn), inside)


def copies(seed: int = 0, rows: int = 800, length: int = 8) -> TensorDataset:
    """Return a sentence, then the words so far of the same with each word replaced; the target is that."""
    drawn = torch.Generator().manual_seed(seed)
    replaced = 1 + torch.randperm(15, generator=torch.Generator().manual_seed(5))
    source = torch.randint(1, 16, (rows, length), generator=drawn)
    target = replaced[source - 1]
    return TensorDataset(torch.cat([source, torch.zeros(rows, 1).long(), target[:, :-1]], 1), target)


def outcomes(seed: int = 0, rows: int = 1200, strength: float = 1.0, share: float = 0.5) -> TensorDataset:
    """Return columns, and an outcome that they make only likelier; `share` of it is common."""
    drawn = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, 8, generator=drawn)
    chance = torch.sigmoid(strength * (x[:, 0] + x[:, 1] - 0.7 * x[:, 2]) + torch.logit(torch.tensor(share)))
    return TensorDataset(x, (torch.rand(rows, generator=drawn) < chance).long())


def counts(seed: int = 0, rows: int = 800) -> TensorDataset:
    """Return columns and a count."""
    drawn = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, 8, generator=drawn)
    return TensorDataset(x, torch.poisson(torch.exp(0.5 * x[:, 0] - 0.4 * x[:, 1] + 1.0), generator=drawn))


def scaled_prices(seed: int = 0, rows: int = 600, scale: float = 1e-3) -> TensorDataset:
    """Return numbers in small units."""
    return samples.prices(seed, rows, scale=scale)


def tags(seed: int = 0, rows: int = 900, rare: float = -2.5) -> TensorDataset:
    """Return columns and five tags of which few hold."""
    drawn = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, 10, generator=drawn)
    weights = torch.randn(10, 5, generator=torch.Generator().manual_seed(5))
    chance: Tensor = torch.sigmoid(x @ weights + rare)
    return TensorDataset(x, (torch.rand(rows, 5, generator=drawn) < chance).float())


def sound(seed: int = 0, rows: int = 500, length: int = 64) -> TensorDataset:
    """Return one channel of noise with a tone of one of four pitches."""
    drawn = torch.Generator().manual_seed(seed)
    y = torch.randint(4, (rows,), generator=drawn)
    pitch = torch.tensor([3.0, 5.0, 8.0, 13.0])[y]
    phase = 6.2832 * torch.rand(rows, 1, generator=drawn)
    moments = torch.arange(length)[None] / length * 6.2832
    return TensorDataset(
        (torch.sin(moments * pitch[:, None] + phase) + 0.7 * torch.randn(rows, length, generator=drawn))[:, None], y
    )
