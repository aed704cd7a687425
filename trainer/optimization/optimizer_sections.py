"""The optimizers' options: one section each, so that an option which an optimizer does not take is an error.

The defaults are those of the papers (cited where the optimizers are built, trainer/optimization/builders). The user's
own optimizer is chosen by `use`, every other one by `name`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator

from trainwright.trainer.base.section import (
    DivisionSection,
    ImpossibleError,
    LearningRate,
    NonNegativeFloat,
    Patterns,
    PositiveFloat,
    Probability,
    Section,
    name_of,
)

Betas = Annotated[tuple[Probability, Probability], Field(strict=False)]
InnerProbability = Annotated[float, Field(gt=0.0, lt=1.0)]


class RateSection(Section):
    """The rate and the decay that hold where nothing divides the parameters."""

    learning_rate: LearningRate = 1e-3
    weight_decay: NonNegativeFloat = 0.01


class OptimizerBase(DivisionSection, RateSection):
    """What every built-in optimizer takes."""


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


class AdadeltaSection(OptimizerBase):
    """Steps scaled by the ratio of the means of past steps and gradients; its decay is added to the gradient."""

    name: Literal["adadelta"] = "adadelta"
    learning_rate: LearningRate = 1.0
    weight_decay: NonNegativeFloat = 0.0
    rho: Probability = 0.9
    eps: PositiveFloat = 1e-6


class RmspropSection(OptimizerBase):
    """Gradients divided by the root of their mean square; its decay is added to the gradient."""

    name: Literal["rmsprop"] = "rmsprop"
    weight_decay: NonNegativeFloat = 0.0
    alpha: Probability = 0.99
    """Decay of the mean square."""
    eps: PositiveFloat = 1e-8
    momentum: Probability = 0.0
    centered: bool = False


class AdagradSection(OptimizerBase):
    """Gradients divided by the root of the sum of their squares; its decay is added to the gradient."""

    name: Literal["adagrad"] = "adagrad"
    learning_rate: LearningRate = 1e-2
    weight_decay: NonNegativeFloat = 0.0
    initial_accumulator: NonNegativeFloat = 0.0
    eps: PositiveFloat = 1e-10


class LbfgsSection(OptimizerBase):
    """A quasi-Newton method that measures the same batch several times in each step."""

    name: Literal["lbfgs"] = "lbfgs"
    learning_rate: LearningRate = 1.0
    weight_decay: NonNegativeFloat = 0.0
    max_iterations: Annotated[int, Field(ge=1, le=1000)] = 20
    """Of one step, each with at least one forward and backward pass."""
    history: Annotated[int, Field(ge=1, le=1000)] = 10
    """Past updates that stand for the curvature; each takes two copies of the weights."""
    line_search: Literal["strong_wolfe"] | None = "strong_wolfe"

    @model_validator(mode="after")
    def _one_group(self) -> Self:
        if self.groups or self.layer_decay is not None or self.weight_decay:
            raise ValueError(
                "lbfgs takes all parameters as one, at one rate and without decay: take optimizer.groups, "
                "optimizer.layer_decay and optimizer.weight_decay out (null)"
            )
        return self


class OwnSection(DivisionSection):
    """The user's own: an entry that is called with the parameters and returns a torch optimizer, or several by name."""

    name: Literal["own"] = "own"
    use: Annotated[str, Field(min_length=1)]
    args: dict[str, Any] = Field(default_factory=dict)
    learning_rate: LearningRate | None = None
    """Passed on as `lr`; null: what `args` or the callable say."""
    weight_decay: NonNegativeFloat | None = None
    """Written into the parameter groups; null: what `args` or the callable say."""

    @model_validator(mode="after")
    def _an_entry_with_a_rate_to_divide(self) -> Self:
        if ":" not in self.use:
            raise ValueError(
                f'optimizer.use {self.use[:60]!r} is no entry: write "file.py:callable"; a built-in optimizer is '
                "chosen by optimizer.name"
            )
        if (self.groups or self.layer_decay is not None) and self.learning_rate is None:
            raise ValueError(
                "optimizer.groups and optimizer.layer_decay divide optimizer.learning_rate: give it, and `lr` will be "
                "in every group that the callable gets"
            )
        return self


CLOSURES = ("lbfgs",)
"""Built-in optimizers that ask for the loss again within a step."""
DEFAULT_OPTIMIZER = "adamw"


def _chosen(value: Any) -> str | None:
    """Return the form that is meant: `use` makes it the user's own, whatever name stands beside it."""
    own = isinstance(value, dict) and value.get("use") is not None
    return "own" if own else name_of(value, DEFAULT_OPTIMIZER)


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
    | Annotated[ScheduleFreeSgdSection, Tag("schedule_free_sgd")]
    | Annotated[AdadeltaSection, Tag("adadelta")]
    | Annotated[RmspropSection, Tag("rmsprop")]
    | Annotated[AdagradSection, Tag("adagrad")]
    | Annotated[LbfgsSection, Tag("lbfgs")]
    | Annotated[OwnSection, Tag("own")],
    Discriminator(_chosen),
]
"""The update rule, chosen by `name`, or by `use`."""


def rate_of(section: OptimizerBase | OwnSection) -> tuple[str, float] | None:
    """Return the dotted key that holds the peak rate, with its value; None where only the user's code knows it."""
    if section.learning_rate is not None:
        return "optimizer.learning_rate", section.learning_rate
    args = section.args if isinstance(section, OwnSection) else {}
    for name in ("lr", "learning_rate"):
        if isinstance(args.get(name), float) and args[name] > 0:
            return f"optimizer.args.{name}", args[name]
    return None
