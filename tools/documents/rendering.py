"""Rendering of Markdown reports: each is a Jinja template (`*.md.j2`) beside the module that gathers its values."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Environment

ROOM = Path(__file__).resolve().parents[1]
"""The folder of the tools, below which the templates stand."""


def render(template: str, **values: Any) -> str:
    """Return the report that a template makes of the values; one that is missing leaves its place empty.

    No value opens a section, a row or a cell of its own: each goes through `cell`, unless the template says
    `| safe` of what was rendered before, or `| quoted`.

    Args:
        template: its path below `tools/`: `reports/model_card.md.j2`.
    """
    text = _environment().get_template(template).render(values)
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def cell(value: Any) -> str:
    """Return a value as one line without bars: floats with six significant digits, nothing for None."""
    text = "" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)
    return " ".join(text.replace("|", "\\|").split())


@cache
def _environment() -> Environment:
    from jinja2 import ChainableUndefined, Environment, FileSystemLoader
    from markupsafe import Markup

    def quoted(text: str) -> Markup:
        return Markup("\n".join(f"> {line}".rstrip() for line in text.splitlines()))  # noqa: S704 - quoted by line

    environment = Environment(
        loader=FileSystemLoader(ROOM),
        undefined=ChainableUndefined,
        autoescape=True,  # marks what templates themselves make, so that `finalize` sees the values alone
        finalize=lambda value: value if isinstance(value, Markup) else Markup(cell(value)),  # noqa: S704 - by `cell`
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["quoted"] = quoted
    return environment
