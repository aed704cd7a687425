"""Views of a batch, drawn on its device from the global generators.

Those are in every checkpoint, so a resumed run sees the views it would have seen; and as they are drawn in the training
process, the number of loader workers makes no difference. B samples, C channels, H height, W width.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F  # noqa: N812 - the field's name for it
from torch import Tensor

from trainwright.trainer.config.contrastive import AugmentationSection
from trainwright.trainer.errors import ConfigurationError

OF_IMAGES = ("crop", "flip", "rotate_degrees", "jitter")


class Augmentation:
    """Draws views: images (B, C, H, W) are cropped, turned, mirrored and lit differently; of everything else, such as
    table rows, some values are taken from other samples of the batch (Bahri et al. 2022, SCARF, arXiv:2106.15147).
    Both gain noise.
    """

    def __init__(self, section: AugmentationSection, *, images: bool) -> None:
        self.section, self.images = section, images
        self.crop = 0.7 if section.crop is None else section.crop
        self.jitter = 0.2 if section.jitter is None else section.jitter
        self.swap = 0.3 if section.swap is None else section.swap

    def __call__(self, x: Tensor) -> Tensor:
        """Return one view of each sample, of the same shape."""
        x = self._light(self._move(x)) if self.images else self._swap(x)
        return x + self.section.noise * torch.randn_like(x) if self.section.noise else x

    def _move(self, x_BCHW: Tensor) -> Tensor:  # noqa: N803 - shapes in the names
        """Crop, turn and mirror in one resampling; what lies outside the image is its border."""
        section = self.section
        if self.crop == 1.0 and not section.flip and not section.rotate_degrees:
            return x_BCHW
        draws = torch.rand(5, len(x_BCHW), device=x_BCHW.device)
        scale = self.crop + (1.0 - self.crop) * draws[0]
        shift_x, shift_y = ((2.0 * draw - 1.0) * (1.0 - scale) for draw in draws[1:3])
        angle = math.radians(section.rotate_degrees) * (2.0 * draws[3] - 1.0)
        side = 1.0 - 2.0 * (draws[4] < section.flip).float()
        cos, sin = scale * angle.cos(), scale * angle.sin()
        rows = torch.stack([torch.stack([side * cos, -sin, shift_x], 1), torch.stack([side * sin, cos, shift_y], 1)], 1)
        grid = F.affine_grid(rows, list(x_BCHW.shape), align_corners=False)
        return F.grid_sample(x_BCHW, grid.to(x_BCHW.dtype), padding_mode="border", align_corners=False)

    def _light(self, x_BCHW: Tensor) -> Tensor:  # noqa: N803
        """Change the contrast around each image's mean, and the mean."""
        if not self.jitter:
            return x_BCHW
        draws = torch.rand(2, len(x_BCHW), 1, 1, 1, device=x_BCHW.device)
        contrast, brightness = 1.0 + self.jitter * (2.0 * draws - 1.0)
        mean = x_BCHW.mean(dim=(1, 2, 3), keepdim=True)
        lit: Tensor = (x_BCHW - mean) * contrast + mean * brightness
        return lit

    def _swap(self, x: Tensor) -> Tensor:
        if not self.swap:
            return x
        other = torch.randint(len(x), x.shape, device=x.device)  # of each value its own sample: the column's marginal
        return torch.where(torch.rand_like(x) < self.swap, x.gather(0, other), x)


def build_augmentation(section: AugmentationSection, x: Tensor) -> Augmentation:
    """Return the augmentation for inputs like `x`: images where they have four dimensions.

    Raises:
        ConfigurationError: a key that means nothing for such inputs.
    """
    images = x.dim() == 4
    wrong = ("swap",) if images else OF_IMAGES
    default = AugmentationSection()
    for key in wrong:
        if getattr(section, key) != getattr(default, key):
            raise ConfigurationError(
                f"`objective.augmentation.{key}` is for {'flat inputs' if images else 'images'}; a batch of this data "
                f"has shape {tuple(x.shape)}.",
                remedy=f"Take it out; {'swap' if not images else ', '.join(OF_IMAGES)} and noise are for such inputs.",
            )
    return Augmentation(section, images=images)
