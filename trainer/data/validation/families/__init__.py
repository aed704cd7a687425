"""Families of checks by name. Heavy: whoever imports it has rows to validate."""

from __future__ import annotations

from trainwright.trainer.data.validation.check import Family
from trainwright.trainer.data.validation.families.categories import Categories
from trainwright.trainer.data.validation.families.classes import Classes
from trainwright.trainer.data.validation.families.columns import Schema
from trainwright.trainer.data.validation.families.constants import Constants
from trainwright.trainer.data.validation.families.drift import Drift
from trainwright.trainer.data.validation.families.far_targets import FarTargets
from trainwright.trainer.data.validation.families.freshness import Freshness
from trainwright.trainer.data.validation.families.label_errors import LabelErrors
from trainwright.trainer.data.validation.families.leaks import Leaks
from trainwright.trainer.data.validation.families.mixed_types import MixedTypes
from trainwright.trainer.data.validation.families.nulls import Nulls
from trainwright.trainer.data.validation.families.outliers import Outliers
from trainwright.trainer.data.validation.families.personal import Personal
from trainwright.trainer.data.validation.families.pictures import Pictures
from trainwright.trainer.data.validation.families.ranges import Ranges
from trainwright.trainer.data.validation.families.running_numbers import RunningNumbers
from trainwright.trainer.data.validation.families.shifts import Shifts
from trainwright.trainer.data.validation.families.stuck import Stuck
from trainwright.trainer.data.validation.families.templates import Templates
from trainwright.trainer.data.validation.families.texts import Texts
from trainwright.trainer.data.validation.families.twins import Twins
from trainwright.trainer.data.validation.families.uniqueness import Uniqueness
from trainwright.trainer.data.validation.families.volume import Volume

CHECKS: dict[str, Family] = {
    family.name: family
    for family in (
        *(Schema(), Volume(), Nulls(), MixedTypes(), Ranges(), Categories(), Texts(), Templates()),
        *(Uniqueness(), Constants(), Outliers(), Classes(), Freshness(), Pictures(), Drift()),
        *(Leaks(), LabelErrors(), FarTargets(), Twins(), RunningNumbers(), Shifts(), Stuck(), Personal()),
    )
}
"""A new family is one line above, and a class of a file here."""
