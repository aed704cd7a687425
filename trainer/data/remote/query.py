"""Rows of a database's query, read in a read-only transaction, a part at a time, and written as one Parquet file."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainwright.trainer.base.errors import DataError, TrainwrightError, near, near_matches
from trainwright.trainer.base.secrets import plain
from trainwright.trainer.data.remote.connections import DOCUMENT

if TYPE_CHECKING:
    import pyarrow as pa
    from sqlalchemy import URL, Connection, Table

ROWS_AT_ONCE = 20_000
SECONDS = 15
"""Until a database that does not answer counts as gone."""
ROWS = "rows.parquet"
MAX_NAMED = 10


def sqlite_url(path: Path) -> URL:
    """Return the URL of a file of SQLite: a path pasted into one is decoded (`%20`) and cut (`?`)."""
    from sqlalchemy import URL

    return URL.create("sqlite", database=str(path))


@dataclass(frozen=True)
class Question:
    """What is asked of a database, and how it is named in messages."""

    url: str | URL
    """Of a file of SQLite no text, which releases of SQLAlchemy read in two ways."""
    database: str
    """As the configuration names it: `the database of CHURN_DB_URL`."""
    query: str | None
    table: str | None
    order_by: Sequence[str]

    def parsed(self) -> URL:
        """Return the URL's parts. Raises DataError, which does not repeat it."""
        from sqlalchemy import make_url

        try:
            return make_url(self.url)
        except Exception:  # noqa: BLE001 - its message would repeat the URL
            raise DataError(
                f"What names {self.database} is no URL of a database.",
                remedy="It has the form postgresql+psycopg://user:password@host:5432/database, or sqlite:///file.db.",
                document=DOCUMENT,
            ) from None

    @property
    def identity(self) -> list[Any]:
        """Everything that decides which rows are asked for, without the password."""
        url = self.parsed()
        return [url.drivername, url.username, url.host, url.port, url.database, self.query, self.table, *self.order_by]

    @property
    def secrets(self) -> list[str]:
        """The password and whatever else the URL holds beside names."""
        url = self.parsed()
        return [str(url.password or ""), *(str(value) for value in url.query.values())]


def write_rows(question: Question, folder: Path) -> None:
    """Write the rows of a query into `rows.parquet` of an empty folder.

    Raises:
        DataError: the database is not reached, refuses, goes away in the middle, or gives no rows, or rows whose order
            is not fixed.
    """
    parts = folder / "parts"
    parts.mkdir()
    with _connected(question) as connection:
        count, header = 0, None
        for number, (names, rows) in enumerate(_read(question, connection)):
            header, count = names, count + len(rows)
            if rows:
                _write_part(names, rows, parts / f"{number:08d}.arrow")
    if not count:
        raise DataError(
            f"The query gives no rows from {question.database}.",
            remedy="Correct `data.args.query` or `data.args.table`.",
            document=DOCUMENT,
        )
    assert header is not None  # noqa: S101 - there are rows
    _join(sorted(parts.glob("*.arrow")), folder / ROWS)
    for part in parts.glob("*"):
        part.unlink()
    parts.rmdir()


@contextmanager
def _connected(question: Question) -> Iterator[Connection]:
    """Open a connection that reads only, and turn a database's errors into ours."""
    from sqlalchemy import create_engine
    from sqlalchemy.exc import SQLAlchemyError
    from sqlalchemy.pool import NullPool

    url = question.parsed()
    try:
        options = {"connect_args": {"connect_timeout": SECONDS}} if "psycopg" in url.drivername else {}
        engine = create_engine(_with_driver(url), poolclass=NullPool, hide_parameters=True, **options)
        with engine.connect() as connection:
            yield _read_only(connection)
    except TrainwrightError:
        raise
    except (ImportError, SQLAlchemyError, OSError, ValueError) as error:
        raise _failed(question, error, partial(_example, question)) from None


def _example(question: Question) -> str:
    """Return a query that the database would answer, of its nearest table; empty where tables cannot be listed."""
    from sqlalchemy import create_engine, inspect
    from sqlalchemy.pool import NullPool

    with suppress(Exception), create_engine(_with_driver(question.parsed()), poolclass=NullPool).connect() as again:
        known, quoted = inspect(_read_only(again)), again.dialect.identifier_preparer.quote
        tables = sorted([*known.get_table_names(), *known.get_view_names()])
        meant = [name for word in re.findall(r"\w+", question.query or "") for name in near(word, tables, cutoff=0.8)]
        table = next(iter([*meant, *tables]))
        columns = [column["name"] for column in known.get_columns(table)]
        order = known.get_pk_constraint(table)["constrained_columns"] or columns[:1]
        example = f"SELECT * FROM {quoted(table)} ORDER BY {', '.join(map(quoted, order))}"  # noqa: S608 - is shown
        others = f"; tables: {', '.join(tables[:MAX_NAMED])}" if len(tables) > 1 else ""
        return f" For example: {example} (columns: {', '.join(columns[:MAX_NAMED])}{others})."
    return ""


def _with_driver(url: URL) -> URL:
    """Return the URL with psycopg 3, the driver that is installed with Trainwright, where it names none."""
    return url.set(drivername="postgresql+psycopg") if url.drivername in ("postgresql", "postgres") else url


def _read_only(connection: Connection) -> Connection:
    """Let a connection read only, in one transaction that sees the rows as they are at its beginning."""
    kind = connection.dialect.name
    if kind == "postgresql":
        return connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
    if kind == "sqlite":
        connection.exec_driver_sql("PRAGMA query_only = ON")
    elif kind in ("mysql", "mariadb"):
        connection.exec_driver_sql("SET TRANSACTION READ ONLY")
        connection.rollback()
    return connection


def _read(question: Question, connection: Connection) -> Iterator[tuple[list[str], list[Sequence[Any]]]]:
    """Yield the names of the columns, and some rows, in the order of the query."""
    statement, keys = _statement(question, connection)
    result = connection.execution_options(stream_results=True, max_row_buffer=ROWS_AT_ONCE).execute(statement)
    try:
        names = list(result.keys())
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise DataError(
                f"The query gives two columns named {twice[0]!r}.", remedy="Name one of them anew: `… AS another_name`."
            )
        places, last, seen = [names.index(key) for key in keys], None, 0
        for rows in result.partitions(ROWS_AT_ONCE):
            for row in rows if places else ():
                key = tuple(row[place] for place in places)
                if key == last:
                    raise _tied(question, keys, seen)
                last, seen = key, seen + 1
            yield names, [tuple(row) for row in rows]
    finally:
        with suppress(Exception):  # the connection may be gone
            result.close()


def _statement(question: Question, connection: Connection) -> tuple[Any, list[str]]:
    """Return the statement, and the columns by which its rows are sorted, where we sort them."""
    from sqlalchemy import column, select, text

    if question.query is not None:
        query = question.query.strip().rstrip(";")
        if not question.order_by:
            return text(_escaped(query)), []
        inner = text(_escaped(query)).columns().subquery("asked")
        ordered = select(text("*")).select_from(inner).order_by(*map(column, question.order_by))
        return ordered, list(question.order_by)
    schema, _, name = str(question.table).rpartition(".")
    table = _table(connection, name, schema or None)
    keys = list(question.order_by) or [key.name for key in table.primary_key]
    if not keys:
        raise DataError(
            f"The table {question.table!r} has no primary key, so the order of its rows is not fixed.",
            remedy=f"Name columns that tell rows apart: `data.args.order_by: [{', '.join(table.columns.keys()[:2])}]`.",
            document=DOCUMENT,
            details={"changes": {"data.args.order_by": table.columns.keys()}},
        )
    missing = [key for key in keys if key not in table.columns]
    if missing:
        raise DataError(
            f"The table {question.table!r} has no column {missing[0]!r}.",
            remedy=f"Name some of its columns in `data.args.order_by`: {', '.join(table.columns.keys()[:20])}.",
        )
    return select(table).order_by(*(table.columns[key] for key in keys)), keys


def _table(connection: Connection, name: str, schema: str | None) -> Table:
    """Return a table or view with its columns. Raises DataError where there is none of this name."""
    from sqlalchemy import MetaData, Table, inspect
    from sqlalchemy.exc import NoSuchTableError

    try:
        return Table(name, MetaData(), schema=schema, autoload_with=connection)
    except NoSuchTableError:
        found = inspect(connection)
        known = sorted([*found.get_table_names(schema), *found.get_view_names(schema)])
    meant, before = near(name, known), f"{schema}." if schema else ""
    raise DataError(
        f"There is no table {name!r}.{near_matches(name, known)}",
        remedy=f"Name one of them in `data.args.table`: {', '.join(known[:20]) or 'there is none'}.",
        document=DOCUMENT,
        details={"changes": {"data.args.table": before + meant[0]}} if meant else {},
    )


def _escaped(query: str) -> str:
    """Return a query with its colons taken as they are: it has no parameters."""
    return query.replace(":", "\\:")


def _tied(question: Question, keys: Sequence[str], row: int) -> DataError:
    return DataError(
        f"Rows {row} and {row + 1} from {question.database} are equal in {', '.join(keys)}: their order is not fixed.",
        remedy="Name more columns in `data.args.order_by`, until no two rows are equal in all of them.",
        document=DOCUMENT,
        details={"rows": [row, row + 1]},
    )


def _write_part(names: list[str], rows: list[Sequence[Any]], path: Path) -> None:
    """Write some rows as Arrow, each column of the type that its values have."""
    import pyarrow as pa
    from pyarrow import ipc

    columns = []
    for name, values in zip(names, zip(*rows, strict=True), strict=True):
        try:
            columns.append(pa.array([_cell(value) for value in values]))
        except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
            raise _mixed(name, error) from None
    table = pa.table(dict(zip(names, columns, strict=True)))
    with ipc.new_stream(str(path), table.schema) as writer:
        writer.write_table(table)


def _cell(value: Any) -> Any:
    """Return a value as a table keeps it: exact decimals as floating numbers, and what is no plain value as text."""
    if value is None or isinstance(value, bool | int | float | str | dt.date):
        return value
    if isinstance(value, decimal.Decimal):
        return float(value)
    if isinstance(value, dt.timedelta):
        return value.total_seconds()
    if isinstance(value, dict | list):
        return json.dumps(value, sort_keys=True, default=str)
    return bytes(value) if isinstance(value, bytes | bytearray | memoryview) else str(value)


def _join(parts: list[Path], path: Path) -> None:
    """Write all parts as one Parquet file, each column of one type: whole numbers become floating beside such."""
    import pyarrow as pa
    from pyarrow import ipc, parquet

    def batches(part: Path) -> pa.Table:
        with ipc.open_stream(str(part)) as reader:
            return reader.read_all()

    schemas = []
    for part in parts:
        with ipc.open_stream(str(part)) as reader:
            schemas.append(reader.schema)
    try:
        schema = pa.unify_schemas(schemas, promote_options="permissive")
    except pa.ArrowException as error:
        raise _mixed("", error) from None
    with parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        for part in parts:
            writer.write_table(batches(part).cast(schema), row_group_size=ROWS_AT_ONCE)


def _mixed(name: str, error: Exception) -> DataError:
    column = f"Column {name!r} of the query" if name else "A column of the query"
    return DataError(
        f"{column} holds values of different types: {plain(error)}.",
        remedy="Let the query make them one type: CAST(column AS text), or AS double precision.",
        document=DOCUMENT,
    )


def _failed(question: Question, error: Exception, example: Callable[[], str]) -> DataError:
    """Return the error of a database: not reached, gone away, refused, or of its query, then with an example."""
    from sqlalchemy.exc import DBAPIError, InterfaceError, NoSuchModuleError, OperationalError

    reason = plain(getattr(error, "orig", None) or error, question.secrets)
    if reason.startswith("file is not a database"):
        message, remedy = (
            f"{_capital(question)} cannot be read: {reason}.",
            "Name a database of SQLite in `data.args.url`.",
        )
    elif isinstance(error, ImportError | NoSuchModuleError):
        message = f"The driver of {question.database} is not installed: {reason}."
        remedy = "The owner installs it (PostgreSQL: pip install 'psycopg[binary]'), or names another in the URL."
    elif isinstance(error, OperationalError | InterfaceError) and not _is_of_query(reason):
        message = f"{_capital(question)} is not reached, or went away: {reason}. Nothing was kept."
        remedy = "Start the run again once the database answers; the owner checks the URL in the variable."
    elif isinstance(error, DBAPIError):
        message = f"{_capital(question)} refuses the query: {reason}."
        remedy = "Correct `data.args.query`: one SELECT of columns and tables that are there, read only." + example()
    else:
        message = f"{_capital(question)} cannot be read: {reason}."
        remedy = "Correct `data.args`, or what its variable holds."
    return DataError(message, remedy=remedy, document=DOCUMENT)


def _is_of_query(reason: str) -> bool:
    """Return whether SQLite, which has one kind of error for all, means the query."""
    return reason.startswith(("near ", "no such ", "unrecognized token", "ambiguous ", "misuse of ", "wrong number "))


def _capital(question: Question) -> str:
    return question.database.replace("the ", "The ", 1)
