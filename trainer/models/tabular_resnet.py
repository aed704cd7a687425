"""Residual network for tables (Gorishniy et al. 2021, arXiv:2106.11959)."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

NORMS = {"batch": nn.BatchNorm1d, "layer": nn.LayerNorm}


class TabularResNet(nn.Module):
    """One linear layer on all columns, which embeds one-hot groups, then blocks that add to what they were given.

    Input (batch, columns); output (batch, outputs).
    """

    def __init__(
        self,
        groups: Sequence[int],
        outputs: int,
        *,
        layers: int = 3,
        width: int = 128,
        hidden_factor: float = 2.0,
        dropout: float = 0.1,
        norm: str = "batch",
    ) -> None:
        super().__init__()
        self.first = nn.Linear(sum(groups), width)
        hidden = max(round(width * hidden_factor), 1)
        self.blocks = nn.ModuleList(
            nn.Sequential(
                NORMS[norm](width),
                nn.Linear(width, hidden),
                nn.ReLU(),
                nn.Dropout(dropout),
                nn.Linear(hidden, width),
                nn.Dropout(dropout),
            )
            for _ in range(layers)
        )
        self.head = nn.Sequential(NORMS[norm](width), nn.ReLU(), nn.Linear(width, outputs))

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, columns) to (batch, outputs)."""
        hidden: Tensor = self.first(x.float())
        for block in self.blocks:
            hidden = hidden + block(hidden)
        result: Tensor = self.head(hidden)
        return result
