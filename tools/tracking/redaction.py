"""Redaction: errors of trackers without the credentials that a library may have put into them."""

from __future__ import annotations

import os
import re

from trainwright.tools.launchers.environment import is_secret

_IN_ADDRESS = re.compile(r"(://)[^/\s@]*@")
_IN_QUERY = re.compile(r"(?i)((?:token|key|secret|password)=)[^&\s]+")
LEAST = 4
"""Shorter values are no credentials, and would take common words out."""


def redacted(text: str) -> str:
    """Return a text without the values of this process's secret variables, and without passwords in addresses."""
    for name, value in os.environ.items():
        if len(value) >= LEAST and is_secret(name, value):
            text = text.replace(value, "…")
    return _IN_QUERY.sub(r"\1…", _IN_ADDRESS.sub(r"\1…@", text))
