"""A decoder-only transformer (GPT-2: Radford et al. 2019).

Letters of shapes: B batch, T time (tokens), C width, H heads.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F  # noqa: N812 - the field's name for it
from torch import Tensor, nn


class GPT(nn.Module):
    """Token and position embeddings, blocks of attention and MLP with the norm before each, tied output embedding.

    Input (batch, time) of token numbers; output (batch, time, outputs): the logits of each next token.

    Args:
        outputs: size of the vocabulary.
        context: longest input in tokens; that of the data where it is left out.
    """

    def __init__(
        self,
        input_shape: Sequence[int],
        outputs: int,
        *,
        layers: int = 4,
        heads: int = 4,
        width: int = 128,
        context: int | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.context = context if context is not None else input_shape[0]
        if input_shape[0] > self.context:
            raise ValueError(f"context {self.context} is shorter than the data's blocks of {input_shape[0]} tokens")
        self.tokens = nn.Embedding(outputs, width)
        self.positions = nn.Embedding(self.context, width)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(Block(width, heads, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self._initialise(layers)

    def forward(self, tokens: Tensor) -> Tensor:
        """Map token numbers (batch, time) to logits (batch, time, vocabulary); time is at most `context`."""
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x_BTC = self.dropout(self.tokens(tokens) + self.positions(places))  # noqa: N806 - the shape is in the name
        for block in self.blocks:
            x_BTC = block(x_BTC)  # noqa: N806
        return F.linear(self.norm(x_BTC), self.tokens.weight)

    def _initialise(self, layers: int) -> None:
        """As GPT-2: deviation 0.02, and less for the two projections a layer that add to the residual stream."""
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                added = name.endswith(("attention.output.weight", "mlp.2.weight"))
                nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * layers) if added else 0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)


class Block(nn.Module):
    """One layer: (B, T, C) to (B, T, C)."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(width)
        self.attention = CausalAttention(width, heads, dropout)
        self.mlp_norm = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width), nn.Dropout(dropout)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Add to (B, T, C) what attention and then the MLP find."""
        x = x + self.attention(self.attention_norm(x))
        result: Tensor = x + self.mlp(self.mlp_norm(x))
        return result


class CausalAttention(nn.Module):
    """Attention of each token to itself and those before it: (B, T, C) to (B, T, C)."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout_share = heads, dropout
        self.queries_keys_values = nn.Linear(width, 3 * width)
        self.output = nn.Linear(width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Attend, (B, T, C) to (B, T, C)."""
        batch, time, width = x.shape
        parts = self.queries_keys_values(x).view(batch, time, 3, self.heads, width // self.heads)
        q_BHTC, k_BHTC, v_BHTC = parts.permute(2, 0, 3, 1, 4)  # noqa: N806 - the shape is in the name
        share = self.dropout_share if self.training else 0.0
        mixed = F.scaled_dot_product_attention(q_BHTC, k_BHTC, v_BHTC, dropout_p=share, is_causal=True)
        result: Tensor = self.dropout(self.output(mixed.transpose(1, 2).reshape(batch, time, width)))
        return result
