"""Pictures, as the user has them: files, or folders of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from trainwright.trainer.data.images.decoding import PictureError, decode, header
from trainwright.trainer.prediction.frame import Batch, Sample, WrongInputError

AT_ONCE = 16
ENDINGS = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm"})


class PictureRows:
    """Pictures, turned upright and scaled as in training."""

    takes: ClassVar[str] = "picture files, or folders of them"
    stdin: ClassVar[str] = ".png"

    def __init__(self, schema: dict[str, Any], folder: Path) -> None:  # noqa: ARG002 - as of the others
        options = schema["pictures"]
        self.size, self.channels = (options["size"][0], options["size"][1]), options["channels"]

    def batches(self, given: Sequence[str]) -> Iterator[Batch]:
        """Yield pictures, (pictures, channels, height, width) of uint8. Raises WrongInputError."""
        files = [file for argument in given for file in self._files(Path(argument))]
        for start in range(0, len(files), AT_ONCE):
            some = files[start : start + AT_ONCE]
            read = [self._read(file) for file in some]
            yield [sample for sample, _ in read], {"input": np.stack([pixels for _, pixels in read])}

    def _files(self, path: Path) -> list[Path]:
        if not path.is_dir():
            return [path]
        found = sorted(one for one in path.rglob("*") if one.suffix.lower() in ENDINGS)
        if not found:
            raise WrongInputError(f"{path}: no picture is in this folder.", f"Name {self.takes}.")
        return found

    def _read(self, file: Path) -> tuple[Sample, Any]:
        if not file.is_file():
            raise WrongInputError(f"{file}: there is no such file.", f"Name {self.takes}.")
        try:
            seen = header(str(file))
            pixels = decode(str(file), size=self.size, channels=self.channels)
        except PictureError as problem:
            raise WrongInputError(f"{file}: {problem}", "Save it as PNG or JPEG, or leave it out.") from None
        note = ["it has several frames; the first is read"] if seen.is_animated else []
        return Sample({"file": str(file)}, note, {"size": [seen.height, seen.width]}), pixels
