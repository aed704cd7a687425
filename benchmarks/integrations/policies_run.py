"""The database's tests on a PostgreSQL of their own, and again with each policy changed."""

from __future__ import annotations

import re
from typing import Any

import pytest
from programs import REMEDIES, WORK, run
from tests.data_servers import postgres
from tests.tools.integrations.policies import FOLDER, MUTATED, SCHEMA, TESTS, Database

TYPES = "database.types.ts"


def policy_figures(wrong: list[str]) -> dict[str, Any]:
    """Return `rls_tests` that passed and `rls_mutations` that a test saw; None where there is no PostgreSQL.

    Args:
        wrong: gets what did not hold.
    """
    try:
        with postgres() as server:
            return _figures(Database(server), wrong)
    except pytest.skip.Exception as error:
        print(f"The database is left out: {error}. It needs {REMEDIES['postgres']}", flush=True)
        return {"rls_tests": None, "rls_mutations": None}


def _figures(database: Database, wrong: list[str]) -> dict[str, Any]:
    if database.psql("create extension pgtap; drop extension pgtap;").returncode:
        print(f"The database is left out: no pgTAP. It needs {REMEDIES['postgres']}", flush=True)
        return {"rls_tests": None, "rls_mutations": None}
    for name in SCHEMA:
        done = database.psql((FOLDER / name).read_text(encoding="utf-8"))
        if done.returncode:
            raise RuntimeError(done.stderr)
    [planned] = re.findall(r"select plan\((\d+)\)", TESTS.read_text(encoding="utf-8"))
    failed = database.failed()
    unseen = [name for name, mutation in MUTATED.items() if not database.failed(mutation)]
    wrong += [f"policy: {fault}" for fault in failed] + [f"policy: no test saw that {name}" for name in unseen]
    wrong += _type_faults(database)
    print(f"| policies | {planned} tests, {len(MUTATED)} mutations, {len(unseen)} unseen |", flush=True)
    return {"rls_tests": int(planned) - len(failed), "rls_mutations": len(MUTATED) - len(unseen)}


def _type_faults(database: Database) -> list[str]:
    """Compare the shipped types with those that Supabase's CLI makes of the schema, where npm is there."""
    try:
        made = generated_types(database)
    except (RuntimeError, OSError) as error:
        print(f"The types are left out: {error}", flush=True)
        return []
    shipped = (FOLDER / TYPES).read_text(encoding="utf-8")
    return [] if _unformatted(made) == _unformatted(shipped) else [f"{TYPES} is not what the CLI makes"]


def _unformatted(text: str) -> str:
    """Return types without what a formatter changes; the CLI's are in one long line a table."""
    return re.sub(r"[\s,;\"'|()]", "", text)


def generated_types(database: Database) -> str:
    """Return the types by Supabase's CLI. Raises RuntimeError where it cannot be installed."""
    folder = WORK / "supabase"
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "node_modules" / "supabase").is_dir():
        (folder / "package.json").write_text('{"private": true}\n', encoding="utf-8")
        run("npm", "install", "--no-audit", "--no-fund", "--silent", "supabase@3.1.0", cwd=folder)
    url = database.server.url.replace("postgresql+psycopg", "postgresql").replace("reader:", "postgres:")
    command = (folder / "node_modules" / ".bin" / "supabase", "gen", "types", "--lang", "typescript", "--remote", url)
    written = run(*command, cwd=folder, SUPABASE_TELEMETRY_DISABLED="1", DO_NOT_TRACK="1")
    return written[written.index("export type Json") :]  # before it stands how it connected
