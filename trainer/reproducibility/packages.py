"""The set of installed packages, by one rule for the worker that records it and the server that compares it."""

from __future__ import annotations

import json
import re
from importlib import metadata

_FIELD = re.compile(r"^(Name|Version):[ \t]*(\S+)", re.MULTILINE)


def unreleased_packages() -> list[str]:
    """Return the normalised names of distributions that came from a folder or a repository, sorted.

    No package index need have them (PEP 610: `direct_url.json` says where they came from; a wheel's file is a build
    of a released version).
    """
    found = set()
    for distribution in metadata.distributions():
        origin = json.loads(distribution.read_text("direct_url.json") or "{}")
        if "dir_info" in origin or "vcs_info" in origin:
            found.add(str(distribution.metadata["Name"]).lower().replace("_", "-").replace(".", "-"))
    return sorted(found)


def installed_packages() -> dict[str, str]:
    """Return every installed distribution's version by its normalised name (PyPA: lower case, hyphens)."""
    found: dict[str, str] = {}
    for distribution in metadata.distributions():
        text = distribution.read_text("METADATA") or distribution.read_text("PKG-INFO") or ""
        fields = dict(_FIELD.findall(text.partition("\n\n")[0]))  # parsing it all as e-mail takes 20 times as long
        if "Name" in fields:
            name = fields["Name"].lower().replace("_", "-").replace(".", "-")
            found.setdefault(name, fields.get("Version", "unknown"))
    return dict(sorted(found.items()))
