"""The optimizers' options: one section each, so that an option which an optimizer does not take is an error.

The defaults are those of the papers (cited where the optimizers are built, trainer/optimization/builders).
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator

from trainwright.trainer.config.section import (
    ImpossibleError,
    LearningRate,
    NonNegativeFloat,
    Patterns,
    PositiveFloat,
    PositiveInt,
    Probability,
    Section,
    name_of,
)

Betas = Annotated[tuple[Probability, Probability], Field(strict=False)]
InnerProbability = Annotated[float, Field(gt=0.0, lt=1.0)]


class GroupSection(Section):
    """Parameters with a rate or a decay of their own. Of several groups that match a name, the first holds."""

    patterns: Patterns
    learning_rate: LearningRate | None = None
    learning_rate_factor: PositiveFloat | None = None
    """Share of optimizer.learning_rate."""
    weight_decay: NonNegativeFloat | None = None
    """Of the group's weights; norms and biases stay without decay."""

    @model_validator(mode="after")
    def _one_rate_and_something_of_its_own(self) -> Self:
        if self.learning_rate is not None and self.learning_rate_factor is not None:
            raise ValueError("give learning_rate or learning_rate_factor, not both")
        if self.learning_rate is None and self.learning_rate_factor is None and self.weight_decay is None:
            raise ValueError("a group needs learning_rate, learning_rate_factor or weight_decay of its own")
        return self


class OptimizerBase(Section):
    """What every optimizer takes."""

    learning_rate: LearningRate = 1e-3
    weight_decay: NonNegativeFloat = 0.01
    decay_norms_and_biases: bool = False
    """Apply weight decay to one-dimensional parameters too (normalisation weights and biases)."""
    groups: list[GroupSection] = Field(default_factory=list)
    layer_decay: Annotated[float, Field(gt=0.0, le=1.0)] | None = None
    """Each layer's rate is that of the layer above it times this; the last layer's is the full rate."""
    layers: Patterns | None = None
    """The layers for layer_decay from input to output; found from the parameters' names where it is left out."""

    @model_validator(mode="after")
    def _layers_are_for_layer_decay(self) -> Self:
        if self.layers is not None and self.layer_decay is None:
            raise ImpossibleError(
                "optimizer.layers has a meaning only with optimizer.layer_decay",
                {"optimizer.layer_decay": 0.9},
                {"optimizer.layers": None},
            )
        return self


class SgdSection(OptimizerBase):
    """Stochastic gradient descent with momentum."""

    name: Literal["sgd"] = "sgd"
    momentum: Probability = 0.9
    nesterov: bool = False

    @model_validator(mode="after")
    def _nesterov_needs_momentum(self) -> Self:
        if self.nesterov and self.momentum == 0.0:
            raise ImpossibleError(
                "optimizer.nesterov needs optimizer.momentum above 0",
                {"optimizer.momentum": 0.9},
                {"optimizer.nesterov": False},
            )
        return self


class AdamSection(OptimizerBase):
    """Adam; its weight decay is a penalty added to the gradient, so it is 0 unless asked for."""

    name: Literal["adam"] = "adam"
    weight_decay: NonNegativeFloat = 0.0
    betas: Betas = (0.9, 0.999)
    eps: PositiveFloat = 1e-8


class AdamwSection(OptimizerBase):
    """Adam with decoupled weight decay."""

    name: Literal["adamw"] = "adamw"
    betas: Betas = (0.9, 0.999)
    eps: PositiveFloat = 1e-8


class Adam8bitSection(OptimizerBase):
    """AdamW whose moments are held in 8 bits (needs the package bitsandbytes)."""

    name: Literal["adam8bit"] = "adam8bit"
    betas: Betas = (0.9, 0.999)
    eps: PositiveFloat = 1e-8


class LambSection(OptimizerBase):
    """Adam with a trust ratio for each tensor, for large batches."""

    name: Literal["lamb"] = "lamb"
    betas: Betas = (0.9, 0.999)
    eps: PositiveFloat = 1e-6


class LarsSection(OptimizerBase):
    """SGD whose rate is scaled for each tensor by the norms of weights and gradient."""

    name: Literal["lars"] = "lars"
    learning_rate: LearningRate = 0.3
    weight_decay: NonNegativeFloat = 1e-4
    momentum: Probability = 0.9
    nesterov: bool = False
    trust_coefficient: PositiveFloat = 1e-3


class LionSection(OptimizerBase):
    """The sign of an interpolated momentum."""

    name: Literal["lion"] = "lion"
    learning_rate: LearningRate = 1e-4
    weight_decay: NonNegativeFloat = 0.1
    betas: Betas = (0.9, 0.99)


class MuonSection(OptimizerBase):
    """Orthogonalised momentum for the hidden matrices, AdamW for everything else."""

    name: Literal["muon"] = "muon"
    momentum: Probability = 0.95
    nesterov: bool = True
    newton_schulz_steps: Annotated[int, Field(ge=1, lt=100)] = 5
    rate_adjustment: Literal["match_rms_adamw", "original"] = "match_rms_adamw"
    """How a matrix's shape scales its rate; match_rms_adamw lets both parts share one learning rate."""
    adamw_learning_rate: LearningRate | None = None
    """Rate of the AdamW part; learning_rate where it is left out."""
    adamw_patterns: Patterns | None = None
    """Matrices for AdamW; left out: embeddings and the output layer's."""
    betas: Betas = (0.9, 0.999)
    eps: PositiveFloat = 1e-8


class AdafactorSection(OptimizerBase):
    """Second moments held as rows and columns; the rate is relative to the size of the weights."""

    name: Literal["adafactor"] = "adafactor"
    learning_rate: LearningRate = 1e-2
    weight_decay: NonNegativeFloat = 0.0
    beta2_decay: Annotated[float, Field(ge=-10.0, le=0.0)] = -0.8
    clip_threshold: Annotated[float, Field(ge=1.0, le=1e9)] = 1.0
    minimum_scale: PositiveFloat = 1e-3
    """Least size (root mean square) that a tensor counts with when its rate is scaled."""


class ScheduleFreeAdamwSection(OptimizerBase):
    """AdamW whose weights are averaged on the way, in place of a decaying rate."""

    name: Literal["schedule_free_adamw"] = "schedule_free_adamw"
    learning_rate: LearningRate = 2.5e-3
    weight_decay: NonNegativeFloat = 0.0
    betas: Annotated[tuple[InnerProbability, Probability], Field(strict=False)] = (0.9, 0.999)
    eps: PositiveFloat = 1e-8


class ScheduleFreeSgdSection(OptimizerBase):
    """SGD whose weights are averaged on the way, in place of a decaying rate."""

    name: Literal["schedule_free_sgd"] = "schedule_free_sgd"
    learning_rate: LearningRate = 1.0
    weight_decay: NonNegativeFloat = 0.0
    momentum: InnerProbability = 0.9


DEFAULT_OPTIMIZER = "adamw"

OptimizerSection = Annotated[
    Annotated[AdamwSection, Tag("adamw")]
    | Annotated[SgdSection, Tag("sgd")]
    | Annotated[AdamSection, Tag("adam")]
    | Annotated[Adam8bitSection, Tag("adam8bit")]
    | Annotated[LambSection, Tag("lamb")]
    | Annotated[LarsSection, Tag("lars")]
    | Annotated[LionSection, Tag("lion")]
    | Annotated[MuonSection, Tag("muon")]
    | Annotated[AdafactorSection, Tag("adafactor")]
    | Annotated[ScheduleFreeAdamwSection, Tag("schedule_free_adamw")]
    | Annotated[ScheduleFreeSgdSection, Tag("schedule_free_sgd")],
    Discriminator(lambda value: name_of(value, DEFAULT_OPTIMIZER)),
]
"""The update rule, chosen by `name`."""


class UnfreezeSection(Section):
    """Parameters that are trained from some epoch on."""

    after_epochs: PositiveInt
    """Epochs that are over when it happens."""
    patterns: Patterns


class FreezingSection(Section):
    """Parameters that are held as they are, for good or until an epoch."""

    patterns: Patterns
    unfreeze: list[UnfreezeSection] = Field(default_factory=list)
