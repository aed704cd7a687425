"""Basis on which runs are compared: their selection metric, or the goal's where their losses are of other scales."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import BaseModel

from trainwright.tools.training_monitor.record import STEP_LOSS, TRAIN_LOSS, VALIDATION_LOSS, RunRecord
from trainwright.trainer.base.text import one_line
from trainwright.trainer.metrics import BUILT_IN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trainwright.trainer.run import Goal


SCALES_THE_LOSS = ("loss", "target_scaling", "objective")
"""Keys that change what the loss measures: losses of runs that differ in one are not compared."""
OF_THE_LOSS = frozenset({STEP_LOSS, TRAIN_LOSS, VALIDATION_LOSS})
FOLLOW = frozenset({"loss", "perplexity", "bits_per_byte"})
"""Values of validation that are the mean loss, or follow from it."""
MOST_CHARACTERS = 60


class Basis(NamedTuple):
    """The series by which runs are ranked."""

    key: str | None
    """None: each run's own selection metric."""
    sign: int
    """+1 when higher is better, -1 when lower is."""
    refused: str = ""
    """Why their losses are not compared; empty where they are."""

    def key_of(self, record: RunRecord) -> str | None:
        """Return the series of one run; None where it has none that may be compared."""
        if self.key is not None:
            return self.key if self.key in set(record.metrics.keys()) else None
        return None if self.refused else record.selection_key

    def value_of(self, record: RunRecord) -> float | None:
        """Return the run's value at its best epoch, whose checkpoint is kept."""
        best, key = record.best, self.key_of(record)
        if best is None or key is None or key == record.selection_key:
            return best.value if best is not None and key is not None else None
        return next((one.value for one in record.by_epoch(key) if one.step == best.step), None)


def basis_of(records: Sequence[RunRecord], goal: Goal | None = None) -> Basis:
    """Return by what these runs may be compared: never by losses that are not measured alike."""
    refused = _unlike_losses(records)
    sign = records[0].selection_sign if records else 1
    if not refused or not any(record.selection_key in OF_THE_LOSS for record in records):
        return Basis(None, sign, refused)
    shared = set.intersection(*(set(record.metrics.keys()) for record in records))
    names = [key.removeprefix("validation/") for key in sorted(shared) if key.startswith("validation/")]
    if goal is not None and goal.metric in names and goal.metric not in FOLLOW:
        return Basis(f"validation/{goal.metric}", 1 if goal.direction == "maximize" else -1, refused)
    known = [name for name in names if name in BUILT_IN and name not in FOLLOW]
    if not known:
        return Basis(None, sign, refused)
    return Basis(f"validation/{known[0]}", -1 if BUILT_IN[known[0]].minimize else 1, refused)


def _unlike_losses(records: Sequence[RunRecord]) -> str:
    """Return the keys, with their values, by which the losses are of several scales; empty where they are of one."""
    found = []
    for key in SCALES_THE_LOSS:
        settings = list(dict.fromkeys(_setting(record, key) for record in records))
        if len(settings) > 1:
            found.append(f"{key} ({', '.join(one_line(each, MOST_CHARACTERS) for each in settings)})")
    return " and ".join(found)


def _setting(record: RunRecord, key: str) -> str:
    value: Any = getattr(record.config, key)
    if isinstance(value, BaseModel):
        options = value.model_dump(mode="json", exclude_none=True)
        name = options.pop("name", None) or options.pop("use", "")
        return " ".join([str(name), *(f"{option}={options[option]}" for option in sorted(options) if options[option])])
    return str(value or "none")
