"""The table of what was played, in the terminal and in docs/environments.md: the latest play of each row."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from playing import Played
from rows import ROWS, Row

DOCUMENT = Path(__file__).parents[2] / "docs" / "environments.md"
BEGIN, END = "<!-- begin: played -->", "<!-- end: played -->"
COLUMNS = (
    "environment", "Python", "packages", "released", "resumed to the bit", "seconds", "overlay", "packages added",
    "files touched", "date",
)  # fmt: skip
HEAD = f"| {' | '.join(COLUMNS)} |\n|{' --- |' * len(COLUMNS)}"


def line(row: Row, played: Played) -> str:
    """Return a row of the table."""
    cells = (
        row.name, row.python, str(played.figures.get("packages", "")), _yes(played.is_released), _yes(played.bit_equal),
        str(played.figures.get("seconds", "")), f"{played.overlay_mb:.0f} MB", str(len(played.added)),
        str(played.figures.get("touched", "")), f"{datetime.now(UTC):%Y-%m-%d}",
    )  # fmt: skip
    return f"| {' | '.join(cells)} |"


def record(found: dict[str, Played], document: Path = DOCUMENT) -> None:
    """Put the lines of what was played into the document's table, in the order of the rows."""
    before, _, rest = document.read_text(encoding="utf-8").partition(BEGIN)
    table, _, after = rest.partition(END)
    lines = {text.split("|")[1].strip(): text for text in table.strip().splitlines()[2:]}
    lines |= {row.name: line(row, found[row.name]) for row in ROWS if row.name in found}
    kept = [lines[row.name] for row in ROWS if row.name in lines]
    document.write_text("\n".join([f"{before}{BEGIN}", HEAD, *kept, f"{END}{after}"]), encoding="utf-8")


def _yes(value: bool) -> str:
    return "yes" if value else "no"
