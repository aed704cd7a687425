"""Sections: the base class of every part of the configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, Union

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, field_validator

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

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False, defer_build=True)


class ImpossibleError(ValueError):
    """Keys that cannot be together, with alternative changes that would each fix it, by dotted key from the top."""

    def __init__(self, message: str, *ways: dict[str, Any]) -> None:
        super().__init__(message)
        self.ways = ways


class Entry(Section):
    """A built-in name, or an entry `module:callable` / `path/file.py:callable`, with its arguments."""

    use: str = Field(min_length=1)
    args: dict[str, Any] = Field(default_factory=dict)


class EpisodesEntry(Entry):
    """A function `path/file.py:callable` of (program, seed) that plays one episode; the metric is the mean of many."""

    episodes: Annotated[int, Field(ge=2, le=100_000)]

    @field_validator("use")
    @classmethod
    def _is_in_a_file(cls, use: str) -> str:
        if ".py:" not in use:
            raise ValueError("episodes are played by a function of (program, seed) in a file: 'game.py:score'")
        return use


def _form_of_metric(value: Any) -> str:
    if isinstance(value, str):
        return "str"
    names = value if isinstance(value, dict) else type(value).model_fields if isinstance(value, Entry) else ()
    return "EpisodesEntry" if "episodes" in names else "Entry"


AnyMetric = Annotated[
    Annotated[str, Tag("str")] | Annotated[Entry, Tag("Entry")] | Annotated[EpisodesEntry, Tag("EpisodesEntry")],
    Discriminator(_form_of_metric),
]
"""A metric of a configuration: a name, an entry of (outputs, targets), or one of episodes."""


def name_of(value: Any, default: str) -> str | None:
    """Return the `name` by which a section of several forms is chosen; `default` where it is left out."""
    name = value.get("name", default) if isinstance(value, dict) else getattr(value, "name", None)
    return name if isinstance(name, str) else None


def form_of(section: type[Section]) -> str:
    """Return the `name` by which a form is chosen."""
    return str(section.model_fields["name"].default)


def union_of(forms: Iterable[type[Section]], chosen: str | Callable[[Any], str | None]) -> Any:
    """Return the union of a registry's forms, each chosen by its `name`.

    Args:
        forms: in the order in which an error lists their names.
        chosen: the default name, or a function that reads the name from the values.
    """
    tagged = tuple(Annotated[form, Tag(form_of(form))] for form in forms)
    read = chosen if callable(chosen) else lambda value: name_of(value, chosen)
    return Annotated[Union[tagged], Discriminator(read)]  # noqa: UP007


def episode_entries(metrics: Sequence[Any]) -> list[EpisodesEntry]:
    """Return those of a configuration's metrics that play episodes."""
    return [one for one in metrics if isinstance(one, EpisodesEntry)]
