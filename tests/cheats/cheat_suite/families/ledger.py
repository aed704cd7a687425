"""Editing the ledger itself: rows, links, the tail, the triggers, and entries of one's own."""

from __future__ import annotations

import json
import sqlite3
from functools import partial
from typing import Any

from cheat_suite.agent import Reply
from cheat_suite.case import cheat
from cheat_suite.forging import append_entry, cut_newest_decision, rewrite_copy, rewrite_entry, rewrite_intent
from cheat_suite.scene import Scene

edited = partial(cheat, by="files", expected="detected", shows=("GATE-3",))
missed = partial(cheat, by="files", expected="missed", shows=())


@cheat(by="files", at="planned", rule="(?i)append-only|ledger", expected="refused", shows=("GATE-3",))
def ledger_append_only(scene: Scene) -> None:
    """Update or delete a ledger row as it stands."""
    for statement in ("UPDATE ledger SET body = '{}'", "DELETE FROM ledger WHERE sequence > 3"):
        try:
            scene.execute(statement)
        except sqlite3.DatabaseError as error:
            scene.replies.append(Reply(True, str(error), {}))
        else:
            scene.replies.append(Reply(False, statement, {}))


@edited(at="smoked", rule="ledger entry [0-9]+ .*was changed after it was written")
def ledger_row(scene: Scene) -> None:
    """Edit a decision in the ledger, the triggers taken away for it."""
    bring_back = scene.without_triggers()
    scene.execute("UPDATE ledger SET body = replace(body, '42', '43') WHERE kind = 'config_version'")
    bring_back()


@edited(at="planned", rule="does not continue the entry before it")
def ledger_row_rehashed(scene: Scene) -> None:
    """Edit a row and recompute its digest."""
    bring_back = scene.without_triggers()
    sequence = scene.query("SELECT sequence FROM ledger WHERE kind = 'run_sealed'")[0][0]
    rewrite_entry(scene, sequence, lambda body: body | {"state": "stopped"}, onwards=False)
    bring_back()


@edited(at="planned", rule="ledger entry [0-9]+ is missing")
def ledger_row_removed(scene: Scene) -> None:
    """Remove a row from the middle."""
    bring_back = scene.without_triggers()
    scene.execute("DELETE FROM ledger WHERE kind = 'run_started'")
    bring_back()


@edited(at="based", rule="ledger entry [0-9]+ was removed")
def ledger_tail_removed(scene: Scene) -> None:
    """Cut the newest decisions off."""
    bring_back = scene.without_triggers()
    last = scene.query("SELECT max(sequence) FROM ledger")[0][0]
    scene.execute("PRAGMA foreign_keys = OFF", f"DELETE FROM ledger WHERE sequence >= {last - 1}")
    bring_back()


@edited(at="planned", rule="trigger ledger_no_(update|delete) was removed")
def ledger_triggers(scene: Scene) -> None:
    """Take the triggers away that make the ledger append-only."""
    scene.without_triggers()


@edited(at="planned", rule="trigger ledger_no_update was (changed|removed)")
def ledger_trigger_hollow(scene: Scene) -> None:
    """Replace a trigger by one of the same name that does nothing."""
    scene.execute(
        "DROP TRIGGER ledger_no_update",
        "CREATE TRIGGER ledger_no_update BEFORE UPDATE ON ledger WHEN 0 BEGIN SELECT 1; END",
    )


@edited(at="trained", rule="was sealed twice without having been resumed|summary.json was changed")
def ledger_sealed_twice(scene: Scene) -> None:
    """Edit a run and append a new seal to the ledger, with a correct digest."""
    path = scene.run("baseline") / "artifacts" / "summary.json"
    path.write_text(path.read_text().replace('"accuracy": 0', '"accuracy": 1'))
    seal = json.loads(scene.query("SELECT body FROM ledger WHERE kind = 'run_sealed' ORDER BY sequence DESC")[0][0])
    append_entry(scene, "run_sealed", seal | {"digests": seal["digests"] | {"artifacts/summary.json": "other"}})


@edited(at="smoked", rule="decision on planning|planning gate")
def ledger_own_decision(scene: Scene) -> None:
    """Append a decision of one's own, correctly chained: planning passed."""
    names = ("goal_fixed", "limits_set", "smoke_run_passed", "seeds_probed", "determinism_probed")
    checks = [
        {"id": f"planning.{name}", "status": "passed", "measured": "as required", "counts": True} for name in names
    ]
    smoke = scene.newest("smoke")
    configuration = scene.query("SELECT digest FROM config_versions")[0][0]
    rested_on = {"configuration": configuration, "version": 1, "smoke_run": smoke, "runs": [smoke], "study": None}
    body = {"phase": "planning", "outcome": "passed", "checks": checks, "rested_on": rested_on, "artifacts": {}}
    append_entry(scene, "gate", body | {"settings": "own"})


@edited(at="based", rule="planning.goal_fixed: required recorded validation accuracy >= 0.6, derived")
def ledger_rewritten(scene: Scene) -> None:
    """Lower the goal in its row and its ledger entry, and re-chain every later entry."""
    bring_back = scene.without_triggers()
    sequence = scene.query("SELECT sequence FROM ledger WHERE kind = 'project_created'")[0][0]
    rewrite_entry(scene, sequence, lambda body: body | {"goal": body["goal"] | {"target": 0.0}}, onwards=True)
    scene.execute("UPDATE projects SET goal = json_set(goal, '$.target', 0.0)")
    bring_back()


@edited(at="based", rule="baseline.within_budget: measured recorded none at all, derived .*made by version 0.0.1")
def ledger_other_version(scene: Scene) -> None:
    """Flatter a decision in ledger and JSONL copy, and say that another version of the program made it."""

    def flatter(body: dict[str, Any]) -> dict[str, Any]:
        next(one for one in body["checks"] if one["id"] == "baseline.within_budget")["measured"] = "none at all"
        return body | {"circumstances": body["circumstances"] | {"version": "0.0.1"}}

    bring_back = scene.without_triggers()
    query = "SELECT sequence FROM ledger WHERE kind = 'gate' AND body LIKE '%baseline.within_budget%'"
    ((sequence,),) = scene.query(query)
    rewrite_entry(scene, sequence, flatter, onwards=True)
    bring_back()
    rewrite_copy(scene)


@edited(at="based", rule="ledger.jsonl: line 1 tells ledger entry 1 otherwise than the database")
def ledger_rewritten_whole(scene: Scene) -> None:
    """Rewrite what no verdict depends on (what the project was for), and re-chain every later entry."""
    rewrite_intent(scene)


@missed(at="based", rule="intent|ledger")
def ledger_and_copy_rewritten(scene: Scene) -> None:
    """Do the same, and write the JSONL copy beside the project again from it, the ledger being unsigned."""
    rewrite_intent(scene)
    rewrite_copy(scene)


@edited(at="based", rule="holds no entry .* with which it once ended")
def noted_ledger_rewritten(scene: Scene) -> None:
    """Rewrite the ledger and its JSONL copy, someone having noted elsewhere how the ledger ended."""
    scene.note_head()
    rewrite_intent(scene)
    rewrite_copy(scene)


@edited(at="based", rule="ledger.jsonl: line")
def copy_edited(scene: Scene) -> None:
    """Edit the ledger's JSONL copy."""
    scene.copy.write_text(scene.copy.read_text().replace("passed", "Passed", 1))


@edited(at="based", rule="ledger.jsonl|JSONL copy")
def copy_cut(scene: Scene) -> None:
    """Cut the end off the JSONL copy."""
    lines = scene.copy.read_text().splitlines(keepends=True)
    scene.copy.write_text("".join(lines[:-2]))


@edited(at="based", rule="ledger.jsonl|JSONL copy")
def copy_removed(scene: Scene) -> None:
    """Remove the JSONL copy."""
    scene.copy.unlink()


@edited(at="based", rule="ledger.jsonl|JSONL copy")
def copy_link(scene: Scene) -> None:
    """Put a link to another file in the JSONL copy's place."""
    other = scene.world.folder / "elsewhere.jsonl"
    scene.copy.rename(other)
    other.write_text(other.read_text().replace("passed", "Passed", 1))
    scene.copy.symlink_to(other)


@missed(at="based", rule="entry|ledger|removed")
def both_ends_cut(scene: Scene) -> None:
    """Cut the newest decision off the ledger, its row and its JSONL copy alike, the ledger being unsigned."""
    cut_newest_decision(scene)


@edited(at="based", rule="holds no entry .* with which it once ended")
def noted_both_ends_cut(scene: Scene) -> None:
    """Cut the newest decision off ledger, row and JSONL copy, someone having noted elsewhere how the ledger ended."""
    scene.note_head()
    cut_newest_decision(scene)
