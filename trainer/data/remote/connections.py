"""Connections: where the credentials of remote data are, never what they are. Light."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from trainwright.trainer.base.errors import ConfigurationError, near_matches
from trainwright.trainer.base.records import Strict

DOCUMENT = "configs/data_elsewhere.md"
Variable = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,127}$")]
"""Name of an environment variable."""


VARIABLES = ("url_env", "endpoint_env", "key_env", "secret_env", "token_env")


class Connection(Strict):
    """A named connection of the owner's settings: environment variables, or files, that hold its parts."""

    url_env: Variable | None = None
    """Holds a database's URL, with its password."""
    url_file: str | None = None
    """File with a database's URL, absolute; readable by its owner alone."""
    endpoint_env: Variable | None = None
    """Holds the address of a store's server, where it is not the usual one."""
    key_env: Variable | None = None
    secret_env: Variable | None = None
    token_env: Variable | None = None
    """Hold a store's access key, secret key, and session token or bearer token."""


@dataclass(frozen=True)
class Access:
    """What a run may use to fetch its data."""

    generation: str = ""
    """Run by which the data were first fetched: planning's smoke run, or this run. Rows of one are the same rows."""
    connections: Mapping[str, Connection] = field(default_factory=dict)
    values: Mapping[str, str] = field(default_factory=dict, repr=False)
    """What the named variables hold, once they are out of the environment."""


_current = Access()


def use(access: Access) -> None:
    """Fetch with this access in this process from now on."""
    global _current  # noqa: PLW0603 - one run per process
    _current = access


def current() -> Access:
    """Return the access of this process."""
    return _current


def variables_of(args: Mapping[str, Any], known: Mapping[str, Connection]) -> set[str]:
    """Return the environment variables that a source's arguments name, and those of the connections."""
    storage = args.get("storage")
    held = [args, storage if isinstance(storage, dict) else {}, *(one.model_dump() for one in known.values())]
    return {str(each[name]) for each in held for name in VARIABLES if isinstance(each.get(name), str)}


def taken(args: Mapping[str, Any], access: Access) -> Access:
    """Take the named variables out of this process's environment, where user code would see them."""
    names = variables_of(args, access.connections)
    return replace(access, values={name: os.environ.pop(name) for name in sorted(names) if name in os.environ})


def use_order(args: Mapping[str, Any], order: Mapping[str, Any]) -> None:
    """Fetch with what an order of the server's allows, taken out of the environment before user code runs."""
    known = {name: Connection.model_validate(one) for name, one in order["connections"].items()}
    use(taken(args, Access(order.get("generation", ""), known)))


def profile(name: str) -> Connection:
    """Return a connection of the owner's settings. Raises ConfigurationError when there is none of this name."""
    found = _current.connections.get(name)
    if found is None:
        raise ConfigurationError(
            f"There is no connection {name!r} in the owner's settings.{near_matches(name, _current.connections)}",
            remedy=f"The workspace's owner adds `connections: {{{name}: {{url_env: NAME_OF_A_VARIABLE}}}}` to "
            "settings.yaml; or name a variable of the environment yourself, with `url_env` or `storage.key_env`.",
            document=DOCUMENT,
        )
    return found


def variable(name: str, *, holds: str) -> str:
    """Return what an environment variable holds. Raises ConfigurationError where it is not set."""
    value = (_current.values.get(name) or os.environ.get(name, "")).strip()
    if not value:
        raise ConfigurationError(
            f"The environment variable {name}, which is to hold {holds}, is not set in the server's environment.",
            remedy=f"The owner sets {name} where the server is started (the `env` of the client's server entry), and "
            "restarts it. Do not write the value into the configuration.",
            document=DOCUMENT,
        )
    return value


def of_file(path: str, *, holds: str) -> str:
    """Return what a file of the owner's holds. Raises ConfigurationError where it cannot be read."""
    try:
        value = Path(path).expanduser().read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        value = ""
    if not value:
        raise ConfigurationError(
            f"The owner's file that is to hold {holds} cannot be read, or is empty.",
            remedy="The workspace's owner corrects `connections` in settings.yaml.",
            document=DOCUMENT,
        )
    return value
