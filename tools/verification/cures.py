"""Every ended trial of fixes, derived again from its sealed runs and compared with the ledger."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from trainwright.tools.gates.cures import CONTROL, ENDED, runs_of_cure
from trainwright.tools.ledger.seals import changed_files
from trainwright.tools.training_monitor import Goal, diagnostics_digests
from trainwright.tools.training_monitor.pairs import Pair
from trainwright.tools.verification.findings import Case, Found, derived_again
from trainwright.tools.workspace.tables import LedgerEntry
from trainwright.trainer.base.canonical import canonical_json


def verify_cures(case: Case) -> Found:
    """Evaluate the pairs of every ended trial again."""
    begun = {body.get("cure_id"): body for _, body in case.of("cure") if body.get("fixes")}
    ended = [(entry, body) for entry, body in case.of("cure") if body.get("state") == ENDED]
    return derived_again(ended, "trial of fixes", partial(_differences, case, begun))


def _differences(
    case: Case, all_begun: dict[Any, dict[str, Any]], entry: LedgerEntry, ended: dict[str, Any]
) -> list[str]:
    begun = all_begun[ended["cure_id"]]
    project = str(entry.project)
    facts = case.project(project)
    runs = runs_of_cure(facts, begun["cure_id"])
    seals = {run: facts.seals[run].digests for run in runs.values()}
    directories = {fix: case.workspace.run_directory(project, run) for fix, run in runs.items()}
    if any(changed_files(directories[fix], seals[run], case.inspection) for fix, run in runs.items()):
        return []  # named with the run, whose record of then is gone
    goal = Goal.model_validate(case.goal_before(entry))
    pair = Pair(directories[CONTROL], begun["alert"], goal)
    fixes = {fix["id"]: fix for fix in begun["fixes"]}
    by = "" if ended["documents"] == diagnostics_digests() else " (the diagnostic documents have changed since)"
    found = []
    for recorded in ended["outcomes"]:
        fix, directory = fixes[recorded["fix"]], directories.get(recorded["fix"])
        if pair.shown is not None and directory is None:  # a value that does not go with the others: no run was made
            derived = {**recorded, "cured": None, "run": ""}
        else:
            outcome = pair.outcome(directory, fix) if pair.shown and directory else pair.not_shown(fix, begun["steps"])
            derived = outcome.model_dump(mode="json")
        if json.loads(canonical_json(derived)) != recorded:
            found.append(f"{recorded['fix']} cured: recorded {recorded}, derived {derived}{by}")
    return found
