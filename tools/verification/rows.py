"""The database's rows, an index of the ledger, compared with those that a replay of the ledger gives."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

from sqlalchemy import select, text

from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.results import first_result
from trainwright.tools.ledger.events import GoalChanged
from trainwright.tools.ledger.jsonl_mirror import NAME, line_of, pending_from, plain_path, read_line
from trainwright.tools.ledger.rows import removed, title
from trainwright.tools.verification.findings import Case, Finding, Found, found
from trainwright.tools.workspace.tables import Base, ConfigVersion, LedgerEntry
from trainwright.trainer.base.canonical import digest_json
from trainwright.trainer.base.errors import TrainwrightError
from trainwright.trainer.config import config_digest, parse_config
from trainwright.trainer.config.goal import is_raised

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
        if not case.rows.differences(row) and row.digest != _digest_of(row.values):
            findings.append(Finding(where="configuration", what=f"{title(row)} does not have its recorded digest"))
    return count, findings


def verify_triggers(case: Case) -> Found:
    """Check that the database still refuses to change the ledger; a trigger of the right name may refuse nothing."""
    query = text("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
    present = {name: " ".join(str(sql).split()) for name, sql in case.session.execute(query)}
    problems = [f"the database's trigger {name} was removed" for name in TRIGGERS if name not in present]
    problems += [f"the database's trigger {name} was changed" for name in TRIGGERS.keys() & present.keys()
                 if present[name] != TRIGGERS[name]]  # fmt: skip
    problems += [f"the database's trigger {name} was added" for name in sorted(present.keys() - TRIGGERS.keys())]
    return len(TRIGGERS), found("database", problems)


def _digest_of(values: dict[str, Any]) -> str | None:
    try:
        return config_digest(parse_config(values))
    except TrainwrightError:
        return None


# The JSONL mirror of each project, compared line by line with the database's ledger, each way.

MAX_NAMED = 5


def verify_copies(case: Case) -> Found:
    """Compare every `ledger.jsonl` with the entries of its project."""
    entries: dict[str | None, dict[int, LedgerEntry]] = {}
    for entry in case.entries:
        entries.setdefault(entry.project, {})[entry.sequence] = entry
    projects = {path.parent.name for path in (case.workspace.path / "projects").glob(f"*/{NAME}")}
    count, findings = 0, []
    for project in sorted(entries.keys() | projects, key=str):
        lines, found = _compare(plain_path(case.workspace, project), entries.get(project, {}), case)
        count += lines
        findings += found
    return count, findings


def _compare(path: Path, entries: dict[int, LedgerEntry], case: Case) -> tuple[int, list[Finding]]:
    name = str(path.relative_to(case.workspace.path))
    if not path.is_file() or path.is_symlink():
        return 0, [Finding(where="JSONL", what=f"{name} was removed")]
    seen: set[int] = set()
    findings, number, last = [], 0, 0
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            sequence, finding = _line(line, entries, f"{name}: line {number}")
            findings += [finding] if finding else []
            if sequence and sequence <= last:
                findings.append(Finding(where="JSONL", what=f"{name}: line {number} stands out of order"))
            last = sequence or last
            seen.add(sequence)
    missing = sorted(entries.keys() - seen)
    if missing:
        named = ", ".join(map(str, missing[:MAX_NAMED])) + (" …" if len(missing) > MAX_NAMED else "")
        pending = pending_from(path.parent)
        by_crash = missing[0] > last and pending is not None and missing[0] >= pending
        why = "a crash left it out, and a server that starts adds it" if by_crash else "it was removed"
        findings.append(Finding(where="JSONL", what=f"{name} lacks ledger entry {named}: {why}", counts=not by_crash))
    return number, findings


def _line(line: bytes, entries: dict[int, LedgerEntry], what: str) -> tuple[int, Finding | None]:
    """Return the sequence of a line (0 when it cannot be read), and its problem, if any."""
    found = read_line(line)
    if found is None:
        return 0, Finding(where="JSONL", what=f"{what} is not a ledger entry")
    sequence = int(found["entry"][0])
    entry = entries.get(sequence)
    if entry is not None and line == line_of(entry):
        return sequence, None
    if digest_json(found["entry"]) != found["digest"]:
        text = f"{what} (ledger entry {sequence}) was changed after it was written"
    elif entry is not None:
        text = f"{what} tells ledger entry {sequence} otherwise than the database"
    else:
        text = f"ledger entry {sequence} was removed from the database; {what} still has it"
        return sequence, Finding(where="ledger", what=text)
    return sequence, Finding(where="JSONL", what=text)


# Every change of a goal beside what stood before it: it is raised, or no result counted yet.


def verify_goals(case: Case) -> Found:
    """Compare every change of a goal with the goal and the runs before it."""
    changes, problems = case.of(GoalChanged.name), []
    for entry, body in changes:
        past = Evidence(
            case.session, case.workspace, str(entry.project), before=entry.sequence, inspection=case.inspection
        )
        what = f"project {past.name}: change of the goal (ledger {entry.sequence})"
        if body.get("before") != past.goal:
            problems.append(f"{what}: the goal before it is recorded as {body.get('before')}, and was {past.goal}")
        elif not is_raised(past.goal, body["goal"]) and (result := first_result(past)) is not None:
            problems.append(f"{what}: it eases the goal, and {result} was a result")
    return len(changes), found("ledger", problems)
