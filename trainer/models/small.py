"""Small networks: a multilayer perceptron (Rumelhart et al. 1986), and a convolutional one (LeCun et al. 1998)."""

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


class CNN(nn.Module):
    """Blocks of convolution, batch normalisation, ReLU and pooling, then one linear layer on the mean over space.

    Input (batch, channels, height, width); output (batch, outputs). Halves the image per block while it is larger
    than 3 pixels.
    """

    def __init__(
        self, input_shape: Sequence[int], outputs: int, *, channels: Sequence[int] = (32, 64), dropout: float = 0.0
    ) -> None:
        super().__init__()
        width, height = input_shape[0], min(input_shape[1:])
        layers: list[nn.Module] = []
        for next_width in channels:
            layers += [
                nn.Conv2d(width, next_width, kernel_size=3, padding=1, bias=False),
                nn.BatchNorm2d(next_width),
                nn.ReLU(),
            ]
            if height > 3:
                layers.append(nn.MaxPool2d(2))
                height //= 2
            width = next_width
        self.features = nn.Sequential(*layers)
        self.head = nn.Sequential(nn.Dropout(dropout), nn.Linear(width, outputs))

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, channels, height, width) to (batch, outputs)."""
        features_BCHW = self.features(x.float())  # noqa: N806 - the shape is in the name
        result: Tensor = self.head(features_BCHW.mean(dim=(2, 3)))
        return result
