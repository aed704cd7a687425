"""Rows of a database, by SQLAlchemy: fetched once into the cache, then read as the table that they are."""

from __future__ import annotations

import re
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self
from uuid import uuid4

from pydantic import Field, field_validator, model_validator

from trainwright.trainer.base import download_log
from trainwright.trainer.base.canonical import digest_json
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.base.paths import confine
from trainwright.trainer.base.section import Section
from trainwright.trainer.data import cache
from trainwright.trainer.data.remote import connections
from trainwright.trainer.data.remote.connections import DOCUMENT, Variable
from trainwright.trainer.data.remote.storage import database_place
from trainwright.trainer.data.sources.parquet_file import Parquet, ParquetTexts
from trainwright.trainer.data.sources.source import Name
from trainwright.trainer.data.sources.tables import Texts

if TYPE_CHECKING:
    from sqlalchemy import URL

COMMENTS = re.compile(r"--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"", re.DOTALL)
INNER = re.compile(r"\([^()]*\)")


class Query(Section):
    """What to ask of which database."""

    url_env: Variable | None = None
    """Environment variable that holds the database's URL, with its password."""
    profile: Name | None = None
    """A connection of the owner's settings, instead."""
    url: Name | None = None
    """The URL itself where it needs no password: `sqlite:///rows.db`, a file under code_root."""
    query: Name | None = None
    """A SELECT, with ORDER BY."""
    table: Name | None = None
    """All rows and columns of a table, instead; sorted by its primary key."""
    order_by: Annotated[list[Name], Field(min_length=1)] | None = None
    """Columns to sort by; no two rows may be equal in all of them."""

    @field_validator("query")
    @classmethod
    def _reads_only(cls, query: str | None) -> str | None:
        bare = COMMENTS.sub(" ", query or "select").strip().rstrip("; \n\t")
        if ";" in bare or not re.match(r"(select|with|values|table)\b", bare.lstrip("( \n\t"), re.IGNORECASE):
            raise ValueError("one statement that reads is needed: SELECT …, or WITH … SELECT …")
        return query

    @model_validator(mode="after")
    def _are_complete(self) -> Self:
        if sum(value is not None for value in (self.url_env, self.profile, self.url)) != 1:
            raise ValueError("exactly one of url_env, profile and url names the database")
        if (self.query is None) == (self.table is None):
            raise ValueError("exactly one of query and table says which rows")
        if self.query is not None and self.order_by is None and not is_ordered(self.query):
            raise ValueError(
                "the query needs ORDER BY at its end (or data.args.order_by): without it the order of rows is not fixed"
            )
        return self


def is_ordered(query: str) -> bool:
    """Return whether a query ends in an ORDER BY of its own, not of a part in parentheses."""
    bare = COMMENTS.sub(" ", query)
    while (outer := INNER.sub(" ", bare)) != bare:
        bare = outer
    return re.search(r"\border\s+by\b", bare, re.IGNORECASE) is not None


def fetch_rows(asked: Query, code_root: Path) -> Path:
    """Return the Parquet file that holds the rows of a query, in the cache.

    They are fetched once for planning's smoke run: the runs that depend on it read what it read.

    Raises:
        ConfigurationError: the variable is not set, or the URL is not allowed.
        DataError: as `remote.query.write_rows`.
    """
    from trainwright.trainer.data.remote.query import ROWS, Question, write_rows

    url, database, name = _url(asked, code_root)
    question = Question(url, database, asked.query, asked.table, asked.order_by or ())
    once = connections.current().generation or uuid4().hex
    key = digest_json(["sql", question.identity, once])
    folder = cache.current().made(key, lambda place: write_rows(question, place))
    rows: list[Any] = [asked.query, asked.table, asked.order_by]
    download_log.note(folder / ROWS, f"sql://{name}/{digest_json(rows).partition(':')[2][:12]}")
    return folder / ROWS


def _url(asked: Query, code_root: Path) -> tuple[str | URL, str, str]:
    """Return a database's URL, how messages name it, and how the evidence does. Raises ConfigurationError."""
    if find_spec("sqlalchemy") is None:
        raise ConfigurationError(
            f"data.use sql reads a database by SQLAlchemy, which {sys.executable} does not have.",
            remedy="Install it there: pip install 'sqlalchemy>=2.0.36,<3'; or write the rows to a file.",
        )
    if asked.url is not None:
        place = asked.url.partition("://")[2].strip("/")
        return _open_url(asked.url, code_root), place, place
    variable, file = asked.url_env, None
    if asked.profile is not None:
        found = connections.profile(asked.profile)
        variable, file = found.url_env, found.url_file
    name = asked.profile or str(variable)
    if variable is not None:
        return connections.variable(variable, holds="a database's URL"), f"the database of {name}", name
    if file is not None:
        return connections.of_file(file, holds="a database's URL"), f"the database of {name}", name
    raise ConfigurationError(
        f"The connection {name!r} of the owner's settings names no database.",
        remedy=f"The workspace's owner sets `connections: {{{name}: {{url_env: VARIABLE}}}}` in settings.yaml.",
        document=DOCUMENT,
    )


def _open_url(url: str, code_root: Path) -> str | URL:
    """Return a URL of the configuration: of a file of SQLite, with its place. Raises ConfigurationError for others."""
    from trainwright.trainer.data.remote.query import sqlite_url

    kind, _, rest = url.partition("://")
    kind = kind.partition("+")[0].lower()
    if kind == "sqlite" and "?" not in rest:
        try:
            path = confine(rest.removeprefix("/"), code_root, key="data.args.url")
            return sqlite_url(path)
        except ConfigurationError as error:
            if meant := error.details.get("near"):
                error.details["changes"] = {"data.args.url": f"sqlite:///{meant}"}
            raise
    database_place(url)
    return url


class _Rows(Query):
    """The rows of a query as a table in a file, which is named by no path."""

    path: Literal[""] = ""
    """Not taken: the query says which rows."""

    def files(self, code_root: Path) -> list[Path]:
        """Return the file of the rows. Raises ConfigurationError, DataError as `fetch_rows`."""
        return [fetch_rows(self, code_root)]

    def file_names(self, code_root: Path) -> list[str]:  # noqa: ARG002 - of files
        """Return a name that says no split."""
        return ["the query"]


class SqlTexts(_Rows, ParquetTexts):
    """Rows of a database, one column of which holds texts."""

    name: ClassVar[str] = "sql"
    endings: ClassVar[tuple[str, ...]] = ()


class Sql(_Rows, Parquet):
    """Rows of a database."""

    name: ClassVar[str] = "sql"
    endings: ClassVar[tuple[str, ...]] = ()
    texts: ClassVar[type[Texts]] = SqlTexts
