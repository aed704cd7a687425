"""Answers that are masks: a PNG in the picture's own size, with the numbers or colours of the user's masks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from PIL import Image

from trainwright.trainer.prediction.frame import Array, Batch, Option, Program, finite


class MaskAnswers:
    """The likeliest class of each pixel, scaled to the picture's size by the nearest one."""

    options: ClassVar[tuple[Option, ...]] = (("out", Path, Path("masks"), "folder that masks are written to"),)

    def __init__(self, schema: dict[str, Any], folder: Path, options: Mapping[str, Any]) -> None:  # noqa: ARG002
        answer = schema["answer"]
        self.classes, self.codes, self.of_colors = answer["classes"], answer["codes"], answer["of_colors"]
        self.out: Path = options["out"]

    def __call__(self, program: Program, batch: Batch) -> tuple[list[dict[str, Any]], Array]:
        """Write each picture's mask; return `{"mask", "shares"}`, its file and the share of each class, and outputs."""
        samples, inputs = batch
        outputs = program(inputs)
        return [self._written(*one) for one in zip(samples, finite(outputs, samples), strict=True)], outputs

    def _written(self, sample: Any, scores: Array) -> dict[str, Any]:
        height, width = sample.details["size"]
        places = Image.fromarray(classes_of(scores).astype(np.uint8)).resize((width, height), Image.Resampling.NEAREST)
        numbers = np.asarray(places)
        values = np.array(self.codes, dtype=np.int64)[numbers]
        if self.of_colors:
            image = Image.fromarray(np.stack([values >> 16, values >> 8 & 255, values & 255], -1).astype(np.uint8))
        else:
            image = Image.fromarray(values.astype(np.uint8 if values.max() < 256 else np.uint16))
        self.out.mkdir(parents=True, exist_ok=True)
        path = self._free(Path(sample.place["file"]).stem)
        image.save(path)
        shares = np.bincount(numbers.reshape(-1), minlength=len(self.classes)) / numbers.size
        return {"mask": str(path), "shares": dict(zip(self.classes, shares.tolist(), strict=True))}

    def _free(self, stem: str) -> Path:
        """Return a name that no file has: pictures of two folders may share theirs."""
        names = (self.out / f"{stem}{f'_{number}' if number else ''}.png" for number in range(1 << 20))
        return next(path for path in names if not path.exists())

    def flat(self, answer: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the mask's file and the share of each class."""
        return [{"mask": answer["mask"], **answer["shares"]}]


def classes_of(scores: Array) -> Array:
    """Return the class of each pixel, (height, width), of scores (classes, height, width), or one of two classes."""
    return np.asarray(scores.argmax(axis=0) if len(scores) > 1 else scores[0] > 0)
