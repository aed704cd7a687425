"""Learning features without labels: the options of the contrastive objective."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from trainwright.trainer.config.section import (
    Fraction,
    NonNegativeFloat,
    PositiveFloat,
    Probability,
    Section,
    Width,
)


class AugmentationSection(Section):
    """How a view of a sample is drawn. Keys of images are refused for flat inputs, `swap` for images."""

    noise: NonNegativeFloat = 0.05
    """Standard deviation of what is added to every value, in units of the inputs."""
    swap: Probability | None = None
    """Flat inputs: share of the values taken from another sample of the batch (left out: 0.3)."""
    crop: Annotated[float, Field(gt=0.0, le=1.0)] | None = None
    """Images: least share of the side length that a view shows (left out: 0.7)."""
    flip: Fraction = 0.0
    """Images: how often they are mirrored left to right; 0.5 for photographs."""
    rotate_degrees: Annotated[float, Field(ge=0.0, le=180.0)] = 0.0
    """Images: largest turn to either side."""
    jitter: Probability | None = None
    """Images: largest relative change of contrast and brightness (left out: 0.2)."""


class ContrastiveSection(Section):
    """Learn features without labels: two views of a sample are to be alike (NT-Xent; Chen et al. 2020, SimCLR)."""

    name: Literal["contrastive"] = "contrastive"
    temperature: PositiveFloat = 0.5
    augmentation: AugmentationSection = Field(default_factory=AugmentationSection)
    projection: Annotated[list[Width], Field(min_length=1)] = Field(default_factory=lambda: [64, 32])
    """Widths of the head between features and loss; it is trained with the model and not part of it."""
    features: Annotated[str, Field(min_length=1)] | None = None
    """Module whose output are the features; left out: the model's output."""
    outputs: Width = 64
    """Width of a built-in model's output."""
    linear_probe: bool = True
    """Measure linear_probe_accuracy on validation, where there are labels."""
    probe_samples: Annotated[int, Field(ge=10, le=2**40)] = 10_000
    """The most training samples that the probe is fitted on."""
    input: Annotated[str, Field(min_length=1)] | None = None
    """Key of the input that is augmented, in batches that are mappings."""
