"""Skips of what the installed release of a library does not have, with the sentence that names it."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import pytest

from trainwright.trainer.base.releases import Newer, is_older


def lacks(newer: Newer) -> bool:
    """Return whether the installed release is older."""
    return is_older(version(newer.package), newer.least)


def needs(newer: Newer) -> pytest.MarkDecorator:
    """Return the mark of a test that needs the release."""
    return pytest.mark.skipif(lacks(newer), reason=_reason(newer))


def param(value: Any, newer: Newer | None) -> Any:
    """Return a parameter of tests, skipped where the release is older."""
    return pytest.param(value, id=str(value), marks=needs(newer) if newer is not None else ())


def _reason(newer: Newer) -> str:
    return f"{newer.package} {newer.least} has it; {version(newer.package)} is installed"
