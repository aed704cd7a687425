"""The tables in docs/security.md: every cheat with its outcome, and the two numbers of those that made one up."""

from __future__ import annotations

from pathlib import Path

from cheat_suite.case import Case, Outcome
from cheat_suite.judging import Verdict

DOCUMENT = Path(__file__).parents[3] / "docs" / "security.md"
BEGIN, END = "<!-- cheats: written by `make cheats` -->", "<!-- end of cheats -->"
NUMBERS, END_NUMBERS = "<!-- numbers: written by `make cheats` -->", "<!-- end of numbers -->"
TRUTHS, END_TRUTHS = "<!-- heads: written by `make cheats` -->", "<!-- end of heads -->"
HEADS = "heads"
"""The family whose cases end in a card."""
MAX_TOLD = 200
ATTACKERS = {"tools": "an agent's tools", "files": "files", "code": "the user's code"}


def table(outcomes: list[tuple[Case, Outcome, Outcome]]) -> str:
    """Return the table: every cheat, by family, with its outcome for someone with a shell, and inside the wall.

    With tools alone nobody edits files, and what tools or the user's code do comes out as with a shell.
    """
    lines = [
        "| what was tried | with | tools alone | a shell | a shell inside the wall |",
        "| --- | --- | --- | --- | --- |",
    ]
    family = ""
    for case, outcome, inside in sorted(outcomes, key=lambda one: one[0].family):
        if case.family != family:
            family = case.family
            lines.append(f"| **{family.replace('_', ' ')}** | | | | |")
        shown, walled = (one if one != "missed" else "**missed**" for one in (outcome, inside))
        alone = "cannot be tried" if case.attacker == "files" else shown
        lines.append(f"| {case.title} | {ATTACKERS[case.attacker]} | {alone} | {shown} | {walled} |")
    return "\n".join(lines)


def count(outcomes: list[tuple[Case, Outcome]]) -> dict[str, int]:
    """Return how many cases there are, how many were refused and detected, and how many missed by each attacker."""
    found = [outcome for _, outcome in outcomes]
    missed = [case.attacker for case, outcome in outcomes if outcome == "missed"]
    each: dict[str, int] = {name: found.count(name) for name in ("refused", "detected")}
    by = {"missed_tools": "tools", "missed_code": "code", "missed_shell": "files"}
    return {"cases": len(found), **each, **{name: missed.count(attacker) for name, attacker in by.items()}}


def count_heads(played: list[tuple[Case, Verdict]]) -> dict[str, int]:
    """Return how many cases make a number at a card's head, and of how many the head states nothing false."""
    heads = [verdict.head_is_true for case, verdict in played if case.family == HEADS]
    return {"heads": len(heads), "head_true": sum(heads), "head_false": len(heads) - sum(heads)}


def truths(played: list[tuple[Case, Verdict]]) -> str:
    """Return the table of heads: what the card says of the test rows, and what is true of its program on fresh ones."""
    lines = ["| what was done | the head says | true on fresh rows | and |", "| --- | --- | --- | --- |"]
    for case, verdict in played:
        if case.family != HEADS:
            continue
        truth, told = verdict.truth, verdict.told.removeprefix("- ").replace("|", "/")[:MAX_TOLD]
        said = "{:.3f} ({:.3g} to {:.3g})".format(*truth[:3]) if truth else "no card"
        true = f"{truth.true:.3f}" if truth else "–"
        lines.append(f"| {case.title} | {said} | {true} | {'it holds' if truth and truth.holds else told} |")
    return "\n".join(lines)


def read() -> str:
    """Return the table that the document holds."""
    text = DOCUMENT.read_text(encoding="utf-8")
    return text.partition(BEGIN)[2].partition(END)[0].strip()


def numbers(played: list[tuple[Case, Verdict]]) -> str:
    """Return the table of numbers: what the training process reported and what the clean room computed, by cheat."""
    lines = ["| what was tried | metric | reported by the training process | certified |", "| --- | --- | --- | --- |"]
    for case, verdict in played:
        if verdict.numbers is not None:
            metric, reported, certified = verdict.numbers
            lines.append(f"| {case.title} | {metric} | {reported:.4g} | {certified:.4g} |")
    return "\n".join(lines)


def write(played: list[tuple[Case, Verdict]], inside: dict[str, Verdict]) -> None:
    """Put the tables into the document.

    Args:
        played: every case with a shell.
        inside: those that the wall stands against, by their ids.
    """
    text = DOCUMENT.read_text(encoding="utf-8")
    lines = [(case, verdict.outcome, inside.get(case.id, verdict).outcome) for case, verdict in played]
    text = _between(text, BEGIN, END, table(lines))
    text = _between(text, NUMBERS, END_NUMBERS, numbers(played))
    DOCUMENT.write_text(_between(text, TRUTHS, END_TRUTHS, truths(played)), encoding="utf-8")


def _between(text: str, begin: str, end: str, new: str) -> str:
    before, _, rest = text.partition(begin)
    return f"{before}{begin}\n\n{new}\n\n{end}{rest.partition(end)[2]}"
