"""Rendering of Markdown reports: each is a Jinja template (`*.md.j2`) beside the module that gathers its values.

A template's own text is Markdown; every value in it is text, and shown as such: cut, without control characters, what
Markdown or HTML would read in it escaped. Only numbers and values of the type `Markdown` pass as they are, and any
operation on such a value returns a plain text again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainwright.trainer.base.text import one_line, several_lines

if TYPE_CHECKING:
    from jinja2 import Environment

ROOM = Path(__file__).resolve().parents[1]
"""The folder of the tools, below which the templates stand."""
LONGEST_CODE = 4000
"""Characters of a code span, or of sentences: a call that is cut is none."""
MAX_LISTED = 300
"""Values of a list that are shown."""
SPECIAL = re.compile(r"[\\`*\[\]|~]")
UNDERLINE = re.compile(r"(?<![^\W_])_|_(?![^\W_])")
"""Not between letters or digits, where it has no meaning: `train_loss` stays readable."""
ADDRESS = re.compile(r"(?<=[A-Za-z]):(?=//)|(?<=www)\.", re.IGNORECASE)
"""What GitHub's Markdown makes a link of without any brackets."""
ENTITY = re.compile(r"&(?=#?\w+;)")
BEGINNING = re.compile(r"^(\d{1,9}(?=[.)](?:\s|$))|(?=[#=>]|[-+](?:[-\s]|$)|:-))")
"""What begins a heading, a list, a quotation or a table where a value stands at the beginning of a line."""
END = re.compile(r"(?<=.)#$")
"""What a heading would leave out."""
FENCES = re.compile(r"`+")


class Markdown(str):
    """Text that is Markdown of our own making: a template shows it as it is."""

    __slots__ = ()


def render(template: str, **values: Any) -> Markdown:
    """Markdown that a template makes of the values; one that is missing leaves its place empty.

    Args:
        template: its path below `tools/`: `reports/model_card.md.j2`.
    """
    text = _environment().get_template(template).render(values)
    return Markdown(re.sub(r"\n{3,}", "\n\n", text).strip() + "\n")


def render_plain(template: str, **values: Any) -> str:
    """Text that is no Markdown, of a template and values that are shown as they are: names and literals of our own."""
    return str(_environment().overlay(finalize=str).get_template(template).render(values)) + "\n"


def as_text(value: Any) -> Markdown:
    """Markdown of any value, in one line: floats with six significant digits, nothing for None, text escaped."""
    if isinstance(value, Markdown):
        return value
    return Markdown("" if value is None else f"{value:.6g}" if isinstance(value, float) else escaped(one_line(value)))


def escaped(line: str) -> str:
    """Markdown that shows a line exactly: none of it begins a heading, a row, a link, a code span or a tag."""
    line = SPECIAL.sub(r"\\\g<0>", line)
    line = UNDERLINE.sub(r"\\_", line)
    line = ADDRESS.sub(r"\\\g<0>", ENTITY.sub("&amp;", line).replace("<", "&lt;"))
    return BEGINNING.sub(r"\1\\", END.sub(r"\\#", line))


def quoted(value: Any) -> Markdown:
    """Quotation of a text of several lines."""
    return Markdown("\n".join(f"> {escaped(line.strip())}".rstrip() for line in several_lines(value)))


def listed(values: Iterable[Any]) -> Markdown:
    """Values with commas between them, each shown as text."""
    shown = [as_text(value) for value in values]
    left_out = [f"and {len(shown) - MAX_LISTED} more"] if len(shown) > MAX_LISTED else []
    return Markdown(", ".join(shown[:MAX_LISTED] + left_out))


def whole(value: Any) -> Markdown:
    """Sentences in one line, of which none is cut: those of a comparison are longer than any other value."""
    return Markdown(escaped(one_line(value, longest=LONGEST_CODE)))


def code(value: Any) -> Markdown:
    """Code span of a value, in a fence that nothing in the value closes; also within a row of a table."""
    line = one_line(value, longest=LONGEST_CODE).replace("|", "\\|")
    if not line:
        return Markdown()
    fence = _fence(line, 1)
    pad = " " if line[0] == "`" or line[-1] == "`" else ""
    return Markdown(f"{fence}{pad}{line}{pad}{fence}")


def fenced(value: Any, language: str = "text") -> Markdown:
    """Code block of a text, in a fence that nothing in it closes."""
    text = "\n".join(several_lines(value, longest=1_000_000))
    fence = _fence(text, 3)
    return Markdown(f"{fence}{language}\n{text}\n{fence}")


def _fence(text: str, shortest: int) -> str:
    return "`" * max(shortest, *(len(run) + 1 for run in FENCES.findall(text)), 0)


@cache
def _environment() -> Environment:
    from jinja2 import ChainableUndefined, Environment, FileSystemLoader

    environment = Environment(
        loader=FileSystemLoader(ROOM),
        undefined=ChainableUndefined,
        autoescape=False,  # noqa: S701 - `finalize` escapes every value for Markdown, HTML's tags and entities included
        finalize=as_text,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    del environment.filters["safe"]
    environment.filters.update(quoted=quoted, listed=listed, code=code, fenced=fenced, whole=whole)
    return environment


# Container for a training: a Dockerfile around a list of pinned packages, and what its build may see.

OLDEST = "3.11"
PYTHON = re.compile(r"3\.\d{1,2}(\.\d{1,3})?")


@dataclass(frozen=True)
class Container:
    """What goes into an image, and how it is used.

    Attributes:
        what: one line for its head.
        usage: commands that build and run it.
        python: version of the interpreter, as recorded.
        lock: file of pinned packages in the build's folder.
        command: what the container runs by itself.
        folders: made for the user; the first is the working folder.
        wheel: pattern of a wheel beside the lock that no index has; empty: none.
        files: copied into the working folder.
    """

    what: str
    usage: tuple[str, ...]
    python: str
    lock: str
    command: tuple[str, ...]
    folders: tuple[str, ...]
    wheel: str = ""
    files: tuple[str, ...] = ()

    @property
    def copied(self) -> tuple[str, ...]:
        """What the packages are installed from."""
        return (self.lock, self.wheel) if self.wheel else (self.lock,)

    def dockerfile(self) -> str:
        """Return the Dockerfile's text; of an interpreter that was not recorded it takes the oldest allowed one."""
        found = PYTHON.match(self.python)
        values = {
            name: getattr(self, name) for name in ("what", "usage", "lock", "command", "folders", "wheel", "files")
        }
        return render_plain(
            "documents/Dockerfile.j2", **values, copied=self.copied, python=found.group() if found else OLDEST
        )

    def dockerignore(self) -> str:
        """Return the text of the ignore file: the build sees what it copies, and neither data nor `.env`."""
        return "".join(f"{line}\n" for line in ("*", *(f"!{name}" for name in (*self.copied, *self.files))))
