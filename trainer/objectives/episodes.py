"""Measures of episodes: a function of the user's plays them with the model, on seeds that are the same in every epoch.

What it gives here chooses the best epoch; the certified figure is of the exported program, on other seeds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from trainwright.trainer.base import seeding
from trainwright.trainer.base.errors import ConfigurationError, UserCodeError
from trainwright.trainer.clean_room.episodes import Answering, played, seeds_of
from trainwright.trainer.clean_room.rows import Array, RefusalError
from trainwright.trainer.data.loader import BatchLoader
from trainwright.trainer.metrics import Metric
from trainwright.trainer.metrics.built_in import array
from trainwright.trainer.objectives.objective import MeasuredRun, Work
from trainwright.trainer.objectives.supervised import describe, plain_output


class Played:
    """Means over episodes, by the metrics' names."""

    def __init__(self, metrics: Sequence[Metric], work: Work) -> None:
        self.metrics, self.work = metrics, work
        self.names = tuple(metric.name for metric in metrics)

    def __call__(self, run: MeasuredRun, loader: BatchLoader) -> dict[str, float]:  # noqa: ARG002 - as Measure has it
        """Play them with the present weights; the split's rows have no part in it. Raises UserCodeError."""
        return {metric.name: self._mean(metric, run) for metric in self.metrics}

    def _mean(self, metric: Metric, run: MeasuredRun) -> float:
        program = Answering(lambda inputs: self._answer(run, inputs))
        try:
            values = played(
                metric.compute, program, seeds_of(run.seed, metric.episodes), reseed=seeding.seed_everything
            )
        except RefusalError as error:
            raise UserCodeError(f"Metric {metric.name}: {error.problem}.", remedy=error.remedy) from error
        return float(values.mean())

    def _answer(self, run: MeasuredRun, inputs: dict[str, Array]) -> Array:
        """Return the prediction, (rows, ...), of raw inputs, (rows, ...), as the exported program will."""
        tensors = {name: torch.from_numpy(value.copy()).to(run.device) for name, value in inputs.items()}
        placed = [value for name, value in tensors.items() if name.isdigit()]
        named = {name: value for name, value in tensors.items() if not name.isdigit()}
        if self.work.splits.preprocessing is not None and placed:
            placed[0] = self.work.splits.preprocessing(placed[0])
        with run.autocast():
            output = plain_output(run.model(*placed, **named), named)
        if not isinstance(output, Tensor):
            raise ConfigurationError(
                f"The model gives {describe(output)} for inputs alone, and episodes need its prediction.",
                remedy="Let forward return the prediction as one tensor where only inputs are given.",
            )
        scaling = self.work.target_scaling
        answer: Any = array(output if scaling is None else scaling.in_units(output))
        return answer  # type: ignore[no-any-return]
