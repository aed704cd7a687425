"""FT-Transformer: a transformer whose tokens are a table's features (Gorishniy et al. 2021, arXiv:2106.11959)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor, nn
from torch.nn import functional


class FTTransformer(nn.Module):
    """Features as tokens, blocks of attention and ReGLU layers with the norm before them, and the class token's output.

    Input (batch, columns); output (batch, outputs). Tokens have no order, so attention needs no positions.
    """

    def __init__(
        self,
        groups: Sequence[int],
        outputs: int,
        *,
        layers: int = 3,
        heads: int = 8,
        width: int = 96,
        hidden_factor: float = 4 / 3,
        dropout: float = 0.1,
        attention_dropout: float = 0.2,
    ) -> None:
        super().__init__()
        self.tokens = FeatureTokens(groups, width)
        hidden = max(round(width * hidden_factor), 1)
        self.blocks = nn.ModuleList(
            Block(width, heads, hidden, dropout, attention_dropout, is_first=number == 0) for number in range(layers)
        )
        self.head = nn.Sequential(nn.LayerNorm(width), nn.ReLU(), nn.Linear(width, outputs))

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, columns) to (batch, outputs)."""
        tokens = self.tokens(x.float())
        for block in self.blocks:
            tokens = block(tokens)
        result: Tensor = self.head(tokens[:, 0])
        return result


class FeatureTokens(nn.Module):
    """A token of each feature: its columns times a matrix of its own, which on a one-hot group is an embedding.

    Input (batch, columns); output (batch, 1 + features, width), the class token first. Features with equally many
    columns are multiplied at once.
    """

    def __init__(self, groups: Sequence[int], width: int) -> None:
        super().__init__()
        bound = 1 / math.sqrt(width)
        starts = [0, *accumulate(groups)][:-1]
        self.sizes = sorted(set(groups))
        self.weights = nn.ParameterList()
        for size in self.sizes:
            columns = [
                list(range(start, start + size)) for start, own in zip(starts, groups, strict=True) if own == size
            ]
            self.register_buffer(f"columns_{size}", torch.tensor(columns), persistent=False)
            self.weights.append(torch.empty(len(columns), size, width).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(len(groups), width).uniform_(-bound, bound))
        self.first = nn.Parameter(torch.empty(1, 1, width).uniform_(-bound, bound))

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, columns) to (batch, 1 + features, width)."""
        parts = []
        for size, weight in zip(self.sizes, self.weights, strict=True):
            values = x[:, getattr(self, f"columns_{size}")]  # (batch, features, size)
            parts.append((values.unsqueeze(2) @ weight).squeeze(2))
        tokens = torch.cat(parts, dim=1) + self.bias
        return torch.cat([self.first.expand(x.shape[0], -1, -1), tokens], dim=1)


class Block(nn.Module):
    """Attention over the tokens, then a ReGLU layer; each adds to its input, which is normalised first."""

    def __init__(
        self, width: int, heads: int, hidden: int, dropout: float, attention_dropout: float, *, is_first: bool
    ) -> None:
        super().__init__()
        self.heads, self.attention_dropout = heads, attention_dropout
        self.norm = nn.Identity() if is_first else nn.LayerNorm(width)  # as in the paper: fresh tokens need none
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.norm_hidden = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 2 * hidden), nn.Linear(hidden, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, tokens: Tensor) -> Tensor:
        """Map (batch, tokens, width) to the same shape."""
        tokens = tokens + self.dropout(self._attended(self.norm(tokens)))
        value, gate = self.up(self.norm_hidden(tokens)).chunk(2, dim=-1)
        added: Tensor = tokens + self.down(self.dropout(value * functional.relu(gate)))
        return added

    def _attended(self, tokens: Tensor) -> Tensor:
        batch, count, width = tokens.shape
        q, k, v = (
            part.reshape(batch, count, self.heads, width // self.heads).transpose(1, 2)
            for part in self.qkv(tokens).chunk(3, dim=-1)
        )
        dropout = self.attention_dropout if self.training else 0.0
        mixed = functional.scaled_dot_product_attention(q, k, v, dropout_p=dropout)
        result: Tensor = self.out(mixed.transpose(1, 2).reshape(batch, count, width))
        return result
