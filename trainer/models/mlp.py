"""A multilayer perceptron."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Tensor, nn

ACTIVATIONS = {"relu": nn.ReLU, "leaky_relu": nn.LeakyReLU, "gelu": nn.GELU, "tanh": nn.Tanh}


class MLP(nn.Module):
    """Linear layers with an activation, and optional normalisation and dropout, between them.

    Input (batch, *input_shape), flattened; output (batch, outputs).
    """

    def __init__(
        self,
        input_shape: Sequence[int],
        outputs: int,
        *,
        hidden: Sequence[int] = (128, 64),
        dropout: float = 0.0,
        norm: str | None = None,
        activation: str = "relu",
    ) -> None:
        super().__init__()
        layers: list[nn.Module] = [nn.Flatten()]
        width = math.prod(input_shape)
        for next_width in hidden:
            layers.append(nn.Linear(width, next_width))
            if norm is not None:
                layers.append({"batch": nn.BatchNorm1d, "layer": nn.LayerNorm}[norm](next_width))
            layers.append(ACTIVATIONS[activation]())
            if dropout:
                layers.append(nn.Dropout(dropout))
            width = next_width
        layers.append(nn.Linear(width, outputs))
        self.layers = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, *input_shape) to (batch, outputs)."""
        result: Tensor = self.layers(x.float())
        return result
