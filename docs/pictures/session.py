"""A terminal that shows the demonstration: scenes of a real transcript, shortened, never reworded.

A transcript is what `trainwright demo` prints where its output is no terminal: `# ` what the agent thinks, `-> ` a
call, `<- ` a line of the answer; a long line goes on after three spaces. A scene that it lacks is an error.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator

from svg import MONO, Drawing

# The call, by its beginning, and the lines of its answer, by theirs. Scenes follow each other as in the transcript.
SCENES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("create_project(", ("Project ", "Next:")),
    ("start_training(", ("REFUSED", "- planning.smoke_run_passed", "Remedy:")),
    ("pass_gate(", ("REFUSED", "- planning.smoke_run_passed")),
    ("advance(", ("Project ", "- planning passed", "- digits/baseline", "- baseline passed", "Next:")),
    ("start_tuning(", ("Study ",)),
    ("tuning_status(", ("confirmation:",)),
    ("verify_reproducibility(", ("result:",)),
    ("export_model(", ("result:",)),
    ("pass_gate(", ("Goal ",)),
)
WIDE, MAX_LINES = 106, 2
CELL, ROW, SIZE, EDGE, BAR = 7.85, 18.5, 13, 20, 38
COLOURS = {
    "# ": "#8b98a9",
    "-> ": "#5cc8e4",
    "<- ": "#8fd18b",
    "REFUSED": "#ff8a80",
    "Next": "#f0c674",
    "= ": "#ffffff",
}


def draw(transcript: str) -> str:
    """Return the picture as SVG. Raises ValueError naming a scene that the transcript does not hold."""
    rows = [row for line in scenes(transcript) for row in _rows(line)]
    height = round(BAR + ROW * len(rows) + EDGE)
    drawing = Drawing(
        round(WIDE * CELL + 2 * EDGE),
        height,
        title="A session with Trainwright",
        description="Scenes of a real demonstration: an agent is refused twice, then passes from gate to gate.",
    )
    drawing.box(0, 0, round(WIDE * CELL + 2 * EDGE), height, fill="#1b222c", rx=10)
    for place, colour in enumerate(("#ff5f57", "#febc2e", "#28c840")):
        drawing.circle(EDGE + 3 + 18 * place, 19, 5.5, fill=colour)
    drawing.text(EDGE + 70, 24, "trainwright demo", size=13, font=MONO, fill="#8b98a9")
    for place, (row, colour) in enumerate(rows):
        if row.strip():
            start = len(row) - len(row.lstrip())
            x, y = EDGE + start * CELL, BAR + ROW * (place + 1) - 4
            drawing.text(x, y, row.strip(), size=SIZE, font=MONO, fill=colour, length=(len(row) - start) * CELL)
    return drawing.render()


def scenes(transcript: str) -> list[str]:
    """Return the lines to show: of each scene thought, call and chosen lines of the answer, `…` for calls left out."""
    exchanges = list(_exchanges(_logical_lines(transcript)))
    shown: list[str] = []
    place = 0
    for call, answers in SCENES:
        found = next((at for at in range(place, len(exchanges)) if _is(exchanges[at], call, answers)), None)
        if found is None:
            raise ValueError(f"the transcript has no call {call}…) answered with {', '.join(answers)}")
        if shown and found > place:
            shown.append("   …")
        shown += [line for line in exchanges[found] if _is_shown(line, answers)]
        place = found + 1
    last = [line for line in _logical_lines(transcript) if line.startswith("Test accuracy")]
    return [*shown, *(f"= {line}" for line in last)]


def _logical_lines(transcript: str) -> list[str]:
    """Return the transcript's lines with those that were broken, at a space or a hyphen, put together again."""
    whole = re.sub(r"(?<=\w-)\n {3}(?=\w)", "", transcript)
    return re.sub(r"\n {3}(?=\S)", " ", whole).splitlines()


def _exchanges(lines: Iterable[str]) -> Iterator[list[str]]:
    """Yield each call with the thoughts before it and the lines of its answer."""
    exchange: list[str] = []
    for line in lines:
        if line.startswith(("# ", "-> ")) and any(earlier.startswith("<- ") for earlier in exchange):
            yield exchange
            exchange = []
        if line.startswith(("# ", "-> ", "<- ")):
            exchange.append(line)
    yield exchange


def _is(exchange: list[str], call: str, answers: tuple[str, ...]) -> bool:
    return any(line.startswith(f"-> {call}") for line in exchange) and all(
        any(line.startswith(f"<- {answer}") for line in exchange) for answer in answers
    )


def _is_shown(line: str, answers: tuple[str, ...]) -> bool:
    return line.startswith(("# ", "-> ", *(f"<- {answer}" for answer in answers)))


def _rows(line: str) -> list[tuple[str, str]]:
    """Return a line's rows on the screen with their colour; what is cut off ends with `…`."""
    mark = next((mark for mark in COLOURS if line.startswith(mark)), "# ")
    words = line.removeprefix("<- ")
    colour, most = COLOURS[mark], MAX_LINES
    if words.startswith("REFUSED") or ": measured " in words:
        colour, most = COLOURS["REFUSED"], 1
    elif words.startswith(("Next:", "Remedy:")):
        colour, most = COLOURS["Next"], 1
    rows = textwrap.wrap(line.removeprefix("= "), WIDE, subsequent_indent="   ", max_lines=most, placeholder=" …")
    before = [("", colour)] if mark in {"# ", "= "} and line.startswith(mark) else []
    return before + [(row, colour) for row in rows]
