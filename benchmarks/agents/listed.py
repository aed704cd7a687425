"""All tasks, and their layout in a folder."""

from __future__ import annotations

import json
from pathlib import Path

from counting import databases, entries
from fields import (
    bearings,
    boxes,
    captions,
    commands,
    mixtures,
    molecules,
    paper,
    pumps,
    reviews_accelerate,
    shop,
    takeover,
    topics,
    weather_lit,
)
from task import Task

TASKS: dict[str, Task] = {
    each.TASK.name: each.TASK
    for each in (
        boxes, topics, pumps, bearings, molecules, shop, weather_lit, reviews_accelerate, commands, mixtures, takeover,
        paper, captions,
    )
}  # fmt: skip
LAID_OUT = "laid_out.json"
"""Says how many entries each task's ledger had before a player came."""


def lay_out(out: Path, tasks: list[Task]) -> None:
    """Lay tasks out below a folder: NAME/work, and the sentence in NAME/TASK.md. Raises FileExistsError.

    Args:
        out: the folder, which may hold other tasks.
        tasks: to be laid out; one that is there already is never overwritten.
    """
    out.mkdir(parents=True, exist_ok=True)
    before = entries_before(out)
    for task in tasks:
        folder = out / task.name
        work = folder / "work"
        work.mkdir(parents=True)
        task.lay_out(work)
        (folder / "TASK.md").write_text(f"{task.sentence}\n\nTime box: {task.minutes} minutes.\n", encoding="utf-8")
        if task.prepare is not None:
            task.prepare(work)
        before[task.name] = sum(len(entries(path)) for path in databases(folder))
    (out / LAID_OUT).write_text(json.dumps(before, indent=1) + "\n", encoding="utf-8")


def entries_before(out: Path) -> dict[str, int]:
    """Return how many entries each task's ledger had when it was laid out."""
    path = out / LAID_OUT
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else {}
