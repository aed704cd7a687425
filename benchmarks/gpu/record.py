"""The record of the lane: docs/gpu.md, a section for each card and date, the newest first."""

from __future__ import annotations

from typing import Any

from lane import CHECKS, ROOT

PAGE = ROOT / "docs" / "gpu.md"
BEGIN, END = "<!-- checks -->\n", "\n<!-- end of checks -->"
"""Around the table of the checks."""
MARK = "<!-- results: newest first -->\n"


def refresh() -> None:
    """Write the table of the checks anew."""
    text = PAGE.read_text(encoding="utf-8")
    head, rest = text.partition(BEGIN)[0], text.partition(END)[2]
    PAGE.write_text(head + BEGIN + rows() + END + rest, encoding="utf-8")


def add(found: dict[str, Any]) -> None:
    """Put a result into the page, in the place of one of the same card, date and commit.

    Raises:
        SystemExit: it is a rehearsal's, which says nothing of a card.
    """
    if found["card"] is None:
        raise SystemExit("This result is of no card: a rehearsal is not recorded.")
    text = PAGE.read_text(encoding="utf-8")
    head, _, sections = text.partition(MARK)
    title = f"## {found['card']}, {found['date']}, {found['commit']}"
    kept = [part for part in ("\n" + sections).split("\n## ")[1:] if f"## {part.splitlines()[0]}" != title]
    sections = [section(title, found), *(part.rstrip() for part in kept)]
    PAGE.write_text(head + MARK + "\n" + "\n## ".join(sections) + "\n", encoding="utf-8")


def rows() -> str:
    """Return the table of the checks in Markdown."""
    lines = ["| check | what it shows | without a card |", "| --- | --- | --- |"]
    for check in CHECKS.values():
        needs = f"; needs {', '.join(check.needs)}" if check.needs else ""
        lines.append(f"| `{check.name}` | {check.row}{needs} | {check.only_on_card or 'rehearsed'} |")
    return "\n".join(lines)


def section(title: str, found: dict[str, Any]) -> str:
    """Return the section in Markdown: what the card is, and a row for each check."""
    counts = ", ".join(f"{found[state]} {state.replace('_', ' ')}" for state in ("passed", "failed", "not_run"))
    lines = [
        title, "", f"Driver {found['driver']}, torch {found['torch']}, CUDA {found['cuda']}; {counts} of "
        f"{found['checks']} in {found['seconds']:.0f} s.", "", "| check | what it shows | result | figures |",
        "| --- | --- | --- | --- |",
    ]  # fmt: skip
    for name, one in found["results"].items():
        row = CHECKS[name].row if name in CHECKS else one["row"]
        said = one.get("said", "").strip().splitlines()
        figures = "; ".join(f"{key} {value}" for key, value in one.get("figures", {}).items())
        last = said[-1].replace("|", "\\|")[:200] if said else ""
        lines.append(
            f"| {name} | {row} | {one['status'].replace('_', ' ')} | {'; '.join(filter(None, [last, figures]))} |"
        )
    return "\n".join(lines)
