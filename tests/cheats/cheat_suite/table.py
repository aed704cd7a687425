"""The table of cheats in docs/security.md."""

from __future__ import annotations

from pathlib import Path

from cheat_suite.case import Case, Outcome

DOCUMENT = Path(__file__).parents[3] / "docs" / "security.md"
BEGIN, END = "<!-- cheats: written by `make cheats` -->", "<!-- end of cheats -->"
ATTACKERS = {"tools": "an agent's tools", "files": "files", "code": "the user's code"}


def table(outcomes: list[tuple[Case, Outcome]]) -> str:
    """Return the table: every cheat with its outcome, by family."""
    lines = ["| what was tried | with | outcome |", "| --- | --- | --- |"]
    family = ""
    for case, outcome in sorted(outcomes, key=lambda one: one[0].family):
        if case.family != family:
            family = case.family
            lines.append(f"| **{family.replace('_', ' ')}** | | |")
        shown = outcome if outcome != "missed" else "**missed**"
        lines.append(f"| {case.title} | {ATTACKERS[case.attacker]} | {shown} |")
    return "\n".join(lines)


def count(outcomes: list[tuple[Case, Outcome]]) -> dict[str, int]:
    """Return how many cases there are, and how many came to each outcome."""
    found = [outcome for _, outcome in outcomes]
    each: dict[str, int] = {name: found.count(name) for name in ("refused", "detected", "missed")}
    return {"cases": len(found), **each}


def read() -> str:
    """Return the table that the document holds."""
    text = DOCUMENT.read_text(encoding="utf-8")
    return text.partition(BEGIN)[2].partition(END)[0].strip()


def write(outcomes: list[tuple[Case, Outcome]]) -> None:
    """Put the table into the document."""
    before, _, rest = DOCUMENT.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    DOCUMENT.write_text(f"{before}{BEGIN}\n\n{table(outcomes)}\n\n{END}{after}", encoding="utf-8")
