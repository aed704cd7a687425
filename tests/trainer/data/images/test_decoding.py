"""Decoding: every kind of pixels becomes 8 bits of grey or colour; serving and training decode by one code."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from trainwright.trainer.data.images.decoding import PictureError, decode, header


def png(image: Any, **how: Any) -> io.BytesIO:
    found = io.BytesIO()
    image.save(found, "png", **how)
    found.seek(0)
    return found


GREY = np.arange(64, dtype=np.uint8).reshape(8, 8)


@pytest.mark.requirement("TRAIN-1")
@pytest.mark.parametrize(
    ("image", "expected"),
    [
        (Image.fromarray(GREY), GREY),
        (Image.fromarray(GREY.astype(np.uint16) * 257), GREY),
        (Image.fromarray(np.stack([GREY] * 4, axis=-1)), GREY),
        (Image.fromarray(GREY).convert("P"), GREY),
        (Image.fromarray(GREY > 31), (GREY > 31) * 255),
    ],
    ids=["grey", "16 bits", "transparent", "palette", "two values"],
)
def test_every_kind_of_pixels_becomes_8_bits(image: Any, expected: Any) -> None:
    for channels in (1, 3):
        found = decode(png(image), channels=channels)
        assert found.shape == (channels, 8, 8)
        assert found.dtype == np.uint8
        assert (found == expected).all()


@pytest.mark.requirement("TRAIN-1")
def test_a_picture_is_turned_upright_as_the_camera_noted_and_its_header_says_so() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    found = io.BytesIO()
    Image.new("RGB", (8, 4)).save(found, "jpeg", exif=exif)
    assert header(io.BytesIO(found.getvalue()))[:4] == (8, 4, "RGB", 6)
    assert decode(io.BytesIO(found.getvalue())).shape == (3, 8, 4)


@pytest.mark.requirement("TRAIN-1")
def test_what_is_no_picture_is_named(tmp_path: Path) -> None:
    whole = png(Image.fromarray(np.random.default_rng(0).integers(0, 255, (32, 32, 3), dtype=np.uint8))).getvalue()
    for content, told in ((b"text", "no picture"), (whole[:200], "truncated|broken|cannot|eof"), (whole[:20], ".")):
        with pytest.raises(PictureError, match=told):
            decode(io.BytesIO(content))
    with pytest.raises(PictureError, match="floating-point"):
        file = tmp_path / "1.tiff"
        Image.fromarray(np.zeros((2, 2), dtype=np.float32)).save(file)
        decode(file)
