"""Check of a built-in part's arguments against its section, as if they were keys of the schema."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import InitErrorDetails

from trainwright.trainer.catalog.names import arguments_of

Given = TypeVar("Given")


def with_arguments(key: str) -> Callable[[Given], Given]:
    """Return a validator of entries under `key`: what it finds stands under `args`, as if these were fields."""

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
