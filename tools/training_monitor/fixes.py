"""A document's fixes as changes of one run's configuration: computed, bounded, and valid against the schema."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from pydantic import Field

from trainwright.tools.training_monitor.data_findings import leaks
from trainwright.tools.training_monitor.documents import FREE_SECTIONS, Change, Diagnostic, FixRule
from trainwright.tools.training_monitor.record import RunRecord
from trainwright.tools.training_monitor.signals import read_signal
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.base.records import Frozen
from trainwright.trainer.config import merge_changes

MEASURED_BY_THE_RUN = frozenset({"out_of_memory", "model_too_large"})
"""Diagnostics whose failed runs record the values that would fit."""


DATA_LEAK, WITHOUT_LEAK = "data_leak", "without_leak"
"""The diagnostic, and its fix, whose changes validation found."""
MAX_AT_ONCE = 300.0
"""Times by which a key moves at most, whatever a run measured: further away, another cause is likelier."""
SWEPT = "learning_rate_off_curve"
"""Measured by a range test of the rate itself, which may be as far away as it likes."""
EARLY_STOPPING = "early_stopping"
LENGTHS = ("training.epochs", "training.max_steps")
"""Keys that say how long a run may train; of one that stopped early another has decided."""
OF_LENGTH = ("early_stopping.", "training.epochs", "training.max_steps")
OF_THE_UPDATE = ("optimizer.", "schedule.", "training.clip_")


class Fix(Frozen):
    """One remedy for one run."""

    id: str
    text: str
    changes: dict[str, Any] = Field(default_factory=dict)
    """Dotted key → new value, for `configure`. Empty: a hint that no key of this configuration can carry out."""

    def call(self, project: str) -> str:
        """Return the exact tool call that applies the fix, or an empty text for a hint."""
        return f"configure(project={json.dumps(project)}, changes={json.dumps(self.changes)})" if self.changes else ""


def compute_fixes(
    diagnostic: Diagnostic, record: RunRecord, keys: Sequence[str] = (), measured: float | None = None
) -> list[Fix]:
    """Return the document's fixes for one run; first the one that the failed run worked out by measuring, if it did.

    Args:
        keys: the keys of the configuration that the alert is about.
        measured: the alert's value.
    """
    most = math.inf if diagnostic.id == SWEPT else MAX_AT_ONCE
    rules = [rule for rule in diagnostic.fixes if _fits(rule, record, diagnostic.id)]
    every = [compute_fix(rule, record, keys, measured, most) for rule in rules]
    found = [fix for fix in every if fix is not None and not _is_of_no_use(record, fix.changes)]
    if diagnostic.id == DATA_LEAK:
        return [_without_leak(record, fix) if fix.id == WITHOUT_LEAK else fix for fix in found]
    known = worked_out(record) if diagnostic.id in MEASURED_BY_THE_RUN else None
    if known is None:
        return found
    return [known, *(fix for fix in found if fix.changes.keys() != known.changes.keys())]


def _fits(rule: FixRule, record: RunRecord, of: str) -> bool:
    return all(condition.past(read_signal(record, condition.signal, of)) for condition in rule.only_if)


def _is_of_no_use(record: RunRecord, changes: dict[str, Any]) -> bool:
    """Whether the changes would end the run before its best epoch, or lengthen one that early stopping has ended."""
    is_of_length = bool(changes) and all(key in LENGTHS for key in changes)
    if is_of_length and record.summary.stop_reason == EARLY_STOPPING:
        moves = directions(changes, record.config.model_dump(mode="json"))
        return bool(moves) and all(moves.values())
    return _ends_before_best(record, changes)


def _ends_before_best(record: RunRecord, changes: dict[str, Any]) -> bool:
    """Whether the run with these changes would have ended before its best epoch, by its own validation curve."""
    best, values = record.best, record.config.model_dump(mode="json")
    if best is None or best.epoch is None or not any(key.startswith(OF_LENGTH) for key in changes):
        return False
    config = merge_changes(changes, values, argument="changes").config
    if best.epoch > config.training.epochs or best.step > (config.training.max_steps or math.inf):
        return True
    stopping, reached, improved = config.early_stopping, -math.inf, 0
    for sample in record.by_epoch(record.selection_key or "") if stopping.enabled else []:
        epoch, value = sample.epoch or 0, record.selection_sign * sample.value
        if value > reached + stopping.min_delta:
            improved = epoch
        elif epoch - improved >= stopping.patience_epochs:
            return sample.step < best.step
        reached = max(reached, value) if math.isfinite(value) else reached
    return False


def _without_leak(record: RunRecord, fix: Fix) -> Fix:
    """Return the document's fix with the change that validation names for the gravest leak that has one."""
    changes: dict[str, Any] = next(
        (leak.details["changes"] for leak in leaks(record) if leak.details.get("changes")), {}
    )
    is_valid = changes and _is_valid(record.config.model_dump(mode="json"), changes)
    return fix.model_copy(update={"changes": changes}) if is_valid else fix


def worked_out(record: RunRecord) -> Fix | None:
    """Return the changes that a failed run names itself; None where it names none, or they do not fit the schema."""
    failure = record.status.failure
    changes = failure.details.get("changes") if failure is not None else None
    if not changes or not _is_valid(record.config.model_dump(mode="json"), changes):
        return None
    return Fix(id="worked_out", text="What the failed run worked out from what it measured.", changes=changes)


def compute_fix(
    rule: FixRule,
    record: RunRecord,
    keys: Sequence[str] = (),
    measured: float | None = None,
    most: float = MAX_AT_ONCE,
) -> Fix | None:
    """Return the rule's changes worked out from the run's configuration; None when it has these values already.

    A key that the model does not accept, or a result that breaks the schema, leaves the fix as a hint.
    """
    values = record.config.model_dump(mode="json")
    if rule.take_out:
        return _taken_out(rule, values, keys)
    accepted = {key: change for key, change in rule.changes.items() if _accepts(record, values, key)}
    changes: dict[str, Any] = {}
    for key, change in accepted.items():
        present = _look_up(values, key)
        wanted = _changed(present, change, measured, most)
        if wanted is not None and wanted != present:
            changes[key] = wanted
    if accepted and not changes:
        return None
    whole = not rule.together or len(changes) == len(rule.changes)
    return Fix(id=rule.id, text=rule.text, changes=changes if whole and _is_valid(values, changes) else {})


def _taken_out(rule: FixRule, values: dict[str, Any], keys: Sequence[str]) -> Fix | None:
    changes = dict.fromkeys(key for key in keys if _look_up(values, key) is not None)
    return Fix(id=rule.id, text=rule.text, changes=changes if _is_valid(values, changes) else {}) if changes else None


def _is_valid(values: dict[str, Any], changes: dict[str, Any]) -> bool:
    return _merges(json.dumps(values), json.dumps(changes))


@lru_cache(maxsize=256)
def _merges(values: str, changes: str) -> bool:
    """Return whether the schema takes the changes; every look at a run asks it of the same fixes."""
    try:
        merge_changes(json.loads(changes), json.loads(values), argument="changes")
    except ConfigurationError:
        return False
    return True


def _accepts(record: RunRecord, values: dict[str, Any], key: str) -> bool:
    """Whether the key means something in this run: a free argument must be known to the callable it goes to.

    The user's train_step makes its own updates and ignores the configuration's keys of them.
    """
    if record.resolved.objective == "train_step" and key.startswith(OF_THE_UPDATE):
        return False
    section, _, argument = key.rpartition(".")
    if section not in FREE_SECTIONS:
        return True
    owner = values.get(section.removesuffix(".args"))
    if not isinstance(owner, dict):
        return False
    accepted = record.resolved.model_arguments if section == "model.args" else None
    return argument in owner["args"] or argument in (accepted or [])


def _look_up(values: dict[str, Any], key: str) -> Any:
    section: Any = values
    for part in key.split("."):
        section = section.get(part) if isinstance(section, dict) else None
    return section


def _changed(present: Any, change: Change, measured: float | None, most: float) -> bool | int | float | str | None:
    """Return the new value, or None when the operation cannot be applied to the present one."""
    if change.set is not None:
        return change.set
    if present is not None and not _is_number(present):
        return None
    target = change.raise_to if change.raise_to is not None else change.lower_to
    if present is None:
        wanted = target if target is not None else change.add  # an absent number counts as zero, or as no bound
    elif (factor := _factor(change, measured, most)) is not None:
        wanted = present * factor
    elif change.add is not None:
        wanted = present + change.add
    elif target is not None:
        wanted = max(present, target) if change.raise_to is not None else min(present, target)
    else:
        wanted = None
    return None if wanted is None else _bounded(wanted, present, change)


def directions(changes: dict[str, Any], values: dict[str, Any]) -> dict[str, bool]:
    """Return for each number that the changes move whether it goes up."""
    numbers = {key: (_look_up(values, key), new) for key, new in changes.items() if _is_number(new)}
    return {key: new > old for key, (old, new) in numbers.items() if _is_number(old)}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _factor(change: Change, measured: float | None, most: float) -> float | None:
    """Return what the present value is multiplied by; None where nothing says it."""
    if change.bring_measured_to is None:
        return change.multiply
    if measured is None or not 0 < measured < math.inf:
        return None
    return min(max(change.bring_measured_to / measured, 1 / most), most)


def _bounded(wanted: float, present: float | None, change: Change) -> int | float:
    """Clamp to the bounds, but never turn a key the other way because it is past the far bound already."""
    low = -math.inf if change.minimum is None else change.minimum
    high = math.inf if change.maximum is None else change.maximum
    if present is not None and wanted >= present:
        high = max(high, present)
    elif present is not None:
        low = min(low, present)
    value = min(max(wanted, low), high)
    return round(value) if isinstance(present, int) else float(f"{value:.6g}")
