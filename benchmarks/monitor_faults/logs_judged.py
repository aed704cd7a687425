"""Log-only rules of another tool over a folder of logs: `python logs_judged.py TOOL FOLDER` in its environment.

Prints one JSON object: log by name to the ids of what the tool warns of, the gravest first.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path


def by_runmedic(log: Path) -> list[str]:
    """Return the ids of runmedic's warnings and critical findings."""
    from runmedic import checks, roles
    from runmedic.loaders import tabular

    run = tabular.load_jsonl(log)
    found = checks.run_checks(run, roles.detect(run))
    return [one.check for one in found if one.severity in {"critical", "warning"}]


def by_trainproof(log: Path) -> list[str]:
    """Return the ids of trainproof's warnings and failures."""
    from trainproof.epoch import check_epoch

    found = sorted(check_epoch(log)["findings"], key=lambda one: one["level"] != "FAIL")
    return [one["id"] for one in found if one["level"] in {"FAIL", "WARN"}]


TOOLS = {"runmedic": by_runmedic, "trainproof": by_trainproof}

if __name__ == "__main__":
    tool, folder = sys.argv[1:]
    print(json.dumps({log.stem: TOOLS[tool](log) for log in sorted(Path(folder).glob("*.jsonl"))}))
