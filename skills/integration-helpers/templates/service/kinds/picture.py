"""Rows of pictures: files in base64, decoded by predict.py, the very code that decoded for training."""

from __future__ import annotations

import io
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from drift import FAR, Drift
from predictor import content_of, shipped
from pydantic import AfterValidator, BaseModel, ConfigDict, create_model


class Picture(NamedTuple):
    """A picture as the model takes it, and as it was."""

    pixels: np.ndarray[Any, Any]
    """(channels, height, width) of uint8."""
    size: list[int]
    """Its own height and width, in pixels, where predict.py answers."""


class Rows:
    """What one row is, and how it becomes the program's input.

    Args:
        signature: of the model.
        folder: with predict.py.
    """

    def __init__(self, signature: dict[str, Any], folder: Path) -> None:
        given = signature["inputs"]
        self.size, self.channels = tuple(given["size"]), given["channels"]
        self.known = given["statistics"].get("brightness")
        self.has_samples, self.shipped = signature["answers"] is not None, shipped(folder)

        def read(text: str) -> Picture:
            content = content_of(text)
            pixels = self.shipped["decode"](io.BytesIO(content), size=self.size, channels=self.channels)
            if not self.has_samples:
                return Picture(pixels, [])
            seen = self.shipped["header"](io.BytesIO(content))
            return Picture(pixels, [seen.height, seen.width])

        picture = Annotated[str, AfterValidator(read)]
        self.Row: type[BaseModel] = create_model("Row", __config__=ConfigDict(extra="forbid"), picture=(picture, ...))

    def inputs(self, rows: Sequence[Any]) -> Any:
        """Return the program's input, (rows, channels, height, width) of uint8; a batch where predict.py answers."""
        pictures = [row.picture for row in rows]
        sample = self.shipped["Sample"]
        samples = [sample({"file": f"{uuid.uuid4().hex}.png"}, details={"size": one.size}) for one in pictures]
        return self._given(samples, np.stack([one.pixels for one in pictures]))

    def example(self) -> Any:
        """Return an input on which the program must run before the service is ready."""
        return self._given([], np.zeros((1, self.channels, *self.size), dtype=np.uint8))

    def _given(self, samples: list[Any], pixels: np.ndarray[Any, Any]) -> Any:
        return [(samples, {"input": pixels})] if self.has_samples else {"input": pixels}

    def notes(self, rows: Sequence[Any], inputs: Any) -> list[list[str]]:  # noqa: ARG002 - as of the other kinds
        """Return nothing for each row: any picture of the right kind is one."""
        return [[] for _ in rows]

    def count(self, rows: Sequence[Any], inputs: Any, drift: Drift) -> None:  # noqa: ARG002 - as of the other kinds
        """Count pictures whose mean brightness is far from that of training."""
        if self.known is None:
            return
        for row in rows:
            deviation = (float(row.picture.pixels.mean()) / 255.0 - self.known["mean"]) / (self.known["scale"] or 1.0)
            drift.measure("brightness", deviation)
            if abs(deviation) > FAR:
                drift.note("brightness", "far")
