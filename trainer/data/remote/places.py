"""Places of data elsewhere: a URL of a configuration leads where its text says, and nowhere else. Light."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, unquote

from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.base.secrets import without_secrets
from trainwright.trainer.data.remote.connections import DOCUMENT

DATABASES = ("postgresql", "postgres", "mysql", "mariadb", "mssql", "oracle")
"""Databases that a configuration may name by URL, beside files of SQLite: none of them reads files of this machine."""
DATABASE = re.compile(
    r"(?P<place>(?P<kind>[a-z]+)(\+[a-z0-9_]+)?://([\w.+-]+@)?([A-Za-z0-9._-]*|\[[0-9A-Fa-f:.]+\])(:\d+)?(/[\w.$-]*)?)"
    r"(\?(?P<parameters>[^#\s]*))?",
    re.ASCII,
)
"""scheme://user@host:port/name?parameters: drivers read a second @, a comma or a % differently than people do."""
PARAMETERS = frozenset(
    {"application_name", "charset", "client_encoding", "connect_timeout", "encrypt", "service_name", "sslmode"}
)
"""Parameters of a database's URL that choose neither another server nor a file of this machine."""
UP = re.compile(r"[/\\?]")


def require_plain_path(url: str, *, key: str = "data.args.path") -> None:
    """Raise ConfigurationError where a URL leads elsewhere than it reads: by `..`, a name before @, odd characters."""
    plain = url
    while (decoded := unquote(plain)) != plain:
        plain = decoded
    scheme, _, rest = plain.partition("://")
    segments = UP.split(rest)
    is_named = scheme.lower() in ("http", "https") and "@" in segments[0]
    if {".", ".."} & set(segments) or is_named or "\\" in plain or not plain.isprintable():
        raise ConfigurationError(
            f"`{key}` = {without_secrets(url, [])!r} leads elsewhere than it reads.",
            remedy="Write the path as the store has it, without '.', '..', backslashes, control characters, and names "
            "before an @.",
            document=DOCUMENT,
        )


def database_place(url: str) -> str:
    """Return the URL of a database server without its parameters.

    Raises:
        ConfigurationError: another kind of database; or a URL that may lead to another server than it reads, by its
            parameters (`host`, `service`, …) or its form.
    """
    found = DATABASE.fullmatch(url)
    others = set()
    if found is not None:
        others = {name for name, _ in parse_qsl(found["parameters"] or "", keep_blank_values=True)} - PARAMETERS
    if found is None or others or found["kind"] not in DATABASES:
        why = f": its parameter {sorted(others)[0]!r} may name another server, or a file" if others else ""
        raise ConfigurationError(
            f"`data.args.url` = {without_secrets(url, [])!r} is not a URL that a configuration may hold{why}.",
            remedy=f"Use sqlite:///file.db (a file under code_root), or {', '.join(DATABASES)} as "
            f"postgresql://user@host:5432/name without a password, with no parameters but "
            f"{', '.join(sorted(PARAMETERS))}; the owner may put any other into an environment variable: "
            "`url_env: NAME`.",
            document=DOCUMENT,
        )
    return found["place"]
