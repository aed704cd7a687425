"""The database's rows, an index of the ledger, compared with those that a replay of the ledger gives."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

from sqlalchemy import select, text

import trainwright
from trainwright.tools.ledger.rows import removed, title
from trainwright.tools.verification.findings import Case, Finding, Found, found
from trainwright.tools.workspace.tables import ConfigVersion
from trainwright.trainer.base.errors import TrainwrightError
from trainwright.trainer.config import config_digests, flatten, parse_config

if TYPE_CHECKING:
    from typing import Any

    from trainwright.tools.workspace.tables import Base

TRIGGERS = {
    f"ledger_no_{action.lower()}": f"CREATE TRIGGER ledger_no_{action.lower()} BEFORE {action} ON ledger "
    "BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END"
    for action in ("DELETE", "UPDATE")
}
"""The triggers of the migrations, word for word."""
CLOCKS_DIFFER = timedelta(minutes=1)


def verify_rows(table: type[Base], case: Case) -> Found:
    """Compare every column of every row of a table, and name the rows that are missing."""
    rows = list(case.session.scalars(select(table)))
    problems = [difference for row in rows for difference in case.rows.differences(row)]
    return len(rows), found("database", problems + removed(case.rows.of(table), rows))


def verify_times(case: Case) -> Found:
    """Name the entries that are dated before the one that they follow, by more than clocks are set right by."""
    times = [(entry, datetime.fromisoformat(entry.time)) for entry in case.entries]
    back = [
        f"ledger entry {entry.sequence} is dated {entry.time}, before entry {other.sequence} ({other.time}), which it "
        "follows: the clock was set back"
        for (other, before), (entry, time) in pairwise(times)
        if before - time > CLOCKS_DIFFER
    ]
    return len(times), [Finding(where="ledger", what=what, counts=False) for what in back]


def verify_configurations(case: Case) -> Found:
    """Compare every configuration version, its digest computed again."""
    count, findings = verify_rows(ConfigVersion, case)
    findings = [finding.model_copy(update={"where": "configuration"}) for finding in findings]
    for row in case.session.scalars(select(ConfigVersion)):
        if case.rows.differences(row) or row.digest in _digests_of(row.values):
            continue
        what = f"{title(row)} does not have its recorded digest"
        if _is_of_other_version(case, row.project):
            what = f"{what} in this version's schema"
            findings.append(Finding(where="version", what=what, counts=False))
        else:
            findings.append(Finding(where="configuration", what=what))
    return count, findings


def _is_of_other_version(case: Case, project: str) -> bool:
    """Whether another version made the project's decisions, and all of its runs trained its recorded versions."""
    made_by = {
        body.get("circumstances", {}).get("version") for entry, body in case.of("gate") if entry.project == project
    }
    if not made_by - {trainwright.__version__}:
        return False
    facts = case.project(project)
    values = {version.digest: flatten(version.values) for version in facts.configurations.values()}
    for run_id, start in facts.started.items():
        wanted = values.get(start.config_digest)
        path = case.workspace.run_directory(project, run_id).path / "run.json"
        trained = flatten(json.loads(path.read_bytes())["config"]) if path.is_file() else {}
        if wanted and any(trained.get(key, value) != value for key, value in wanted.items() if key in trained):
            return False
    return True


def verify_triggers(case: Case) -> Found:
    """Check that the database still refuses to change the ledger; a trigger of the right name may refuse nothing."""
    query = text("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
    present = {name: " ".join(str(sql).split()) for name, sql in case.session.execute(query)}
    problems = [f"the database's trigger {name} was removed" for name in TRIGGERS if name not in present]
    problems += [f"the database's trigger {name} was changed" for name in TRIGGERS.keys() & present.keys()
                 if present[name] != TRIGGERS[name]]  # fmt: skip
    problems += [f"the database's trigger {name} was added" for name in sorted(present.keys() - TRIGGERS.keys())]
    return len(TRIGGERS), found("database", problems)


def _digests_of(values: dict[str, Any]) -> set[str]:
    try:
        return config_digests(parse_config(values))
    except TrainwrightError:
        return set()
