"""Locations outside of this machine that a run's data come from: what the owner lets it reach, and by which names."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any

from trainwright.tools.workspace.settings import Settings
from trainwright.trainer.base.errors import ConfigurationError, near_matches
from trainwright.trainer.config import TrainingConfig
from trainwright.trainer.data.remote.connections import Connection, variables_of
from trainwright.trainer.data.remote.storage import remote_places

DOCUMENT = "configs/data_elsewhere.md"


def connections(settings: Settings, config: TrainingConfig) -> dict[str, Connection]:
    """Return the owner's connections that a configuration names.

    Raises:
        ConfigurationError: there is none of a name, the owner lets no data come from a place, or a URL may lead
            elsewhere than it reads.
    """
    args = config.data.args if config.data is not None else {}
    for place in [] if config.data is None else remote_places(config.data.use, args):
        if not any(fnmatchcase(place, pattern) for pattern in settings.data_locations):
            raise ConfigurationError(
                f"The owner's settings let no data come from {place}.",
                remedy=f"The workspace's owner adds {_pattern(place)!r} to `data_locations` in settings.yaml; or copy "
                "the data under code_root.",
                document=DOCUMENT,
            )
    for name in sorted(variables_of(args, {})):
        if not settings.gives_to_data(name):
            raise ConfigurationError(
                f"The owner's settings give the variable {name} to no data ({', '.join(settings.data_variables)}).",
                remedy=f"The workspace's owner adds {name!r} to `data_variables` in settings.yaml, or sets a variable "
                "that fits; or use a connection of theirs: `profile: NAME`.",
                document=DOCUMENT,
            )
    return {name: _known(settings, name) for name in _names(args)}


def _known(settings: Settings, name: str) -> Connection:
    found = settings.connections.get(name)
    if found is None:
        raise ConfigurationError(
            f"There is no connection {name!r} in the owner's settings.{near_matches(name, settings.connections)}",
            remedy=f"The workspace's owner adds `connections: {{{name}: {{url_env: NAME_OF_A_VARIABLE}}}}` to "
            "settings.yaml; or name variables of the environment yourself: `url_env`, or `storage.key_env`.",
            document=DOCUMENT,
        )
    return found


def _pattern(place: str) -> str:
    scheme, _, rest = place.partition("://")
    return place if scheme == "sql" else f"{scheme}://{rest.partition('/')[0]}/*"


def _names(args: dict[str, Any]) -> Iterator[str]:
    storage = args.get("storage")
    for held in (args, storage if isinstance(storage, dict) else {}):
        if isinstance(held.get("profile"), str):
            yield held["profile"]
