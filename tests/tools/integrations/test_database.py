"""The generated schema on a real PostgreSQL: two users see each other's rows nowhere, and each policy has its test."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.data_servers import postgres
from tests.tools.integrations.policies import FOLDER, MUTATED, SCHEMA, Database

pytestmark = [pytest.mark.slow, pytest.mark.requirement("SKILL-5")]


@pytest.fixture(scope="module")
def database() -> Iterator[Database]:
    with postgres() as server:
        opened = Database(server)
        if opened.psql("create extension pgtap; drop extension pgtap;").returncode:
            pytest.skip("needs pgTAP (Debian: postgresql-15-pgtap); PostgreSQL here has no such extension")
        for name in SCHEMA:
            done = opened.psql((FOLDER / name).read_text())
            assert done.returncode == 0, done.stderr
        yield opened


def test_two_users_the_server_and_nobody_see_what_is_theirs(database: Database) -> None:
    assert database.failed() == []


@pytest.mark.parametrize("mutation", list(MUTATED))
def test_a_policy_that_is_changed_fails_a_test(mutation: str, database: Database) -> None:
    assert database.failed(MUTATED[mutation])
    assert database.failed() == [] or mutation != next(iter(MUTATED)), "mutations are rolled back"


def test_the_release_is_added_once(model_of: Any, database: Database, tmp_path: Path) -> None:
    from trainwright.tools.integrations import deploy

    deploy(model_of("table")[0], tmp_path, ["database"])
    seed = (tmp_path / "database" / "supabase" / "seed.sql").read_text()
    for _ in range(2):
        done = database.psql(seed)
        assert done.returncode == 0, done.stderr
    shown = database.psql("select project, number, classes, program_sha256 from public.releases").stdout.strip()
    digest = read_digest(tmp_path)
    assert shown == f"table|1|{{no,yes}}|{digest}"


def read_digest(folder: Path) -> str:
    """Return the digest that the seed names."""
    [found] = re.findall(r"'([0-9a-f]{64})'", (folder / "database" / "supabase" / "seed.sql").read_text())
    return str(found)
