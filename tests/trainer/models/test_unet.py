"""The U-Net: a class for each pixel, at any height and width."""

from __future__ import annotations

import pytest
import torch

from trainwright.trainer.models.unet import UNet


@pytest.mark.requirement("TRAIN-1")
@pytest.mark.parametrize("norm", ["batch", "group", "none"])
def test_pictures_of_any_size_keep_it(norm: str) -> None:
    model = UNet((3, 17, 30), 4, depth=2, width=4, norm=norm)
    for height, width in ((17, 30), (8, 8), (5, 33)):
        assert model(torch.rand(2, 3, height, width)).shape == (2, 4, height, width)
