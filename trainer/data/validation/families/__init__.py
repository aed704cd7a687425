"""Families of checks by name. Heavy: whoever imports it has rows to validate."""

from __future__ import annotations

from trainwright.trainer.data.validation.check import Family
from trainwright.trainer.data.validation.families.bounds import Categories, Freshness, Ranges, Volume
from trainwright.trainer.data.validation.families.classes import Classes
from trainwright.trainer.data.validation.families.columns import MixedTypes, Nulls, Schema
from trainwright.trainer.data.validation.families.drift import Drift
from trainwright.trainer.data.validation.families.far_targets import FarTargets
from trainwright.trainer.data.validation.families.in_time import Shifts, Stuck
from trainwright.trainer.data.validation.families.label_errors import LabelErrors
from trainwright.trainer.data.validation.families.leaks import Leaks
from trainwright.trainer.data.validation.families.outliers import Outliers
from trainwright.trainer.data.validation.families.pictures import Pictures
from trainwright.trainer.data.validation.families.texts import Personal, Templates, Texts
from trainwright.trainer.data.validation.families.uniqueness import Constants, RunningNumbers, Twins, Uniqueness

CHECKS: dict[str, Family] = {
    family.name: family
    for family in (
        *(Schema(), Volume(), Nulls(), MixedTypes(), Ranges(), Categories(), Texts(), Templates()),
        *(Uniqueness(), Constants(), Outliers(), Classes(), Freshness(), Pictures(), Drift()),
        *(Leaks(), LabelErrors(), FarTargets(), Twins(), RunningNumbers(), Shifts(), Stuck(), Personal()),
    )
}
"""A new family is one line above, and a class of a file here."""
