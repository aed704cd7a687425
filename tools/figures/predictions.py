"""Predictions that a run recorded of its validation rows, read as arrays, without pickle."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trainwright.tools.figures.missing import no_predictions
from trainwright.tools.figures.style import cut
from trainwright.trainer.base.canonical import digest_bytes
from trainwright.trainer.base.errors import IntegrityError
from trainwright.trainer.run.evaluation import Evaluation

if TYPE_CHECKING:
    from trainwright.tools.training_monitor.record import RunRecord


@dataclass(frozen=True)
class Predicted:
    """One run's evaluation and its arrays by name (trainer/run/evaluation.py)."""

    record: RunRecord
    evaluation: Evaluation
    arrays: dict[str, Any]

    @property
    def title(self) -> str:
        """What was evaluated: run, rows and epoch."""
        found = self.evaluation
        return f"{self.record.name}: {found.rows} validation rows, epoch {found.epoch}"

    def class_name(self, number: int, longest: int = 16) -> str:
        """Return a class's name, cut to a length."""
        return cut(self.evaluation.class_name(number), longest)


def predicted(record: RunRecord, kind: str, what: str, *needed: str) -> Predicted:
    """Return a run's predictions.

    Args:
        kind: picture that needs them.
        what: what it draws, as an error names it.
        needed: names of arrays, all of which must be there.

    Raises:
        NotFoundError: there are none, with the reason.
        IntegrityError: the file is not as the worker wrote it.
    """
    found = record.part(Evaluation)
    if found.predictions is None or not set(needed) <= set(found.predictions.arrays):
        raise no_predictions(record, found, kind, what)
    return Predicted(record, found, _arrays(record, found))


def _arrays(record: RunRecord, found: Evaluation) -> dict[str, Any]:
    import numpy as np

    assert found.predictions is not None  # noqa: S101 - the caller has looked
    path = record.run.artifacts / found.predictions.path
    content = path.read_bytes() if path.is_file() and path.parent == record.run.artifacts else b""
    if digest_bytes(content) != found.predictions.digest:
        raise IntegrityError(
            f"{path.name} of run {record.run.run_id} is not as its worker wrote it.",
            remedy="Start the run again; `trainwright verify WORKSPACE` lists all other changes.",
        )
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}
