"""Index by topic at the head of decisions.md: `make decisions` writes it, and a test of the house compares it.

An entry says its topic in the anchor on the line before it, and nowhere else:

    <a id="gates.changed-check"></a>
    **A changed check is one whose status differs from the gate's last decision.** The server keeps ...
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

PAGE = Path(__file__).with_name("decisions.md")
HEADING = "## By topic"
TOPICS = {
    "gates": "Phases, gates and how a project ends",
    "answers": "Answers, refusals and the next call",
    "configuration": "Configurations",
    "data": "Data and splits",
    "engine": "Engine, objectives, optimizers",
    "code": "Users' code",
    "resume": "Checkpoints and exact resume",
    "processes": "Several processes for one run",
    "runs": "Runs and workers",
    "reproducibility": "Reproducibility and staleness",
    "search": "Searches and significance",
    "test-set": "Test-set access",
    "diagnosis": "Diagnosis",
    "ledger": "Ledger, verification, signatures",
    "security": "Secrets",
    "owner": "The owner and the limits",
    "integrations": "Integrations of a released model",
    "skills": "Skills and agents",
    "costs": "Costs and rented machines",
    "examples": "Example projects",
    "house": "Tests, documents, packaging",
}
ENTRY = re.compile(r'^(?:<a id="(?P<id>[^"]*)"></a>\n)?\*\*(?P<title>.+?)\*\*', flags=re.MULTILINE | re.DOTALL)


def indexed(text: str) -> str:
    """Return the page with its index written anew, and a blank line before each entry.

    Raises ValueError naming an entry without an anchor, with an unknown topic, or with an anchor that is taken.
    """
    first_day = re.search(r"^## \d{4}-", text, flags=re.MULTILINE)
    if first_day is None:
        raise ValueError("decisions.md has no dated heading")
    introduction = text[: first_day.start()].split(HEADING, maxsplit=1)[0]
    days = ENTRY.sub(lambda entry: f"\n\n{entry[0]}", text[first_day.start() :])
    days = re.sub(r"\n{3,}", "\n\n", days)
    return f"{introduction.rstrip()}\n\n{HEADING}\n\n{_index(_entries(days))}\n{days}"


def _entries(days: str) -> dict[str, str]:
    """Return the titles of the entries by their anchors, in the page's order."""
    titles: dict[str, str] = {}
    for entry in ENTRY.finditer(days):
        anchor, title = entry["id"] or "", " ".join(entry["title"].split()).rstrip(".")
        if anchor.partition(".")[0] not in TOPICS or anchor in titles:
            raise ValueError(
                f"the entry '{title}' needs an anchor of its own on the line before it, not {anchor!r}: "
                f'<a id="TOPIC.some-words"></a>, with one of the topics {", ".join(TOPICS)}'
            )
        titles[anchor] = title
    return titles


def _index(titles: dict[str, str]) -> str:
    lines = []
    for topic, name in TOPICS.items():
        lines += [f"**{name}**", ""]
        lines += [f"- [{title}](#{anchor})" for anchor, title in titles.items() if anchor.partition(".")[0] == topic]
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    try:
        PAGE.write_text(indexed(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    except ValueError as error:
        sys.exit(f"docs/decisions.md: {error}")
