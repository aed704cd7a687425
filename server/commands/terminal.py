"""Printing for people: colours and bars on a terminal, plain lines anywhere else."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from trainwright.trainer.base.text import one_line, visible_lines

if TYPE_CHECKING:
    from rich.console import Console

BAR_CHARACTERS = 24
BETWEEN_SECONDS = 0.1
"""Between two states of a progress line."""
COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}


class Terminal:
    """Writes to stdout; styles are dropped when nobody looks at a terminal."""

    def __init__(self) -> None:
        self.is_terminal = sys.stdout.isatty()
        self._console: Console | None = None
        self._shown_at = 0.0
        if self.is_terminal:
            from rich.console import Console

            self._console = Console(highlight=False, soft_wrap=True)

    def line(self, text: str = "", style: str = "") -> None:
        """Write one line; codes in it, which could repaint the terminal, are left out."""
        text = visible_lines(text)
        if self._console is not None:
            self._console.print(text, style=style or None, markup=False)
        else:
            sys.stdout.write(f"{text}\n")
            sys.stdout.flush()

    def progress(self, what: str = "", done: int = 0, total: int = 0) -> None:
        """Show how far something is in one line on stderr, where a person looks; without a total, take it away."""
        if not sys.stderr.isatty() or (done and time.monotonic() - self._shown_at < BETWEEN_SECONDS):
            return
        self._shown_at = time.monotonic()
        sys.stderr.write(f"\r{bar(done, total)} {one_line(what)}\033[K" if total else "\r\033[K")
        sys.stderr.flush()

    def marked(self, mark: str, text: str) -> None:
        """Write a line after a mark that is ok, warn or fail."""
        if self._console is not None:
            from rich.text import Text

            self._console.print(Text.assemble((f"{mark:4}", COLOURS[mark]), f"  {visible_lines(text)}"))
        else:
            self.line(f"{mark:4}  {text}")


def bar(done: float, total: float | None) -> str:
    """Return a progress bar with its percentage; of unknown length without a total."""
    if not total:
        return f"[{'.' * BAR_CHARACTERS}]    "
    share = min(1.0, max(0.0, done / total))
    full = round(share * BAR_CHARACTERS)
    return f"[{'#' * full}{'.' * (BAR_CHARACTERS - full)}] {share:4.0%}"
