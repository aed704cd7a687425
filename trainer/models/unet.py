"""U-Net: a class for each pixel (Ronneberger et al. 2015, https://arxiv.org/abs/1505.04597), as small as asked."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F  # noqa: N812 - the field's name for it
from torch import Tensor, nn

from trainwright.trainer.models.resnet import NORMS


class UNet(nn.Module):
    """Levels of half the size and twice the channels each, and back up, beside what each level saw on the way down.

    Input (batch, channels, height, width); output (batch, outputs, height, width), of any height and width.

    Args:
        depth: how often the size is halved.
        width: channels at full size.
        norm: batch; group, which is independent of the other samples of a batch; or none.
    """

    def __init__(
        self, input_shape: Sequence[int], outputs: int, *, depth: int = 3, width: int = 16, norm: str = "batch"
    ) -> None:
        super().__init__()
        widths = [width * 2**level for level in range(depth + 1)]
        self.down = nn.ModuleList(
            _block(before, after, norm) for before, after in zip([input_shape[0], *widths], widths, strict=False)
        )
        self.up = nn.ModuleList(_block(3 * one, one, norm) for one in reversed(widths[:-1]))
        self.head = nn.Conv2d(width, outputs, kernel_size=1)

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, channels, height, width) to logits (batch, outputs, height, width)."""
        seen: list[Tensor] = []
        features_BCHW = x.float()  # noqa: N806 - the shape is in the name
        for level in self.down:
            features_BCHW = level(F.max_pool2d(features_BCHW, 2, ceil_mode=True) if seen else features_BCHW)  # noqa: N806
            seen.append(features_BCHW)
        for level, beside in zip(self.up, reversed(seen[:-1]), strict=True):
            larger = F.interpolate(features_BCHW, size=beside.shape[-2:], mode="nearest")
            features_BCHW = level(torch.cat([beside, larger], dim=1))  # noqa: N806
        result: Tensor = self.head(features_BCHW)
        return result


def _block(inputs: int, outputs: int, norm: str) -> nn.Module:
    """Return two convolutions, (B, inputs, H, W) to (B, outputs, H, W)."""
    layers: list[nn.Module] = []
    for before in (inputs, outputs):
        layer = nn.Conv2d(before, outputs, kernel_size=3, padding=1, bias=norm == "none")
        nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
        layers += [layer, NORMS[norm](outputs), nn.ReLU()]
    return nn.Sequential(*layers)
