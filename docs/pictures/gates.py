"""Five gates, and who decides: the picture at the head of README. Checks are counted in the checklists."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from svg import MONO, Drawing

PHASES = Path(__file__).parents[2] / "skills" / "ml-trainer" / "phases"
INK, SOFT, LINE = "#1f2933", "#52606d", "#9aa5b1"
GREEN, BLUE, AMBER, GREY = "#0f7b4f", "#1d5fa8", "#9a5b00", "#52606d"
RESULT = "Behind the fifth: final_model/ with weights, ONNX, test metrics, model card"
WIDTH, HEIGHT, MARGIN = 900, 448, 16
CARD, GAP, TOP, TALL = 154, 24.5, 54, 176


@dataclass(frozen=True)
class Phase:
    """A phase: what is done in it, and what its gate asks for, in lines that fit its card."""

    name: str
    work: tuple[str, str]
    asks: tuple[str, str, str, str]


FIVE = (
    Phase(
        "planning",
        ("a smoke run of the", "real model and data"),
        ("seeds, determinism", "no shared samples", "code and packages", "are recorded"),
    ),
    Phase(
        "baseline",
        ("one whole run of", "what was planned"),
        ("same data and code", "finite losses", "checkpoints match", "their digests"),
    ),
    Phase(
        "diagnostics",
        ("the curves are read,", "problems fixed"),
        ("curves and gradients", "no critical alert", "verdict is deploy", "or optimize"),
    ),
    Phase(
        "optimization",
        ("a search, repeated", "on fresh seeds"),
        ("gain on 3+ seeds:", "above the noise, its", "interval above zero,", "or goal met already"),
    ),
    Phase(
        "finalization",
        ("final run, replay,", "export, test"),
        ("replay: same bits", "ONNX: same outputs", "test set evaluated", "by the server"),
    ),
)


@dataclass(frozen=True)
class Part:
    """One who takes part: place in the lower half, colour, what it does."""

    title: str
    lines: tuple[str, ...]
    colour: str
    x: float
    y: float
    width: float = 226
    height: float = 84


AGENT = Part("Agent proposes", ("model, data, configuration,", "what to try next"), BLUE, MARGIN, 256)
OWNER = Part(
    "Owner grants", ("limits, code folders, exemptions,", "at a terminal or in settings.yaml"), AMBER, MARGIN, 348
)
SERVER = Part(
    "Server decides",
    (
        "computes every check from",
        "evidence that it measured;",
        "a refusal names the measured",
        "and the required value, and",
        "the call to make next.",
        "Nothing an agent says",
        "is evidence.",
    ),
    GREEN,
    342,
    256,
    216,
    176,
)
WORKER = Part("Worker trains", ("a detached process with the", "user's code; outlives the server"), GREY, 658, 256)
LEDGER = Part("Ledger records", ("every decision, hash-chained;", "verify derives each one again"), GREY, 658, 348)


def draw() -> str:
    """Return the picture as SVG."""
    drawing = Drawing(
        WIDTH,
        HEIGHT,
        title="Five gates, and who decides",
        description="A project moves through planning, baseline, diagnostics, optimization and finalization. The agent "
        "proposes, a detached worker trains, the owner grants, and the server opens a gate when evidence that it "
        "measured meets every check.",
    )
    drawing.box(0.5, 0.5, WIDTH - 1, HEIGHT - 1, fill="#ffffff", stroke="#cbd2d9", rx=12)
    drawing.text(MARGIN, 34, "Five phases, each behind a gate", size=17, fill=INK, bold=True)
    drawing.text(WIDTH - MARGIN, 33, RESULT, size=12, fill=SOFT, anchor="end")
    for number, phase in enumerate(FIVE, start=1):
        _phase(drawing, number, phase)
    for part in (AGENT, OWNER, SERVER, WORKER, LEDGER):
        _part(drawing, part)
    _arrows(drawing)
    return drawing.render()


def _phase(drawing: Drawing, number: int, phase: Phase) -> None:
    x = MARGIN + (number - 1) * (CARD + GAP)
    drawing.box(x, TOP, CARD, TALL, fill="#f5f7fa", stroke="#cbd2d9")
    drawing.text(x + 10, TOP + 22, f"{number} {phase.name}", size=14, fill=INK, bold=True)
    for place, words in enumerate(phase.work):
        drawing.text(x + 10, TOP + 42 + 16 * place, words, size=12, fill=SOFT)
    drawing.line((x + 10, TOP + 70), (x + CARD - 10, TOP + 70), stroke=GREEN)
    drawing.text(x + 10, TOP + 89, f"gate: {_checks(phase.name)} checks", size=12, fill=GREEN, bold=True)
    for place, words in enumerate(phase.asks):
        drawing.text(x + 10, TOP + 109 + 17 * place, words, size=12, fill=INK)
    if number < len(FIVE):
        drawing.arrow((x + CARD + 3, TOP + 93), (x + CARD + GAP - 2, TOP + 93), stroke=GREEN)


def _checks(phase: str) -> int:
    text = next(PHASES.glob(f"*_{phase}/checklist.md")).read_text(encoding="utf-8")
    return len(re.findall(r"^  - id: ", text, flags=re.MULTILINE))


def _part(drawing: Drawing, part: Part) -> None:
    drawing.box(part.x, part.y, part.width, part.height, fill="#ffffff", stroke=part.colour)
    drawing.text(part.x + 12, part.y + 25, part.title, size=14, fill=part.colour, bold=True)
    for place, words in enumerate(part.lines):
        drawing.text(part.x + 12, part.y + 47 + 18 * place, words, size=12.5, fill=INK)


def _arrows(drawing: Drawing) -> None:
    """Draw who speaks to whom, with what is said above each arrow."""
    left, right = AGENT.x + AGENT.width + 5, SERVER.x - 5
    _arrow(drawing, (left, 284), (right, 284), "tool call", BLUE)
    _arrow(drawing, (right, 320), (left, 320), "answer, next", GREEN)
    _arrow(drawing, (left, 390), (right, 390), "grants", AMBER)
    left, right = SERVER.x + SERVER.width + 5, WORKER.x - 5
    _arrow(drawing, (left, 284), (right, 284), "starts", GREEN)
    _arrow(drawing, (right, 320), (left, 320), "evidence", GREY)
    _arrow(drawing, (left, 390), (right, 390), "decision", GREEN)


def _arrow(drawing: Drawing, start: tuple[float, float], end: tuple[float, float], words: str, colour: str) -> None:
    drawing.arrow(start, end, stroke=colour)
    middle = (start[0] + end[0]) / 2
    drawing.text(middle, start[1] - 7, words, size=11.5, fill=SOFT, font=MONO, anchor="middle")
