"""Bundle of the page: one HTML file with its styles and scripts inside, and the policy that lets only these run."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent / "page"
STYLES = ("uPlot.min.css", "page.css")
SHARED = ("uPlot.iife.min.js", "elements.js", "charts.js", "run.js")
SCRIPTS = (*SHARED, "pages.js", "main.js")
"""In this order: a later one uses the earlier ones."""
APP_SCRIPTS = (*SHARED, "app.js")
BLANKS = re.compile(r"\s*([{};,])\s*|(?<=[a-z]): ")
"""Blanks in a style that mean nothing: those around signs, and behind a property's name."""
OPEN_LINE = re.compile(r"([{(\[,;])\n")
"""End of a line that needs none."""
SIGN = re.compile(r" (=>|===|!==|&&|\|\||\?\??|:|>=|<=|\*) ")
"""Signs that stand in no text of the page."""
DECLARED = re.compile(r"\b((?:const|let) \w+|this\.\w+) = ")
BRANCH = re.compile(r"\b(if|for|while) \((?=[\w!\[(])")


class Bundle(NamedTuple):
    """The page, and its content security policy."""

    html: str
    policy: str


@cache
def bundle() -> Bundle:
    """Return the page as it is served."""
    style, script = _style(), _joined(SCRIPTS)
    html = _filled("page.html", style, script)
    policy = (
        f"default-src 'none'; script-src {_source(script)}; style-src {_source(style)}; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return Bundle(html, policy)


@cache
def app_html() -> str:
    """Return the view of one run as a host of MCP Apps shows it: the same parts, fed by the host's messages."""
    return _filled("app.html", _style(), _joined(APP_SCRIPTS))


def _filled(name: str, style: str, script: str) -> str:
    html = (FOLDER / name).read_text(encoding="utf-8")
    return html.replace("/* styles */", style).replace("/* scripts */", script)


def _style() -> str:
    return BLANKS.sub(lambda found: found[1] or ":", _joined(STYLES))


def _joined(names: tuple[str, ...]) -> str:
    return "\n".join(map(_read, names))


def _read(name: str) -> str:
    """Return a file as it is sent: ours without indents, lines of comment and the blanks around some signs."""
    text = (FOLDER / name).read_text(encoding="utf-8")
    if name.startswith("uPlot"):
        return text
    lines = [line.strip() for line in text.splitlines()]
    text = OPEN_LINE.sub(r"\1", "\n".join(line for line in lines if line and not line.startswith("// ")))
    return BRANCH.sub(r"\1(", DECLARED.sub(r"\1=", SIGN.sub(r"\1", text))).replace(") {", "){")


def _source(text: str) -> str:
    """Return how a policy names an inline style or script: by the digest of its text."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
