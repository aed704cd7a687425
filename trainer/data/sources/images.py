"""A folder of images, one folder in it for each class."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from trainwright.trainer.base.errors import ConfigurationError, DataError
from trainwright.trainer.base.paths import confine_folder, files_among
from trainwright.trainer.data.splits import Loaded
from trainwright.trainer.data.tensors import TensorSamples

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp")
MODES = {1: "L", 3: "RGB"}


def load_images(
    code_root: Path,
    *,
    path: str,
    size: int | Sequence[int] | None = None,
    channels: int = 3,
    standardize: bool = True,
) -> Loaded:
    """Read every image of a folder of folders into memory: the name of its folder is its class.

    Args:
        path: the folder, under the code root.
        size: (height, width), or one number for both, to which images are scaled; left out: all have one size.
        channels: 3 for colours, 1 for grey.
        standardize: bring each channel to mean 0 and deviation 1, measured on the train split; else values in [0, 1].

    Raises:
        ConfigurationError: no such folder, or an image outside the code root.
        DataError: fewer than two classes, an image that cannot be read, or images of several sizes without `size`.
    """
    folder = confine_folder(path, code_root, key="data.args.path")
    wanted = (size, size) if isinstance(size, int) else None if size is None else (size[0], size[1])
    classes = sorted(child.name for child in folder.iterdir() if child.is_dir() and _files(child))
    if len(classes) < 2:
        raise DataError(
            f"{folder.name} has {len(classes)} folder(s) with images ({', '.join(SUFFIXES)}); one for each class is "
            "needed, at least two.",
            remedy="Put the images of each class into a folder of its own, and point data.args.path above them.",
        )
    images: list[Any] = []
    labels: list[int] = []
    for label, name in enumerate(classes):
        for file in _files(folder / name):
            image = _read(file, folder, code_root, wanted, MODES[channels])
            if images and image.shape != images[0].shape:
                raise DataError(
                    f"{file.relative_to(folder)} is {image.shape[0]} x {image.shape[1]} pixels high and wide, the "
                    f"first image {images[0].shape[0]} x {images[0].shape[1]}.",
                    remedy="Set data.args.size, for example [32, 32], to scale all of them.",
                )
            images.append(image)
            labels.append(label)
    pixels_NHWC = torch.from_numpy(np.stack(images)).reshape(len(images), *images[0].shape[:2], channels)  # noqa: N806
    inputs = pixels_NHWC.permute(0, 3, 1, 2).float().div_(255.0).contiguous()
    samples = TensorSamples(inputs, torch.tensor(labels))
    return Loaded(samples, classes, standardize=standardize, by_channel=True, files=[folder])


def _files(folder: Path) -> list[Path]:
    return sorted(file for file in files_among(folder.iterdir()) if file.suffix.lower() in SUFFIXES)


def _read(file: Path, folder: Path, code_root: Path, size: tuple[int, int] | None, mode: str) -> Any:
    """Return the pixels, (height, width) or (height, width, 3) of uint8."""
    from PIL import Image

    place = file.relative_to(folder)
    if not file.resolve().is_relative_to(code_root.resolve()):
        raise ConfigurationError(f"{place} is a link that leads outside the code root.", remedy="Copy the image there.")
    try:
        with Image.open(file) as opened:
            image = opened.convert(mode)
            if size is not None and image.size != (size[1], size[0]):
                image = image.resize((size[1], size[0]), Image.Resampling.BILINEAR)
            return np.array(image)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise DataError(
            f"The image {place} cannot be read: {str(error)[:160]}.", remedy="Replace the file or take it out."
        ) from error
