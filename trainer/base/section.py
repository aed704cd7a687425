"""Sections: what every part of the configuration is made of; parameters, their rates and decays."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Self, Union

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, model_validator

Probability = Annotated[float, Field(ge=0.0, lt=1.0)]
Fraction = Annotated[float, Field(ge=0.0, le=1.0)]
NonNegativeFloat = Annotated[float, Field(ge=0.0, le=1e9)]
PositiveFloat = Annotated[float, Field(gt=0.0, le=1e9)]
LearningRate = Annotated[float, Field(gt=0.0, le=1000.0)]
"""Before any schedule; of the field's optimizers none is used above 100."""
NonNegativeInt = Annotated[int, Field(ge=0, le=2**40)]
PositiveInt = Annotated[int, Field(ge=1, le=2**40)]
Width = Annotated[int, Field(ge=1, le=2**20)]
"""Values side by side: of a layer, a batch, a vocabulary."""
Seed = Annotated[int, Field(ge=0, lt=2**32)]
Patterns = Annotated[list[Annotated[str, Field(min_length=1)]], Field(min_length=1)]
"""Shell patterns over parameter names (`encoder.*`, `*.bias`); `re:` before one makes it a regular expression."""


class Section(BaseModel):
    """A part of the configuration: frozen, and closed to keys it does not know."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class ImpossibleError(ValueError):
    """Keys that cannot be together, with the changes that would each mend it, by dotted key from the top."""

    def __init__(self, message: str, *ways: dict[str, Any]) -> None:
        super().__init__(message)
        self.ways = ways


class Entry(Section):
    """A built-in name, or an entry `module:callable` / `path/file.py:callable`, with its arguments."""

    use: str = Field(min_length=1)
    args: dict[str, Any] = Field(default_factory=dict)


def name_of(value: Any, default: str) -> str | None:
    """Return the `name` by which a section of several forms is chosen; `default` where it is left out."""
    name = value.get("name", default) if isinstance(value, dict) else getattr(value, "name", None)
    return name if isinstance(name, str) else None


def form_of(section: type[Section]) -> str:
    """Return the `name` by which a form is chosen."""
    return str(section.model_fields["name"].default)


def union_of(forms: Iterable[type[Section]], default: str) -> Any:
    """Return the union of a registry's forms, each chosen by its `name`; left out, it is `default`."""
    tagged = tuple(Annotated[form, Tag(form_of(form))] for form in forms)
    return Annotated[Union[tagged], Discriminator(lambda value: name_of(value, default))]  # noqa: UP007


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


class DivisionSection(Section):
    """How the parameters are divided among rates and decays."""

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


class UnfreezeSection(Section):
    """Parameters that are trained from some epoch on."""

    after_epochs: PositiveInt
    """Epochs that are over when it happens."""
    patterns: Patterns


class FreezingSection(Section):
    """Parameters that are held as they are, for good or until an epoch."""

    patterns: Patterns
    unfreeze: list[UnfreezeSection] = Field(default_factory=list)
