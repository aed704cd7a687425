"""Settings of the service: environment variables, each with its default. See README.md and .env.example."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import NamedTuple

from limits import parse

PLACEHOLDER = "_your_key_here"
"""How the key of .env.example ends."""


class Settings(NamedTuple):
    """What whoever runs the service may choose."""

    key: str = ""
    """That callers send as `Authorization: Bearer …`; empty: everything is open."""
    rate: str = "600/minute"
    """Most predictions of one client: `10/second`, `600/minute`; empty: no limit."""
    most_bytes: int = 8_388_608
    """Of a request's body."""
    most_rows: int = 256
    """Of a request."""
    drift_log: str = ""
    """File for counts of the inputs, a JSON object a line; empty: they are in /metrics alone."""
    drift_seconds: float = 60.0
    """Between two lines."""
    grace_seconds: int = 20
    """For requests under way when the service is told to stop."""
    host: str = "127.0.0.1"
    port: int = 8000
    threads: int = 1
    """Of ONNX Runtime for one prediction."""


def read_settings(environment: Mapping[str, str] = os.environ) -> Settings:
    """Return the settings of the variables SERVICE_KEY, SERVICE_RATE, … Raises SystemExit, naming a wrong one."""
    found: dict[str, object] = {}
    for name, default in Settings._field_defaults.items():
        given = environment.get(f"SERVICE_{name.upper()}")
        if given is None:
            continue
        try:
            found[name] = type(default)(given)
        except ValueError:
            raise SystemExit(f"SERVICE_{name.upper()} is {given!r}; it must be a number such as {default}.") from None
    settings = Settings(**found)  # type: ignore[arg-type]
    for name, must in _wrong(settings):
        raise SystemExit(f"SERVICE_{name.upper()} is {getattr(settings, name)!r}; it must be {must}.")
    if settings.key.endswith(PLACEHOLDER):
        raise SystemExit("SERVICE_KEY is the one of .env.example, which anybody can guess: openssl rand -hex 32")
    return settings


def _wrong(settings: Settings) -> list[tuple[str, str]]:
    """Return the settings with which the service could answer nothing, and what each must be."""
    wanted: dict[str, tuple[bool, str]] = {
        "rate": (_is_rate(settings.rate), "such as 600/minute or 10/second, or empty"),
        "most_bytes": (settings.most_bytes > 0, "above 0"),
        "most_rows": (settings.most_rows > 0, "above 0"),
        "drift_seconds": (0 < settings.drift_seconds < math.inf, "above 0 and finite"),
        "grace_seconds": (settings.grace_seconds >= 0, "0 or more"),
        "port": (0 <= settings.port <= 65535, "0 to 65535"),
        "threads": (settings.threads >= 0, "0 (all cores) or more"),
    }
    return [(name, must) for name, (is_right, must) in wanted.items() if not is_right]


def _is_rate(text: str) -> bool:
    """Return whether a rate is empty, or one that lets at least one request pass."""
    if not text:
        return True
    try:
        return parse(text).amount > 0
    except ValueError:
        return False
