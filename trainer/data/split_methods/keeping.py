"""Sides that rows keep: the test rows of an earlier plan stay test rows, and none of its others becomes one.

A model was evaluated on them: in train they would be learnt, and what was chosen on the others would flatter a test.
"""

from __future__ import annotations

import numpy as np

from trainwright.trainer.data import marks
from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.data.split_methods.at_random import deal
from trainwright.trainer.data.split_methods.rows import TEST, TRAIN, VALIDATION, Codes, Indices, Rows, numbered

DECIDED_BY_COLUMN = frozenset({"given", "time"})
"""Ways to split under which a column says where a row belongs now."""


def is_kept() -> bool:
    """Return whether rows keep sides here."""
    return marks.current() is not None


def kept_sides(codes: Codes, rows: Rows, section: SplitSection) -> Codes:
    """Return the split of each row, (rows,), by what earlier plans had them in; new rows are where `codes` has them.

    Rows of one group stay together, and so do equal ones.
    """
    sides = marks.current()
    if sides is None or rows.marks is None or section.by in DECIDED_BY_COLUMN:
        return codes
    was_test, was_other = (np.asarray(one, dtype=bool) for one in sides.of(rows.marks()))
    units = _units(rows, section)
    of_test = np.isin(units, units[was_test])
    of_others = np.isin(units, units[was_other]) & ~of_test
    kept = np.where(of_others & (codes == TEST), TRAIN, codes)
    kept = np.where(of_test, TEST, kept).astype(np.int8)
    return kept if (kept == VALIDATION).any() else _with_validation(kept, units, section)


def _with_validation(codes: Codes, units: Indices, section: SplitSection) -> Codes:
    """Return codes with a share of train's units in validation, all of which became test rows."""
    found = np.unique(units[codes == TRAIN])
    share = section.validation / max(1.0 - section.test, section.validation)
    parts = deal(len(found), None, [1.0 - share, share], section.seed)
    return np.where(np.isin(units, found[parts == VALIDATION]), VALIDATION, codes).astype(np.int8)


def _units(rows: Rows, section: SplitSection) -> Indices:
    if section.by == "group" and rows.key is not None:
        return numbered(rows.key)[1]
    return np.arange(rows.units) if isinstance(rows.units, int) else rows.units
