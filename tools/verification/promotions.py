"""Moves of a model's aliases, derived again: each by its gate, by the owner's grant, or back; and what is served."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trainwright.tools.ledger.aliases import PRODUCTION, aliases_after, moves_among, way_back
from trainwright.tools.ledger.events import ModelPromoted, ModelRegistered
from trainwright.tools.registry.serving import SERVED, compiled_in, differing, leads_to
from trainwright.tools.registry.versions import Registered, read_versions
from trainwright.tools.verification.findings import Case, Finding, Found, found
from trainwright.trainer.base.paths import is_left_by_system


def verify_promotions(case: Case) -> Found:
    """Compare every move with the moves and versions before it, and with the checks or the grant that allowed it."""
    moved = [(entry, move) for entry, body in case.of(ModelPromoted.name) for move in moves_among([body])]
    problems = []
    for entry, move in moved:
        before = [other for at, other in moved if at.project == entry.project and at.sequence < entry.sequence]
        known = _before(case, ModelRegistered.name, entry)
        faults = _faults(move, before, {one["version"] for one in known})
        if move.grant and move.grant not in _granted(case, entry, move):
            faults.append("the owner's grant that it names was not given")
        if move.grant and move.grant in {other.grant for other in before}:
            faults.append("the owner's grant that it names was used before")
        problems += [f"ledger entry {entry.sequence}: {move.alias} moved, and {fault}" for fault in faults]
    return len(moved), found("verdict", problems)


def verify_served(case: Case) -> Found:
    """Compare the folders from which versions are served with their releases, and the links with the ledger."""
    count, problems, remarks = 0, [], []
    for project in sorted({str(entry.project) for entry, _ in case.of(ModelRegistered.name)}):
        home = case.workspace.project_folder(project) / SERVED
        versions = read_versions(case.session, project)
        for path in sorted(home.iterdir()) if home.is_dir() else []:
            count += 1
            problems += [f"project {project}: {SERVED}/{path.name}{fault}" for fault in _served(versions, path)]
            if not path.is_symlink() and compiled_in(path):
                what = f"project {project}: {SERVED}/{path.name} has an import's bytecode: removed when next served"
                remarks.append(Finding(where="artifact", what=what, counts=False))
    return count, found("artifact", problems) + remarks


def _served(versions: Registered, path: Path) -> list[str]:
    folders = {f"v{number}": number for number in versions.models}
    if path.is_symlink():
        number = versions.aliases.get(path.name)
        right = number is not None and leads_to(path) == f"v{number}"
        told = f"the ledger has v{number} there" if number is not None else "the ledger knows no such alias"
        return [] if right else [f" leads to {leads_to(path)}, and {told}"]
    if path.name not in folders:
        return [] if path.name.startswith(".") or is_left_by_system(path) else [" was added by hand"]
    changed = differing(path, versions.release(folders[path.name]).files)
    return [f"/{name} is not as it was released" for name in changed]


def _faults(move: ModelPromoted, before: list[ModelPromoted], known: set[int]) -> list[str]:
    held, version = aliases_after(before).get(move.alias), move.version
    faults = [] if version is None or version in known else [f"no version {version} was registered"]
    if move.before != held:
        faults.append(f"it was at {held} before, not at {move.before}")
    is_back = version is not None and version == way_back(before, move.alias)
    if move.back != is_back:
        faults.append("it was no way back" if move.back else "it went back, and does not say so")
    is_open = bool(move.checks) and all(check["passed"] for check in move.checks)
    if move.alias == PRODUCTION and not (is_back or is_open or move.grant):
        faults.append("its gate had not passed")
    return faults


def _before(case: Case, kind: str, entry: Any) -> list[dict[str, Any]]:
    return [body for other, body in case.of(kind) if other.project == entry.project and other.sequence < entry.sequence]


def _granted(case: Case, entry: Any, move: ModelPromoted) -> set[str]:
    asked = {"kind": "promotion", "name": move.alias, "value": float(move.version or 0)}
    answers = _before(case, "owner_decision", entry)
    return {one["request"] for one in answers if one["granted"] is True and one["wish"] == asked}
