"""The JSONL mirror of each project, compared line by line with the database's ledger, each way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainwright.tools.ledger.jsonl_mirror import NAME, line_of, pending_from, plain_path, read_line
from trainwright.tools.verification.findings import Case, Finding, Found
from trainwright.trainer.base.canonical import digest_json

if TYPE_CHECKING:
    from pathlib import Path

    from trainwright.tools.workspace.tables import LedgerEntry

MOST_NAMED = 5


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
        named = ", ".join(map(str, missing[:MOST_NAMED])) + (" …" if len(missing) > MOST_NAMED else "")
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
