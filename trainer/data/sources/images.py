"""A folder of images, one folder in it for each class."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from trainwright.trainer.base.errors import ConfigurationError, DataError
from trainwright.trainer.base.paths import confine_folder, files_among
from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.data.sources.source import PATH, Loaded, Name, Source

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp")
Side = Annotated[int, Field(ge=1, le=4096)]


class Images(Source):
    """A folder of images, one folder in it for each class."""

    name: ClassVar[str] = "images"

    path: Name
    size: Side | Annotated[list[Side], Field(min_length=2, max_length=2)] | None = None
    """One number, or [height, width], in pixels, to which images are scaled; left out: all have one size."""
    channels: Literal[1, 3] = 3
    """3 for colours, 1 for grey."""
    standardize: bool = True
    """Bring each channel to mean 0 and deviation 1, measured on the train split; else values in [0, 1]."""

    def load(self, code_root: Path, split: SplitSection) -> Loaded:  # noqa: ARG002 - of the protocol
        """Return all images in memory, (images, channels, height, width) in [0, 1]: their folder's name is the class.

        Raises:
            ConfigurationError: no such folder, or an image outside the code root.
            DataError: fewer than two classes, an unreadable image, or images of several sizes without `size`.
        """
        import numpy as np
        import torch

        from trainwright.trainer.data.tensors import TensorSamples

        folder = confine_folder(self.path, code_root, key=PATH)
        classes = _classes(folder)
        images: list[Any] = []
        labels: list[int] = []
        for label, name in enumerate(classes):
            for file in _files(folder / name):
                image = self._read(file, folder, code_root)
                if images and image.shape != images[0].shape:
                    raise DataError(
                        f"{file.relative_to(folder)} is {image.shape[0]} x {image.shape[1]} pixels high and wide, the "
                        f"first image {images[0].shape[0]} x {images[0].shape[1]}.",
                        remedy="Set data.args.size, for example [32, 32], to scale all of them.",
                    )
                images.append(image)
                labels.append(label)
        pixels_NHWC = torch.from_numpy(np.stack(images)).reshape(-1, *images[0].shape[:2], self.channels)  # noqa: N806
        inputs = pixels_NHWC.permute(0, 3, 1, 2).float().div_(255.0).contiguous()
        samples = TensorSamples(inputs, torch.tensor(labels))
        return Loaded(samples, classes, standardize=self.standardize, by_channel=True, files=[folder])

    def _read(self, file: Path, folder: Path, code_root: Path) -> Any:
        """Return the pixels, (height, width) or (height, width, 3) of uint8."""
        import numpy as np
        from PIL import Image

        place = file.relative_to(folder)
        if not file.resolve().is_relative_to(code_root.resolve()):
            raise ConfigurationError(
                f"{place} is a link that leads outside the code root.", remedy="Copy the image there."
            )
        size = self.size if isinstance(self.size, list) else self.size and [self.size, self.size]
        try:
            with Image.open(file) as opened:
                image = opened.convert("L" if self.channels == 1 else "RGB")
                if size and image.size != (size[1], size[0]):
                    image = image.resize((size[1], size[0]), Image.Resampling.BILINEAR)
                return np.array(image)
        except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
            raise DataError(
                f"The image {place} cannot be read: {str(error)[:160]}.", remedy="Replace the file or take it out."
            ) from error


def _classes(folder: Path) -> list[str]:
    """Return the names of the folders with images. Raises DataError for fewer than two."""
    classes = sorted(child.name for child in folder.iterdir() if child.is_dir() and _files(child))
    if len(classes) < 2:
        raise DataError(
            f"{folder.name} has {len(classes)} folder(s) with images ({', '.join(SUFFIXES)}); one for each class is "
            "needed, at least two.",
            remedy="Put the images of each class into a folder of its own, and point data.args.path above them.",
        )
    return classes


def _files(folder: Path) -> list[Path]:
    return sorted(file for file in files_among(folder.iterdir()) if file.suffix.lower() in SUFFIXES)
