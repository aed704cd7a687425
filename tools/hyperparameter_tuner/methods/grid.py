"""Grid search: every point of the grid once, in a fixed order."""

from __future__ import annotations

from itertools import islice
from typing import Any

from trainwright.tools.hyperparameter_tuner.methods.question import Question
from trainwright.trainer.base.canonical import canonical_json


def draw(question: Question) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the next point of the grid that is none of the search's first trials.

    Raises:
        LookupError: the grid has no more points, which starting a search rules out.
    """
    first = {canonical_json(start.parameters) for start in question.starts}
    others = (point for point in question.domain.points() if canonical_json(point) not in first)
    place = question.number - len(question.starts)
    for point in islice(others, place, place + 1):
        return point, {}
    raise LookupError(f"the grid has no trial {question.number}")
