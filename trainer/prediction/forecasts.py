"""Answers that are forecasts: the targets of the rows that follow."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

from trainwright.trainer.prediction.frame import Array, Batch, Option, Program, Sample, finite
from trainwright.trainer.prediction.series import times_after


class ForecastAnswers:
    """The rows of the horizon, in the units of the targets."""

    options: ClassVar[tuple[Option, ...]] = ()

    def __init__(self, schema: dict[str, Any], folder: Path, options: Mapping[str, Any]) -> None:  # noqa: ARG002
        self.schema, self.horizon = schema, schema["series"]["horizon"]

    def __call__(self, program: Program, batch: Batch) -> tuple[list[dict[str, Any]], Array]:
        """Return each series' `{"forecast"}`, a row for each step, and the outputs."""
        samples, inputs = batch
        outputs = program(inputs)
        rows = finite(outputs, samples).reshape(len(outputs), self.horizon, -1).tolist()
        return [forecast_of(*one, self.schema) for one in zip(samples, rows, strict=True)], outputs

    def flat(self, answer: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the rows."""
        return list(answer["forecast"])


def forecast_of(sample: Sample, steps: list[list[float]], schema: dict[str, Any]) -> dict[str, Any]:
    """Return `{"forecast": [{"step", time, target: number, …}, …]}`; without times where the rows had none.

    Args:
        sample: as `window_of` gives it.
        steps: (horizon, targets).
    """
    options, moments = schema["series"], sample.details["moments"]
    times: list[dict[str, Any]] = [{}] * len(steps)
    if moments is not None:
        with suppress(OverflowError, ValueError):  # behind the year 9999
            after = times_after(moments, options["every"], len(steps), sample.details["like"])
            times = [{options["time"]: one} for one in after]
    rows = zip(times, steps, strict=True)
    return {
        "forecast": [
            {"step": place, **time, **dict(zip(schema["targets"], row, strict=True))}
            for place, (time, row) in enumerate(rows, start=1)
        ]
    }
