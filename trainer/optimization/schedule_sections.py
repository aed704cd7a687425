"""The schedules' options: one section each. The rate is given by optimizer step; every schedule has a warmup."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator

from trainwright.trainer.base.section import (
    Fraction,
    ImpossibleError,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    Probability,
    Section,
    name_of,
)


class ScheduleBase(Section):
    """What every schedule takes."""

    warmup_fraction: Probability = 0.05
    """Share of all steps in which the rate rises linearly from near zero."""
    warmup_steps: NonNegativeInt | None = None
    """Exact number of warmup steps; replaces warmup_fraction."""


class ConstantSection(ScheduleBase):
    """The full rate after the warmup."""

    name: Literal["constant"] = "constant"


class CosineSection(ScheduleBase):
    """Half a cosine down to the last step."""

    name: Literal["cosine"] = "cosine"
    final_fraction: Fraction = 0.0
    """Learning rate at the end as a share of the peak."""


class LinearSection(ScheduleBase):
    """A straight line down to the last step."""

    name: Literal["linear"] = "linear"
    final_fraction: Fraction = 0.0


class PolynomialSection(ScheduleBase):
    """A power of the share of steps that is left."""

    name: Literal["polynomial"] = "polynomial"
    final_fraction: Fraction = 0.0
    power: PositiveFloat = 2.0


class InverseSquareRootSection(ScheduleBase):
    """Falls with the square root of the step, from the end of the warmup."""

    name: Literal["inverse_square_root"] = "inverse_square_root"


class WarmupStableDecaySection(ScheduleBase):
    """The full rate until the last share of the steps, in which it falls."""

    name: Literal["warmup_stable_decay"] = "warmup_stable_decay"
    final_fraction: Fraction = 0.0
    decay_fraction: Annotated[float, Field(gt=0.0, le=1.0)] = 0.2
    """Share of all steps in which the rate falls, at the end."""
    decay_shape: Literal["linear", "cosine", "one_minus_sqrt"] = "linear"


class OneCycleSection(ScheduleBase):
    """Up along half a cosine and far down along another, the momentum the other way."""

    name: Literal["one_cycle"] = "one_cycle"
    warmup_fraction: Probability = 0.3
    initial_fraction: Fraction = 0.04
    """Rate of the first step as a share of the peak."""
    final_fraction: Fraction = 4e-6
    momentum_range: Annotated[tuple[Probability, Probability], Field(strict=False)] | None = None
    """(lowest, highest) momentum or beta1: highest where the rate is lowest. Left out: the optimizer's own, fixed."""

    @model_validator(mode="after")
    def _range_in_order(self) -> Self:
        if self.momentum_range is not None and self.momentum_range[0] > self.momentum_range[1]:
            in_order = sorted(self.momentum_range)
            raise ImpossibleError("schedule.momentum_range is (lowest, highest)", {"schedule.momentum_range": in_order})
        return self


class CosineRestartsSection(ScheduleBase):
    """Several half cosines, each from the full rate down."""

    name: Literal["cosine_restarts"] = "cosine_restarts"
    final_fraction: Fraction = 0.0
    cycles: Annotated[int, Field(ge=1, le=10_000)] = 3
    """Cosines after the warmup; together they fill the run."""
    cycle_growth: Annotated[float, Field(ge=1.0, le=1000.0)] = 1.0
    """How much longer each cycle is than the one before."""


class PlateauSection(ScheduleBase):
    """Lowered whenever the selection metric has stopped improving."""

    name: Literal["plateau"] = "plateau"
    factor: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.1
    patience_epochs: PositiveInt = 3
    """Epochs without improvement before the rate is lowered."""
    cooldown_epochs: NonNegativeInt = 0
    """Epochs after a lowering that do not count."""
    min_delta: NonNegativeFloat = 0.0
    """Smallest change of the selection metric that counts as an improvement."""
    final_fraction: Fraction = 0.0
    """The rate is never lowered below this share of the peak."""


DEFAULT_SCHEDULE = "cosine"

ScheduleSection = Annotated[
    Annotated[CosineSection, Tag("cosine")]
    | Annotated[ConstantSection, Tag("constant")]
    | Annotated[LinearSection, Tag("linear")]
    | Annotated[PolynomialSection, Tag("polynomial")]
    | Annotated[InverseSquareRootSection, Tag("inverse_square_root")]
    | Annotated[WarmupStableDecaySection, Tag("warmup_stable_decay")]
    | Annotated[OneCycleSection, Tag("one_cycle")]
    | Annotated[CosineRestartsSection, Tag("cosine_restarts")]
    | Annotated[PlateauSection, Tag("plateau")],
    Discriminator(lambda value: name_of(value, DEFAULT_SCHEDULE)),
]
"""The learning rate over the run, chosen by `name`."""
