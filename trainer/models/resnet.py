"""Residual networks for small images (He et al. 2016, https://arxiv.org/abs/1512.03385, section 4.2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch.nn.functional as F  # noqa: N812 - the field's name for it
from torch import Tensor, nn

STAGES = 3
NORMS: dict[str, Callable[[int], nn.Module]] = {
    "batch": nn.BatchNorm2d,
    "group": lambda channels: nn.GroupNorm(max(n for n in (8, 4, 2, 1) if channels % n == 0), channels),
    "none": lambda channels: nn.Identity(),  # noqa: ARG005 - the form of the others
}


class ResNet(nn.Module):
    """The CIFAR networks of the paper: a convolution, three stages of residual blocks, the mean over space, a layer.

    Input (batch, channels, height, width); output (batch, outputs). Each stage doubles the channels and, from the
    second on, halves the image. Shortcuts hold no parameters (the paper's option A).

    Args:
        depth: layers with weights, 6n + 2: 8, 14, 20, 32, 44, 56, 110.
        width: channels of the first stage.
        norm: batch; group, which is independent of the other samples of a batch; or none.
    """

    def __init__(
        self,
        input_shape: Sequence[int],
        outputs: int,
        *,
        depth: int = 20,
        width: int = 16,
        norm: str = "batch",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.stem = nn.Sequential(_convolution(input_shape[0], width), NORMS[norm](width), nn.ReLU())
        channels = width
        blocks: list[nn.Module] = []
        for stage in range(STAGES):
            for number in range((depth - 2) // (2 * STAGES)):
                stride = 2 if stage and not number else 1
                blocks.append(ResidualBlock(channels, width * 2**stage, stride=stride, norm=norm))
                channels = width * 2**stage
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Sequential(nn.Dropout(dropout), nn.Linear(channels, outputs))

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, channels, height, width) to (batch, outputs)."""
        features_BCHW = self.blocks(self.stem(x.float()))  # noqa: N806 - the shape is in the name
        result: Tensor = self.head(features_BCHW.mean(dim=(2, 3)))
        return result


class ResidualBlock(nn.Module):
    """Two convolutions and a shortcut; the first of a stage may halve height and width (rounded up)."""

    def __init__(self, inputs: int, outputs: int, *, stride: int, norm: str) -> None:
        super().__init__()
        self.stride, self.added = stride, outputs - inputs
        self.layers = nn.Sequential(
            _convolution(inputs, outputs, stride),
            NORMS[norm](outputs),
            nn.ReLU(),
            _convolution(outputs, outputs),
            NORMS[norm](outputs),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Add what the convolutions find to (B, C, H, W): every other pixel of it, and zeros for the new channels."""
        shortcut = x if self.stride == 1 else x[:, :, :: self.stride, :: self.stride]
        if self.added:
            shortcut = F.pad(shortcut, (0, 0, 0, 0, self.added // 2, self.added - self.added // 2))
        return F.relu(self.layers(x) + shortcut)


def _convolution(inputs: int, outputs: int, stride: int = 1) -> nn.Conv2d:
    layer = nn.Conv2d(inputs, outputs, kernel_size=3, stride=stride, padding=1, bias=False)
    nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
    return layer
