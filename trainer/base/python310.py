"""Names of the standard library that a worker uses and Python 3.10 lacks; added there alone, before anything else.

The server needs Python 3.11 or newer; a worker runs in the project's environment, which may be older by one release.
So the names are added where they would be, and no module that uses one knows of it. What a final model ships runs
without this package: its modules use none of these names.
"""

from __future__ import annotations

import datetime as dt
import enum
import hashlib
import typing
from collections.abc import Callable
from typing import Any, BinaryIO

CHUNK_BYTES = 1 << 18


class StrEnum(str, enum.Enum):  # noqa: UP042 - it is what is missing
    """Members are strings, and print as their values."""

    __str__ = str.__str__
    __format__ = str.__format__  # type: ignore[assignment]

    @staticmethod
    def _generate_next_value_(name: str, start: int, count: int, last_values: list[Any]) -> str:  # noqa: ARG004
        return name.lower()


def file_digest(file: BinaryIO, digest: str | Callable[[], Any], /) -> Any:
    """Return the hash of what is left of a file that is open for reading."""
    found = hashlib.new(digest) if isinstance(digest, str) else digest()
    while chunk := file.read(CHUNK_BYTES):
        found.update(chunk)
    return found


def add() -> None:
    """Add what is missing.

    Raises:
        ImportError: there is no typing_extensions, which an overlay brings where the environment has none.
    """
    for module, name, value in (
        (dt, "UTC", dt.timezone.utc),  # noqa: UP017 - it is what is missing
        (enum, "StrEnum", StrEnum),
        (hashlib, "file_digest", file_digest),
    ):
        if not hasattr(module, name):
            setattr(module, name, value)
    if not hasattr(typing, "Self"):
        import typing_extensions

        typing.Self = typing_extensions.Self
