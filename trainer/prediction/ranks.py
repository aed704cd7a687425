"""Answers that are ranks: the order of the rows of each group, a query's documents, by the score of each row."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from trainwright.trainer.prediction.frame import Array, Batch, Option, Program, Sample, WrongInputError, finite


class RankAnswers:
    """Each row's place in its group, from 1; rows of equal scores share one."""

    options: ClassVar[tuple[Option, ...]] = ()

    def __init__(self, schema: dict[str, Any], folder: Path, options: Mapping[str, Any]) -> None:  # noqa: ARG002
        self.group = schema["answer"]["group"]

    def __call__(self, program: Program, batch: Batch) -> tuple[list[dict[str, Any]], Array]:
        """Return each row's `{"rank", "score"}`, and the outputs. Raises WrongInputError for a row without a group."""
        samples, inputs = batch
        outputs = program(inputs)
        scores = finite(outputs, samples).reshape(len(outputs), -1)
        scores = scores[:, -1] - (scores[:, 0] if scores.shape[1] == 2 else 0.0)  # of two classes, the second's lead
        ranks = ranked(scores, self._numbers(samples))
        return [
            {"rank": rank, "score": score} for rank, score in zip(ranks.tolist(), scores.tolist(), strict=True)
        ], outputs

    def _numbers(self, samples: list[Sample]) -> Array:
        """Return the number of each row's group, (rows,)."""
        cells = [str(sample.details["group"] or "").strip() for sample in samples]
        if not any(cells):
            samples[0].notes.append(f"no column {self.group!r}: all rows are ranked as one group")
        elif not all(cells):
            place = cells.index("") + 1
            raise WrongInputError(
                f"row {place}, column {self.group!r}: it is empty, and rows are ranked within each {self.group!r}.",
                "Give each row its group; or leave the column out where all rows are of one.",
            )
        return np.unique(cells, return_inverse=True)[1].reshape(-1)

    def flat(self, answer: dict[str, Any]) -> list[dict[str, Any]]:
        """Return rank and score."""
        return [{f"predicted_{name}": value for name, value in answer.items()}]


def ranked(scores: Array, groups: Array) -> Array:
    """Return the place of each row in its group by falling score, from 1, (rows,)."""
    ranks = np.empty(len(scores), dtype=np.int64)
    for rows in np.split(np.argsort(groups, kind="stable"), np.cumsum(np.bincount(groups))[:-1]):
        ranks[rows] = 1 + np.searchsorted(np.sort(-scores[rows]), -scores[rows])
    return ranks
