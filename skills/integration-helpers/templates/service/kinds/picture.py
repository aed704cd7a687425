"""Rows of pictures: files in base64, decoded by predict.py, the very code that decoded for training."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from drift import FAR, Drift
from predictor import content_of, shipped
from pydantic import AfterValidator, BaseModel, ConfigDict, create_model

Inputs = dict[str, np.ndarray[Any, Any]]


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
        decode = shipped(folder)["decode"]

        def read(text: str) -> np.ndarray[Any, Any]:
            pixels: np.ndarray[Any, Any] = decode(io.BytesIO(content_of(text)), size=self.size, channels=self.channels)
            return pixels

        picture = Annotated[str, AfterValidator(read)]
        self.Row: type[BaseModel] = create_model("Row", __config__=ConfigDict(extra="forbid"), picture=(picture, ...))

    def inputs(self, rows: Sequence[Any]) -> Inputs:
        """Return the program's input, (rows, channels, height, width) of uint8."""
        return {"input": np.stack([row.picture for row in rows])}

    def example(self) -> Inputs:
        """Return an input on which the program must run before the service is ready."""
        return {"input": np.zeros((1, self.channels, *self.size), dtype=np.uint8)}

    def notes(self, rows: Sequence[Any], inputs: Inputs) -> list[list[str]]:  # noqa: ARG002 - as of the other kinds
        """Return nothing for each row: any picture of the right kind is one."""
        return [[] for _ in rows]

    def count(self, rows: Sequence[Any], inputs: Inputs, drift: Drift) -> None:  # noqa: ARG002 - as of the other kinds
        """Count pictures whose mean brightness is far from that of training."""
        if self.known is None:
            return
        for row in rows:
            deviation = (float(row.picture.mean()) / 255.0 - self.known["mean"]) / (self.known["scale"] or 1.0)
            drift.measure("brightness", deviation)
            if abs(deviation) > FAR:
                drift.note("brightness", "far")
