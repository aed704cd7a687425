"""Storage: where remote files are, and how a store is opened with credentials that no configuration holds."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote

from trainwright.trainer.base.download_log import is_remote
from trainwright.trainer.base.errors import ConfigurationError, near_matches
from trainwright.trainer.base.secrets import plain, without_secrets
from trainwright.trainer.base.section import Section
from trainwright.trainer.data.remote import connections
from trainwright.trainer.data.remote.connections import DOCUMENT, Variable

PACKAGES = {
    "s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "az": "adlfs", "abfs": "adlfs", "abfss": "adlfs",
    "hf": "huggingface_hub", "https": "aiohttp", "http": "aiohttp", "memory": "fsspec",
}  # fmt: skip
"""Schemes of remote files, and the package that reads each. Those that would read this machine's files are not here."""
SECONDS = 20
"""Until a store that does not answer counts as gone."""


class Storage(Section):
    """Credentials of a store, by the names of what holds them; left out: as its library finds them by itself
    (for S3: AWS_ACCESS_KEY_ID and its like, or a profile of ~/.aws)."""

    profile: str | None = None
    """A connection of the owner's settings; it replaces the others."""
    aws_profile: str | None = None
    """A profile of the owner's ~/.aws."""
    endpoint_env: Variable | None = None
    key_env: Variable | None = None
    secret_env: Variable | None = None
    token_env: Variable | None = None
    anonymous: bool = False
    """Whether the store is read without credentials, as public buckets are."""


@dataclass(frozen=True)
class Opened:
    """A store that can be read."""

    files: Any
    """A file system of fsspec."""
    secrets: list[str] = field(default_factory=list, repr=False)


def scheme_of(url: str) -> str:
    """Return a URL's scheme, one of PACKAGES. Raises ConfigurationError for another, a chain, or a path with `..`."""
    scheme = url.partition("://")[0].lower()
    if "::" in url or scheme not in PACKAGES:
        raise ConfigurationError(
            f"`data.args.path` = {without_secrets(url, [])!r}: remote files are not read by "
            f"{'a chain of schemes' if '::' in url else repr(scheme)}.{near_matches(scheme, PACKAGES)}",
            remedy=f"Use one of {', '.join(PACKAGES)}; files of this machine are paths relative to code_root.",
            document=DOCUMENT,
        )
    require_plain_path(url)
    return scheme


def opened(url: str, storage: Storage) -> Opened:
    """Return the store of a URL. Raises ConfigurationError: its package, or a variable, is missing."""
    import fsspec

    scheme = scheme_of(url)
    values = _values(storage)
    try:
        files = fsspec.filesystem(scheme, skip_instance_cache=scheme != "memory", **_options(scheme, storage, values))
    except ImportError:
        package = PACKAGES[scheme]
        raise ConfigurationError(
            f"{scheme}:// is read by the package {package}, which is not installed here.",
            remedy=f"The owner installs it: pip install '{package}'. Or copy the files under code_root.",
            document=DOCUMENT,
        ) from None
    except Exception as error:  # noqa: BLE001 - of the store's library: a profile that is not there, for example
        raise ConfigurationError(
            f"The store of {url.split('?', maxsplit=1)[0]} cannot be opened: {plain(error, _secrets(values))}.",
            remedy="Correct `data.args.storage`, or what its variables hold.",
            document=DOCUMENT,
        ) from None
    return Opened(files, _secrets(values))


def _values(storage: Storage) -> dict[str, str]:
    """Return what the named variables hold: endpoint, key, secret, token."""
    named: Any = storage if storage.profile is None else connections.profile(storage.profile)
    names = {part: getattr(named, f"{part}_env") for part in ("endpoint", "key", "secret", "token")}
    return {
        part: connections.variable(name, holds=f"the {part} of the store")
        for part, name in names.items()
        if name is not None
    }


def _secrets(values: dict[str, str]) -> list[str]:
    return [values[part] for part in ("secret", "token") if part in values]


def _options(scheme: str, storage: Storage, values: dict[str, str]) -> dict[str, Any]:
    """Return the options of fsspec's file system for a scheme."""
    endpoint, token = values.get("endpoint"), values.get("token")
    if scheme in ("s3", "s3a"):
        limits = {"connect_timeout": SECONDS, "read_timeout": SECONDS, "retries": {"max_attempts": 2}}
        given = {
            "endpoint_url": endpoint, "key": values.get("key"), "secret": values.get("secret"), "token": token,
            "profile": storage.aws_profile,
        }  # fmt: skip
        return {"anon": storage.anonymous, "config_kwargs": limits, "use_listings_cache": False} | _known(given)
    if scheme in ("http", "https"):
        import aiohttp

        header = {"headers": {"Authorization": f"Bearer {token}"}} if token else {}
        timeout = aiohttp.ClientTimeout(sock_connect=SECONDS, sock_read=SECONDS)
        return {"client_kwargs": {"timeout": timeout, **header}, "use_listings_cache": False}
    if scheme in ("az", "abfs", "abfss"):
        return {"anon": storage.anonymous} | _known(
            {"account_name": values.get("key"), "account_key": values.get("secret"), "sas_token": token}
        )
    if scheme in ("gs", "gcs"):
        return _known({"token": "anon" if storage.anonymous else token, "endpoint_url": endpoint})
    return _known({"token": token, "endpoint": endpoint}) if scheme == "hf" else {}


def _known(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


# Places of data elsewhere: a URL of a configuration leads where its text says, and nowhere else. Light.

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


def remote_places(use: str, args: Mapping[str, Any]) -> Iterator[str]:
    """Yield the remote places that a source's arguments name: URLs without parameters, and databases by name.

    Raises ConfigurationError for a URL that may lead elsewhere than it reads.
    """
    path = args.get("path")
    for each in path if isinstance(path, list) else [path]:
        if is_remote(each):
            require_plain_path(str(each))
            yield str(each).split("?")[0]
    if name := args.get("url_env") or args.get("profile"):
        yield f"sql://{name}"
    url = args.get("url")
    if is_remote(url) and use != "sql":
        require_plain_path(str(url), key="data.args.url")
        yield str(url).split("?")[0]
    elif is_remote(url) and not str(url).startswith("sqlite"):
        yield database_place(str(url))
