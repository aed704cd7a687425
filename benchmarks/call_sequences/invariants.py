"""What must hold after every call, looked up in the database and the files directly."""

from __future__ import annotations

import json
import sqlite3
from typing import Any

from phases import PERMITTED
from world import LIMITS, NAME, World

from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.phase_status import phase_status_of
from trainwright.tools.training_orchestrator import refresh_project
from trainwright.tools.verification import verify_workspace
from trainwright.trainer.base.canonical import digest_file
from trainwright.trainer.config import config_digest, parse_config


def differences(world: World, *, verify: bool) -> list[str]:
    """Return everything that contradicts something else; none means that all agree.

    Verification is the longest part: it is made when asked for, and only where something has been recorded, edited or
    ended since it was made last.
    """
    found = _server(world)
    now = (
        _read(world, "SELECT max(sequence) FROM ledger"),
        sorted(world.edits),
        [r.state for r in world.model.runs.values()],
    )
    if verify and now != world.verified:
        found += _verification(world)
        world.verified = now
    return found + _records(world)


def chosen_configuration(world: World) -> str:
    """Return the digest of the configuration that the newest optimization decision chose."""
    bodies = [body for kind, body in _ledger(world) if kind == "gate" and body["phase"] == "optimization"]
    accepted = [body for body in bodies if body["outcome"] != "refused"]
    return config_digest(parse_config(accepted[-1]["final_values"]))


def _server(world: World) -> list[str]:
    """Ask the server whose turn it is, which may not be the one that was called, where the project stands."""
    server = world.turn
    refresh_project(server, NAME)
    with server.session() as session:
        where = phase_status_of(Evidence(session, server, NAME))
    phase = "finished" if where.is_finished else where.phase.value
    if phase == world.model.phase:
        return []
    gates = {gate.phase.value: (gate.status, gate.reasons) for gate in where.gates}
    return [f"the server is in {phase}, the model in {world.model.phase}: {gates}"]


def _verification(world: World) -> list[str]:
    problems = verify_workspace(world.path).problems
    if not world.edits:
        return [f"verify names, and nobody edited anything: {problem}" for problem in problems]
    missed = [
        edit.path for edit in world.edits.values()
        if not any(all(name in problem for name in edit.named) for problem in problems)
    ]  # fmt: skip
    return [f"verify does not name the edit of {path}: {problems}" for path in missed]


def _records(world: World) -> list[str]:
    found = []
    ledger = _ledger(world)
    rows = {row[0]: row for row in _read(world, "SELECT id, kind, state, sealed FROM runs")}
    started = {body["run_id"]: body for kind, body in ledger if kind == "run_started"}
    folders = {path.name for path in (world.project / "runs").glob("*")}
    if not rows.keys() == started.keys() == folders == world.model.runs.keys():
        found.append(f"runs differ: rows {sorted(rows)}, ledger {sorted(started)}, folders {sorted(folders)}")
    for run_id, run in world.model.runs.items():
        found += _run(world, run_id, run.state, rows[run_id], started[run_id])
    decided = [body for kind, body in ledger if kind == "gate"]
    found += _artifacts(world, decided)
    (trials,) = _read(world, "SELECT count(*) FROM trials")[0]
    if trials > LIMITS["trials"] or len(world.model.living) > LIMITS["runs_at_once"]:
        found.append(f"limits exceeded: {trials} trials, {len(world.model.living)} runs at once")
    return found


def _run(world: World, run_id: str, state: str, row: tuple[Any, ...], body: dict[str, Any]) -> list[str]:
    found = []
    permit = body["permit"]
    if permit["kind"] != body["kind"] or body["kind"] not in PERMITTED[permit["phase"]]:
        found.append(f"{run_id} of kind {body['kind']} has a permit of {permit}")
    directory = world.run(run_id)
    if not any(edit.run == run_id for edit in world.edits.values()):
        if json.loads((directory.path / "run.json").read_bytes())["permit"] != permit:
            found.append(f"{run_id}: the order's permit is not the ledger's")
        if directory.status().state.value != state:
            found.append(f"{run_id} is {directory.status().state}, and was left {state}")
    if row[2] != state and not (state == "running" and row[2] in {"created", "starting", "running"}):
        found.append(f"{run_id}: its row says {row[2]}, and it is {state}")
    if bool(row[3]) != (state != "running"):
        found.append(f"{run_id} is {state}, and sealed: {row[3]}")
    return found


def _artifacts(world: World, decided: list[dict[str, Any]]) -> list[str]:
    """Compare the files of each phase's newest accepted decision; a report belongs to the newest diagnosis instead."""
    newest = {body["phase"]: body["artifacts"] for body in decided if body["outcome"] != "refused"}
    found = ["drafts are left"] if (world.project / ".drafts").exists() else []
    for phase, artifacts in newest.items():
        for name, digest in artifacts.items():
            path = world.project / name
            if phase == "diagnostics" or path in world.edits:
                continue
            if not path.is_file() or digest_file(path) != digest:
                found.append(f"{name} is not as the {phase} decision recorded it")
    return found


def _ledger(world: World) -> list[tuple[str, dict[str, Any]]]:
    return [(kind, json.loads(body)) for kind, body in _read(world, "SELECT kind, body FROM ledger ORDER BY sequence")]


def _read(world: World, query: str) -> list[tuple[Any, ...]]:
    connection = sqlite3.connect(world.path / "workspace.sqlite")
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()
