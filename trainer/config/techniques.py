"""Techniques: adapters, averaging, curriculum, mixing, and what trades memory and speed."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator

from trainwright.trainer.config.section import (
    Fraction,
    NonNegativeInt,
    Patterns,
    PositiveFloat,
    PositiveInt,
    Probability,
    Section,
    name_of,
)


class AdapterSection(Section):
    """Low-rank adaptation (Hu et al. 2021): the model's weights stay, a product of two thin matrices is learned."""

    name: Literal["lora"] = "lora"
    rank: Annotated[int, Field(ge=1, le=2**14)] = 8
    alpha: PositiveFloat = 16.0
    """The learned product is scaled by alpha / rank."""
    dropout: Probability = 0.0
    """Of the adapters' inputs."""
    targets: Patterns | None = None
    """Modules to adapt: every linear layer but the output's where it is left out."""
    train_also: Patterns | None = None
    """Parameters that are trained as a whole; a classifier's new output layer where it is left out."""


class EmaSection(Section):
    """An exponential moving average, updated after each optimizer step."""

    name: Literal["ema"] = "ema"
    decay: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.999
    """Share of the average that each step keeps."""
    decay_warmup: bool = True
    """Begin with (1 + updates) / (10 + updates), until that reaches decay, so that the first weights are forgotten."""


class SwaSection(Section):
    """The plain mean of the weights at the end of each of the last epochs."""

    name: Literal["swa"] = "swa"
    after_fraction: Probability = 0.75
    """Share of the epochs that are over when averaging begins."""
    after_epochs: NonNegativeInt | None = None
    """Epochs that are over when averaging begins; replaces after_fraction."""
    learning_rate_factor: PositiveFloat = 0.5
    """Constant rate from then on, as a share of the peak."""
    anneal_epochs: NonNegativeInt = 1
    """Epochs in which the rate goes over to it."""

    def start(self, epochs: int) -> int:
        """Return the epochs that are over when averaging begins; the last one is always averaged."""
        wanted = self.after_epochs if self.after_epochs is not None else math.ceil(self.after_fraction * epochs)
        return min(wanted, epochs - 1)


DEFAULT_AVERAGING = "ema"

WeightAveragingSection = Annotated[
    Annotated[EmaSection, Tag("ema")] | Annotated[SwaSection, Tag("swa")],
    Discriminator(lambda value: name_of(value, DEFAULT_AVERAGING)),
]
"""The average, chosen by `name`."""


class PacedSection(Section):
    """Something that is over after a share of the epochs."""

    full_after_fraction: Annotated[float, Field(gt=0.0, le=1.0)] = 0.5
    """Share of the epochs after which training is as it would be without."""
    full_after_epochs: PositiveInt | None = None
    """The same as a number of epochs; replaces full_after_fraction."""

    def full_after(self, epochs: int) -> int:
        """Return the epochs that it lasts, at least 1."""
        return self.full_after_epochs or max(math.ceil(self.full_after_fraction * epochs), 1)


class CurriculumSection(PacedSection):
    """Train samples by difficulty: epochs draw from the easiest ones, then from more and more of them."""

    use: Annotated[str, Field(min_length=1)]
    """Difficulty: centroid, length, or an entry that is called with a sample and returns a number."""
    args: dict[str, Any] = Field(default_factory=dict)
    """Of the entry, by name."""
    pacing: Literal["linear", "root", "step"] = "root"
    """How the share of samples grows with the epochs."""
    initial_fraction: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.3
    """Share of the samples in the first epoch."""
    stages: Annotated[int, Field(ge=2, le=1_000_000)] = 4
    """Of pacing step: equal steps up to all samples."""
    hardest_first: bool = False

    def fraction(self, epoch: int, epochs: int) -> float:
        """Return the share of the samples that the epoch (from 0) draws from."""
        progress = min(epoch / self.full_after(epochs), 1.0)
        first = self.initial_fraction
        if self.pacing == "root":  # the competence of Platanios et al. 2019, arXiv:1903.09848
            return math.sqrt(first**2 + (1.0 - first**2) * progress)
        if self.pacing == "step":
            progress = math.floor(progress * self.stages) / self.stages
        return first + (1.0 - first) * progress


class ProgressiveResizingSection(PacedSection):
    """Train on small images first; validation is on the images as they are."""

    full_after_fraction: Annotated[float, Field(gt=0.0, le=1.0)] = 0.75
    sizes: Annotated[list[Annotated[int, Field(ge=1, le=2**14)]], Field(min_length=1)]
    """Height and width of the images, each for an equal part of the epochs before they are whole."""

    @model_validator(mode="after")
    def _growing(self) -> Self:
        if sorted(set(self.sizes)) != self.sizes:
            raise ValueError(f"progressive_resizing.sizes must grow, got {self.sizes}")
        return self

    def size(self, epoch: int, epochs: int) -> int | None:
        """Return the size of the images in an epoch (from 0); None: as they are."""
        place = epoch * len(self.sizes) // self.full_after(epochs)
        return self.sizes[place] if place < len(self.sizes) else None


class MixingBase(Section):
    """What every way of mixing takes."""

    probability: Annotated[float, Field(gt=0.0, le=1.0)] = 1.0
    """Share of the batches that are mixed."""


class MixupSection(MixingBase):
    """A weighted mean of two samples and of their targets."""

    name: Literal["mixup"] = "mixup"
    alpha: PositiveFloat = 0.2
    """The weight is drawn from Beta(alpha, alpha): small values keep samples nearly as they are."""


class CutmixSection(MixingBase):
    """A rectangle of another image, the targets by its share of the area."""

    name: Literal["cutmix"] = "cutmix"
    alpha: PositiveFloat = 1.0
    """The share of the area that stays is drawn from Beta(alpha, alpha)."""


class MixupCutmixSection(MixingBase):
    """One of both for each batch."""

    name: Literal["mixup_cutmix"] = "mixup_cutmix"
    mixup_alpha: PositiveFloat = 0.2
    cutmix_alpha: PositiveFloat = 1.0
    cutmix_share: Fraction = 0.5
    """Share of the mixed batches that get a rectangle."""


DEFAULT_MIXING = "mixup"

MixingSection = Annotated[
    Annotated[MixupSection, Tag("mixup")]
    | Annotated[CutmixSection, Tag("cutmix")]
    | Annotated[MixupCutmixSection, Tag("mixup_cutmix")],
    Discriminator(lambda value: name_of(value, DEFAULT_MIXING)),
]
"""The way of mixing, chosen by `name`."""

HARD_TARGETS = ("focal", "dice", "dice_cross_entropy", "next_token")
"""Losses that take class numbers only."""
MIXED_OBJECTIVES = ("supervised", "distillation", "adversarial")
OF_NUMBERS = ("mse", "mae", "huber")


Precision = Literal["fp32", "tf32", "bf16", "fp16"]


class GradientCheckpointingSection(Section):
    """Forget activations and compute them again in the backward pass: less memory, the same gradients."""

    modules: Patterns | None = None
    """Patterns of module names (`layers.*`); None: the model's own gradient_checkpointing_enable."""


class CompileSection(Section):
    """torch.compile of the model."""

    mode: Literal["default", "reduce-overhead", "max-autotune"] = "default"
    dynamic: bool = False
    """One kernel for every size of batch, instead of one for each."""
