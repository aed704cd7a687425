"""The rows by value: what makes every other figure meaningless if it does not hold comes first."""

from __future__ import annotations

import importlib

ALL = (
    "foundations", "resuming", "arithmetic", "memory", "machine", "probing", "frameworks", "processes", "server",
    "speed",
)  # fmt: skip
for _name in ALL:
    importlib.import_module(f"rows.{_name}")  # which registers its checks, in this order
