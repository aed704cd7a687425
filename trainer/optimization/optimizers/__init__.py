"""Optimizers by name: each is in the file of its family with its options and its `build`, and has a line here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainwright.trainer.base.section import form_of, name_of, union_of
from trainwright.trainer.optimization.optimizers.adaptive import (
    Adadelta,
    Adafactor,
    Adagrad,
    Adam,
    Adam8bit,
    AdamW,
    Lamb,
    NAdam,
    RmsProp,
)
from trainwright.trainer.optimization.optimizers.lbfgs import Lbfgs
from trainwright.trainer.optimization.optimizers.momentum import Lars, Lion, Sgd
from trainwright.trainer.optimization.optimizers.muon import Muon
from trainwright.trainer.optimization.optimizers.own import Own
from trainwright.trainer.optimization.optimizers.schedule_free import ScheduleFreeAdamW, ScheduleFreeSgd
from trainwright.trainer.optimization.optimizers.section import OptimizerSection

FORMS: tuple[type[OptimizerSection], ...] = (
    AdamW,
    Sgd,
    Adam,
    Adam8bit,
    NAdam,
    Lamb,
    Lars,
    Lion,
    Muon,
    Adafactor,
    ScheduleFreeAdamW,
    ScheduleFreeSgd,
    Adadelta,
    RmsProp,
    Adagrad,
    Lbfgs,
    Own,
)
OPTIMIZERS = {form_of(form): form for form in FORMS}
DEFAULT_OPTIMIZER = "adamw"


def _chosen(value: Any) -> str | None:
    """Return the form that is meant: with `use` it is user code, regardless of the name beside it."""
    own = isinstance(value, dict) and value.get("use") is not None
    return "own" if own else name_of(value, DEFAULT_OPTIMIZER)


if TYPE_CHECKING:
    AnyOptimizer = OptimizerSection
else:
    AnyOptimizer = union_of(FORMS, _chosen)
"""The update rule, chosen by `name`, or by `use`."""
