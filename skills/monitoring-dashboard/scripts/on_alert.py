"""One line in a log for every alert: the command of `notify` in the owner's settings.

on_alert.py FILE    the alert comes as JSON on standard input
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path

FIELDS = ("severity", "project", "run_id", "id", "message", "document")


def main(arguments: list[str]) -> int:
    """Append the alert to the file. Returns the exit status: 2 for wrong arguments, 1 for what is no alert."""
    if len(arguments) != 1:
        sys.stderr.write(f"{__doc__}\n")
        return 2
    try:
        alert = json.loads(sys.stdin.read())
        words = [str(alert[name]) for name in FIELDS if alert.get(name)]
    except (ValueError, AttributeError):
        sys.stderr.write("The standard input is no alert.\n")
        return 1
    line = " ".join([datetime.now(UTC).isoformat(timespec="seconds"), *words])
    with Path(arguments[0]).open("a", encoding="utf-8") as log:
        log.write(" ".join(line.split()) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
