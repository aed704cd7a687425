"""Forging the ledger as well as it can be done without its key: correctly chained, in database and JSONL copy alike."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.worlds.flowers import NAME

from trainwright.tools.ledger.jsonl_mirror import copy_forward
from trainwright.trainer.base.canonical import canonical_json, digest_json

if TYPE_CHECKING:
    from cheat_suite.scene import Scene

COLUMNS = ("sequence", "time", "project", "kind", "body", "previous")


def append_entry(scene: Scene, kind: str, body: dict[str, Any], *, project: str = NAME) -> int:
    """Add a correctly chained entry and return its sequence."""
    sequence, previous = scene.query("SELECT sequence, digest FROM ledger ORDER BY sequence DESC LIMIT 1")[0]
    row = (sequence + 1, "2026-11-21T00:00:00.000000+00:00", project, kind, canonical_json(body), previous)
    scene.insert("ledger", dict(zip((*COLUMNS, "digest"), (*row, digest_json(list(row))), strict=True)))
    return int(sequence) + 1


def rewrite_entry(scene: Scene, sequence: int, change: Any, *, onwards: bool) -> None:
    """Change an entry's body and recompute its digest; with `onwards` those of all later entries too."""
    previous = None
    for row in scene.query(f"SELECT {', '.join(COLUMNS)} FROM ledger WHERE sequence >= {sequence} ORDER BY sequence"):
        number, time, project, kind, body, before = row
        if number == sequence:
            body = canonical_json(change(json.loads(body)))
        elif not onwards:
            return
        previous = previous or before
        digest = digest_json([number, time, project, kind, body, previous])
        scene.update_ledger(number, body=body, previous=previous, digest=digest)
        previous = digest


def rewrite_intent(scene: Scene) -> None:
    """Change what the project was for, which no verdict depends on, in its row and its entry; re-chain all entries."""
    bring_back = scene.without_triggers()
    sequence = scene.query("SELECT sequence FROM ledger WHERE kind = 'project_created'")[0][0]
    rewrite_entry(scene, sequence, lambda body: body | {"intent": "something easier"}, onwards=True)
    scene.execute("UPDATE projects SET intent = 'something easier'")
    bring_back()


def rewrite_copy(scene: Scene) -> None:
    """Write the JSONL copy beside the project anew, as the database tells it."""
    scene.copy.unlink()
    with scene.workspace() as workspace:
        copy_forward(workspace, NAME)


def cut_newest_decision(scene: Scene) -> None:
    """Take the newest decision of a gate, which is the ledger's last entry, out of ledger and JSONL copy."""
    bring_back = scene.without_triggers()
    last = scene.query("SELECT max(sequence) FROM ledger WHERE kind = 'gate'")[0][0]
    scene.execute(f"DELETE FROM ledger WHERE sequence = {last}")
    lines = scene.copy.read_text().splitlines(keepends=True)
    scene.copy.write_text("".join(lines[:-1]))
    bring_back()
