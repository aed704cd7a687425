"""Rows of a database as a table: read only, in a fixed order, whole or not at all, and no password anywhere."""

from __future__ import annotations

import os
import sqlite3
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet
from pydantic import ValidationError
from tests.data_servers import PASSWORD, Postgres, postgres

from trainwright.trainer.base.errors import ConfigurationError, DataError, TrainwrightError
from trainwright.trainer.config import parse_config
from trainwright.trainer.data import cache
from trainwright.trainer.data.remote import connections, query
from trainwright.trainer.data.remote.connections import Access, Connection
from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.data.sources import load_source
from trainwright.trainer.data.sources.source import Loaded
from trainwright.trainer.data.sources.sql import Query, fetch_rows


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path) -> Iterator[cache.DataCache]:
    kept = cache.DataCache(tmp_path / "cache")
    cache.use(kept)
    connections.use(Access("smoke-1"))
    yield kept
    cache.use(None)
    connections.use(Access())


@pytest.fixture
def customers(tmp_path: Path) -> Path:
    """A code root, of a name that no URL takes as it is, with a file of SQLite in it."""
    root = tmp_path / "my%20code? #1"
    root.mkdir()
    write_customers(root / "churn.db", 60)
    return root


def write_customers(path: Path, rows: int) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        columns = "id INTEGER PRIMARY KEY, age REAL, visits INTEGER, churned TEXT"
        connection.execute(f"CREATE TABLE IF NOT EXISTS customers ({columns})")
        connection.execute("DELETE FROM customers")
        values = [(row, row * 0.5, row % 7, "yes" if row % 3 else "no") for row in range(rows)]
        connection.executemany("INSERT INTO customers VALUES (?, ?, ?, ?)", values)


def rows_of(root: Path, **asked: Any) -> list[dict[str, Any]]:
    return list(parquet.read_table(fetch_rows(Query(**asked), root)).to_pylist())


LOCAL = {"url": "sqlite:///churn.db"}


@pytest.mark.requirement("TRAIN-1")
def test_a_query_is_a_table_like_any_other(customers: Path) -> None:
    args = {**LOCAL, "query": "SELECT age, visits, churned FROM customers ORDER BY id", "target": "churned"}
    loaded = load_source("sql", args, customers, SplitSection())
    assert isinstance(loaded, Loaded)
    assert len(loaded.samples) == 60
    assert loaded.class_names == ["no", "yes"]
    assert loaded.feature_names == ["age", "visits"]


@pytest.mark.requirement("TRAIN-1", "REPRO-4")
def test_rows_of_a_table_come_in_the_order_of_its_key_and_stay_those_that_planning_read(customers: Path) -> None:
    first = rows_of(customers, **LOCAL, table="customers")
    assert [row["id"] for row in first] == list(range(60))
    write_customers(customers / "churn.db", 20)
    assert rows_of(customers, **LOCAL, table="customers") == first
    connections.use(Access("smoke-2"))
    assert len(rows_of(customers, **LOCAL, table="customers")) == 20


@pytest.mark.requirement("TRAIN-1")
@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"query": "SELECT * FROM customers"}, "needs ORDER BY"),
        ({"query": "SELECT * FROM (SELECT * FROM customers ORDER BY id) AS inner_ones"}, "needs ORDER BY"),
        ({"query": "DELETE FROM customers"}, "one statement that reads"),
        ({"query": "SELECT 1 ORDER BY 1; DROP TABLE customers"}, "one statement that reads"),
        ({"query": "SELECT 1 ORDER BY 1", "table": "customers"}, "exactly one of query and table"),
        ({"table": "customers", "url_env": "CHURN"}, "exactly one of url_env, profile and url"),
    ],
)
def test_a_query_that_writes_or_has_no_order_is_refused_before_any_run(asked: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        Query(**{**LOCAL, **asked})


@pytest.mark.requirement("TRAIN-1")
@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"table": "customer"}, "no table 'customer'"),
        ({"table": "customers", "order_by": ["visits"]}, "Rows 1 and 2 .* are equal in visits"),
        ({"table": "customers", "order_by": ["visit"]}, "no column 'visit'"),
        ({"query": "SELECT absent FROM customers ORDER BY 1"}, "no such column"),
        ({"query": "SELECT age, age FROM customers ORDER BY id"}, "two columns named 'age'"),
        ({"query": "SELECT * FROM customers WHERE id < 0 ORDER BY id"}, "gives no rows"),
        (
            {"query": "SELECT CASE WHEN id < 9 THEN 'a' ELSE 1 END AS c FROM customers ORDER BY id"},
            "'c'.*types",
        ),
        ({"table": "customers", "url": "sqlite:///../other.db"}, "outside the code root"),
        ({"table": "customers", "url": "duckdb:///x.db"}, "not a URL that a configuration may hold"),
        ({"table": "customers", "url": None, "url_env": "NOT_SET_HERE"}, "NOT_SET_HERE.*not set"),
        ({"table": "customers", "url": None, "profile": "churn"}, "no connection 'churn'"),
    ],
)
def test_what_the_database_cannot_answer_is_an_error_and_keeps_nothing(
    asked: dict[str, Any], told: str, customers: Path, own_cache: cache.DataCache
) -> None:
    with pytest.raises(TrainwrightError, match=told) as caught:
        rows_of(customers, **{**LOCAL, **asked})
    assert caught.value.remedy
    assert not list(own_cache.folder.glob("*/*/manifest.json"))


def test_an_environment_without_sqlalchemy_is_told_what_to_install(
    customers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)
    with pytest.raises(ConfigurationError, match="by SQLAlchemy, which .* does not have") as caught:
        rows_of(customers, **LOCAL, table="customers")
    assert "pip install 'sqlalchemy" in caught.value.remedy


@pytest.mark.requirement("TRAIN-1")
@pytest.mark.parametrize("query", ["SELECT absent FROM customers ORDER BY 1", "SELECT * FROM custmers ORDER BY id"])
def test_a_refused_query_is_answered_with_one_that_the_database_takes(query: str, customers: Path) -> None:
    with pytest.raises(TrainwrightError) as caught:
        rows_of(customers, **LOCAL, query=query)
    example = caught.value.remedy.partition("For example: ")[2].partition(" (columns: ")[0]
    assert example.startswith("SELECT * FROM customers ORDER BY id")
    assert len(rows_of(customers, **LOCAL, query=example)) == 60


@pytest.mark.requirement("TRAIN-1")
def test_an_order_of_ours_is_laid_over_a_query(customers: Path) -> None:
    found = rows_of(customers, **LOCAL, query="SELECT id, ':x' AS text FROM customers", order_by=["id"])
    assert found[:2] == [{"id": 0, "text": ":x"}, {"id": 1, "text": ":x"}]


@pytest.mark.requirement("TRAIN-1")
def test_a_column_of_whole_and_broken_numbers_becomes_one_type(
    customers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(query, "ROWS_AT_ONCE", 7)
    asked = "SELECT CASE WHEN id < 30 THEN id WHEN id < 40 THEN NULL ELSE id + 0.5 END AS n FROM customers ORDER BY id"
    found = [row["n"] for row in rows_of(customers, **LOCAL, query=asked)]
    assert found == [float(n) if n < 30 else None if n < 40 else n + 0.5 for n in range(60)]


@pytest.mark.requirement("TRAIN-1")
@pytest.mark.parametrize(
    "value",
    [f"postgresql://me:{PASSWORD}@example.org/churn", f"https://example.org/rows.csv?token={PASSWORD}"],
)
def test_a_password_in_a_configuration_is_refused_and_not_repeated(value: str) -> None:
    for args in ({"url": value, "table": "t"}, {"path": value, "target": "y"}, {"nested": [{"deep": value}]}):
        with pytest.raises(ConfigurationError, match="configurations are recorded") as caught:
            parse_config({"model": {"use": "mlp"}, "data": {"use": "sql", "args": args}})
        assert PASSWORD not in str(caught.value.as_dict())
        assert "env" in caught.value.message


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with postgres() as running:
        running.execute(
            "CREATE TABLE churn (id int PRIMARY KEY, day date, paid numeric(9, 2), note text, more jsonb, active bool)",
            "INSERT INTO churn SELECT i, date '2026-01-01' + i, i / 4.0, 'note ' || i, '{\"a\": 1}', i % 2 = 0 "
            "FROM generate_series(1, 500) AS i",
        )
        yield running


@pytest.mark.slow
@pytest.mark.requirement("TRAIN-1")
def test_rows_come_from_a_real_postgresql_with_their_types(
    server: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHURN_DB_URL", server.url)
    table = parquet.read_table(fetch_rows(Query(url_env="CHURN_DB_URL", table="churn"), tmp_path))
    types = {field.name: str(field.type) for field in table.schema}
    assert types == {
        "id": "int64", "day": "date32[day]", "paid": "double", "note": "string", "more": "string", "active": "bool",
    }  # fmt: skip
    assert table.num_rows == 500
    connections.use(Access("smoke-1", {"churn": Connection(url_env="CHURN_DB_URL")}))
    ordered = Query(profile="churn", query="SELECT id FROM churn WHERE note LIKE 'note 1%' ORDER BY id DESC")
    assert parquet.read_table(fetch_rows(ordered, tmp_path))["id"].to_pylist()[0] == 199


@pytest.mark.slow
@pytest.mark.requirement("TRAIN-1")
def test_a_query_that_writes_in_disguise_is_refused_by_the_transaction(
    server: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHURN_DB_URL", server.url.replace("reader:", "postgres:"))
    server.execute("CREATE OR REPLACE FUNCTION wipe() RETURNS int LANGUAGE sql AS 'DELETE FROM churn; SELECT 1'")
    with pytest.raises(DataError, match="read-only transaction"):
        fetch_rows(Query(url_env="CHURN_DB_URL", query="SELECT wipe() AS n ORDER BY n"), tmp_path)
    assert len(rows_of(tmp_path, url_env="CHURN_DB_URL", table="churn")) == 500


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.requirement("TRAIN-1")
def test_a_database_that_goes_away_in_the_middle_leaves_nothing_half_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_cache: cache.DataCache
) -> None:
    with postgres() as server:
        server.execute("CREATE TABLE long (id int PRIMARY KEY)", "INSERT INTO long SELECT generate_series(1, 400)")
        monkeypatch.setenv("CHURN_DB_URL", server.url)
        monkeypatch.setattr(query, "ROWS_AT_ONCE", 20)
        slowly = "SELECT id, length(pg_sleep(0.01)::text) AS waited FROM long ORDER BY id"
        killer = threading.Thread(target=_kill_once_it_writes, args=(server, own_cache.folder))
        killer.start()
        with pytest.raises(DataError, match="went away.*Nothing was kept") as caught:
            fetch_rows(Query(url_env="CHURN_DB_URL", query=slowly), tmp_path)
        killer.join()
        assert "Start the run again" in caught.value.remedy
        assert PASSWORD not in str(caught.value.as_dict())
        assert not [
            path for path in own_cache.folder.rglob("*") if path.is_dir() and path.name != own_cache.folder.name
        ]
        server.start()
        assert len(rows_of(tmp_path, url_env="CHURN_DB_URL", table="long")) == 400
        monkeypatch.setenv("CHURN_DB_URL", server.url.replace(PASSWORD, "wrong-password-1"))
        with pytest.raises(DataError, match="password authentication failed") as refused:
            fetch_rows(Query(url_env="CHURN_DB_URL", query=slowly), tmp_path)
        assert "wrong-password-1" not in str(refused.value.as_dict())
        assert os.environ["CHURN_DB_URL"] not in str(refused.value.as_dict())


def _kill_once_it_writes(server: Postgres, folder: Path) -> None:
    ends = time.monotonic() + 30
    while time.monotonic() < ends and len(list(folder.glob(".making-*/content/parts/*"))) < 2:
        time.sleep(0.01)
    server.stop()
