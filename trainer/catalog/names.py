"""Names that a configuration may give: built-in parts, and models that other libraries publish.

Each table is the registry of its parts. And the check of a part's arguments against its section, as if they were keys.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import InitErrorDetails

from trainwright.trainer.base.errors import near
from trainwright.trainer.base.section import Section
from trainwright.trainer.data.sections import DIFFICULTIES
from trainwright.trainer.data.sources import SOURCES
from trainwright.trainer.losses import LOSSES
from trainwright.trainer.metrics import BUILT_IN as METRICS
from trainwright.trainer.metrics import near_metrics
from trainwright.trainer.models import MODELS

TIMM = re.compile(
    r"(resnet|resnext|wide_resnet|vit|deit|swin|convnext|efficientnet|mobilenet|densenet|regnet|vgg|beit|mixer|maxvit)"
    r"[a-z_]*\d?[\w.]*",
    re.IGNORECASE,
)
HUB = re.compile(
    r"[\w.-]+/[\w.-]+|(bert|distilbert|roberta|gpt2|t5|albert|deberta|electra|opt|llama|qwen)[\w.-]*", re.I
)
FILES = {ending: name for name, source in SOURCES.items() for ending in source.endings}
"""Ending of a file to the built-in source that reads it."""
COMPRESSED = re.compile(r"\.(?:gz|bz2|xz|zst|zip)$", re.IGNORECASE)


def from_library(key: str, name: str) -> dict[str, Any]:
    """Return the dotted changes that take a model of this name from its library, or a file as data; {} for others."""
    if key in {"model", "model.use"} and TIMM.fullmatch(name) and any(sign.isdigit() or sign == "_" for sign in name):
        return {"model.use": "timm", "model.args": None, "model.args.model": name}
    if key in {"model", "model.use"} and HUB.fullmatch(name):
        return {"model.use": "transformers", "model.args": None, "model.args.hub": name}
    source = FILES.get(COMPRESSED.sub("", name).rpartition(".")[2].lower())
    if key in {"data", "data.use"} and source is not None and "." in name:
        return {"data.use": source, "data.args.path": name}
    return {}


class NoArgs(Section):
    """A part that takes nothing."""


BUILT_IN: dict[str, dict[str, type[Section]]] = {
    "model.use": dict(MODELS),
    "data.use": dict(SOURCES),
    "loss": dict(LOSSES),
    "curriculum.use": dict.fromkeys(DIFFICULTIES, NoArgs),
    "metrics": dict.fromkeys(METRICS, NoArgs),
}
"""Key to its names, each with the section that its `args` must fit."""


class UnknownNameError(ValueError):
    """A bare name that is not built in."""

    def __init__(self, message: str, *, key: str, name: str, near: str | None) -> None:
        super().__init__(message)
        self.key = key
        self.name = name
        self.near = near


def require_known(key: str, given: Any, place: str | None = None) -> None:
    """Check a name, or a section with the name as `use`, against the built-in names of the key.

    `place` is its key, if not `key` itself.

    Raises:
        UnknownNameError: a bare name that is not built in; says which is near.
    """
    name = given if isinstance(given, str) else given.use
    known = BUILT_IN[key]
    if ":" in name or name in known:
        return
    meant = near_metrics(name, known) if key == "metrics" else near(name, known)
    hint = f"did you mean `{meant[0]}`?" if meant else f"built in: {', '.join(known)}."
    raise UnknownNameError(
        f'`{place or key}` = {name[:60]!r} is no built-in name; {hint} Your own is written "module:callable" or '
        '"path/file.py:callable"',
        key=place or key,
        name=name,
        near=meant[0] if meant else None,
    )


def arguments_of(key: str, name: str, args: dict[str, Any]) -> type[Section] | None:
    """Return the section that the arguments of a built-in part must fit; None for an entry, which takes its own."""
    if key == "data.use" and name in SOURCES:
        return SOURCES[name].form_of(args)
    return BUILT_IN[key].get(name)


Given = TypeVar("Given")


def with_arguments(key: str) -> Callable[[Given], Given]:
    """Return a validator of entries under `key`; it reports problems under `args`, as if these were fields."""

    def check(given: Given) -> Given:
        if not isinstance(given, str):
            require_arguments(key, given)
        return given

    return check


def require_arguments(key: str, entry: Any) -> None:
    """Check `entry.args` of the built-in part `entry.use`.

    Raises:
        ValidationError: located under `args`.
    """
    section = arguments_of(key, entry.use, entry.args)
    if section is None:
        return
    try:
        section.model_validate(entry.args)
    except ValidationError as error:
        problems = [
            InitErrorDetails(
                type=problem["type"],
                loc=("args", *problem["loc"]),
                input=problem["input"],
                ctx=problem.get("ctx", {}),
            )
            for problem in error.errors(include_url=False)
        ]
        raise ValidationError.from_exception_data(section.__name__, problems) from None
