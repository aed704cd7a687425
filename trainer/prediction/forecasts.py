"""Answers that are forecasts: the targets of the rows that follow."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from trainwright.trainer.prediction.frame import Array, Batch, Option, Program, finite
from trainwright.trainer.prediction.series import times_after


class ForecastAnswers:
    """The rows of the horizon, in the units of the targets."""

    options: ClassVar[tuple[Option, ...]] = ()

    def __init__(self, schema: dict[str, Any], folder: Path, options: Mapping[str, Any]) -> None:  # noqa: ARG002
        self.horizon, self.time, self.names = schema["series"]["horizon"], schema["series"]["time"], schema["targets"]

    def __call__(self, program: Program, batch: Batch) -> tuple[list[dict[str, Any]], Array]:
        """Return each series' `{"forecast"}`, a row for each step, and the outputs."""
        samples, inputs = batch
        outputs = program(inputs)
        rows = finite(outputs, samples).reshape(len(outputs), self.horizon, len(self.names))
        return [{"forecast": self._rows(*one)} for one in zip(samples, rows.tolist(), strict=True)], outputs

    def _rows(self, sample: Any, steps: list[list[float]]) -> list[dict[str, Any]]:
        times = times_after(sample.details["times"], self.horizon)
        return [
            {
                "step": place,
                **({self.time: time} if time is not None else {}),
                **dict(zip(self.names, row, strict=True)),
            }
            for place, (time, row) in enumerate(zip(times, steps, strict=True), start=1)
        ]

    def flat(self, answer: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the rows."""
        return list(answer["forecast"])
