"""The generated schema on a real PostgreSQL: two users see each other's rows nowhere, and each policy has its test."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
import pytest
from tests.data_servers import postgres
from tests.tools.integrations.policies import FOLDER, MUTATED, SCHEMA, Database
from tests.tools.integrations.test_generation import NPZ, write_model

pytestmark = [pytest.mark.slow, pytest.mark.requirement("SKILL-5")]


@pytest.fixture(scope="module")
def server() -> Iterator[Database]:
    """PostgreSQL with the schema."""
    with postgres() as running:
        opened = Database(running)
        for name in SCHEMA:
            done = opened.psql((FOLDER / name).read_text())
            assert done.returncode == 0, done.stderr
        yield opened


@pytest.fixture
def database(server: Database) -> Database:
    """The same, where the policies' tests can run."""
    if server.psql("create extension pgtap; drop extension pgtap;").returncode:
        pytest.skip("needs pgTAP (Debian: postgresql-15-pgtap); PostgreSQL here has no such extension")
    return server


def test_two_users_the_server_and_nobody_see_what_is_theirs(database: Database) -> None:
    assert database.failed() == []


@pytest.mark.parametrize("mutation", list(MUTATED))
def test_a_policy_that_is_changed_fails_a_test(mutation: str, database: Database) -> None:
    assert database.failed(MUTATED[mutation])
    assert database.failed() == [] or mutation != next(iter(MUTATED)), "mutations are rolled back"


@pytest.fixture
def emptied(server: Database) -> Database:
    """The database without a release; pgTAP is not needed."""
    done = server.psql("truncate public.runs, public.releases cascade")
    assert done.returncode == 0, done.stderr
    return server


def seed_of(project: Path, into: Path) -> str:
    """Return what is to be recorded of a project's release, or of a copied one."""
    from trainwright.tools.integrations import deploy

    [folder] = deploy(project, into, ["database"])
    [seed] = (folder / "supabase" / "seeds").iterdir()
    return seed.read_text()


def project_of(folder: Path, program: str, run: str = "final-1", earlier: int = 0) -> Path:
    """Write a project's folder with a release whose program is one of its own."""
    model = write_model(folder / "final_model", {}, NPZ)
    graph = onnx.load(model / "model.onnx")
    graph.doc_string = program
    onnx.save(graph, model / "model.onnx")
    metrics = json.loads((model / "metrics.json").read_text()) | {"run": run}
    (model / "metrics.json").write_text(json.dumps(metrics))
    (folder / "ledger.jsonl").write_text("")
    for number in range(earlier):
        (folder / "releases" / str(number + 1)).mkdir(parents=True)
    return folder


def recorded(database: Database) -> list[str]:
    """Return number and run of each release, in the order of recording."""
    return database.psql("select number, run_id from public.releases order by id").stdout.split()


@pytest.mark.long
def test_the_release_of_a_copy_is_added_once_by_its_program(model_of: Any, emptied: Database, tmp_path: Path) -> None:
    seed = seed_of(model_of("table")[0], tmp_path)
    for _ in range(2):
        done = emptied.psql(seed)
        assert done.returncode == 0, done.stderr
    shown = emptied.psql("select project, number, classes, program_sha256 from public.releases").stdout.strip()
    [digest] = set(re.findall(r"'([0-9a-f]{64})'", seed))
    assert shown == f"table||{{no,yes}}|{digest}"


def test_each_release_has_its_number_and_a_copy_gets_it_later(emptied: Database, tmp_path: Path) -> None:
    first = project_of(tmp_path / "first", "one")
    second = project_of(tmp_path / "second", "two", run="final-2", earlier=1)
    copied = tmp_path / "copied" / "final_model"
    shutil.copytree(second / "final_model", copied)
    of_copy = seed_of(copied, tmp_path / "1")
    of_second = seed_of(second, tmp_path / "2")
    steps = [(seed_of(first, tmp_path / "3"), ["1|final-1"]), (of_copy, ["1|final-1", "|final-2"]),
             (of_second, ["1|final-1", "2|final-2"]), (of_copy, ["1|final-1", "2|final-2"]),
             (of_second, ["1|final-1", "2|final-2"])]  # fmt: skip
    for seed, expected in steps:
        done = emptied.psql(seed)
        assert done.returncode == 0, done.stderr
        assert recorded(emptied) == expected


def test_a_number_that_is_another_programs_is_an_error(emptied: Database, tmp_path: Path) -> None:
    assert emptied.psql(seed_of(project_of(tmp_path / "ours", "one"), tmp_path / "1")).returncode == 0
    other = seed_of(project_of(tmp_path / "other", "two", run="final-9"), tmp_path / "2")
    done = emptied.psql(f"begin;\n{other}\ncommit;")  # as psql -1
    assert done.returncode != 0
    assert "releases_number_is_one_program" in done.stderr
    assert "(project, number)=(shop, 1)" in done.stderr
    copied = tmp_path / "copied" / "final_model"
    shutil.copytree(tmp_path / "other" / "final_model", copied)
    assert emptied.psql(seed_of(copied, tmp_path / "3")).returncode == 0, "a copy claims no number"
    done = emptied.psql(other)
    assert "releases_number_is_one_program" in done.stderr
    assert recorded(emptied) == ["1|final-1", "|final-9"]


@pytest.mark.long
def test_a_run_of_another_project_is_not_taken_for_ours(model_of: Any, emptied: Database, tmp_path: Path) -> None:
    assert emptied.psql(seed_of(project_of(tmp_path / "shop", "one"), tmp_path / "1")).returncode == 0
    done = emptied.psql(seed_of(model_of("table")[0], tmp_path / "2"))
    assert done.returncode != 0
    assert "runs_pkey" in done.stderr
    assert recorded(emptied) == ["1|final-1"]
