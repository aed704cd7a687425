"""Conformance suite as an npm package: what a revision requires of servers, and how a server fared.

Its own exit status and summary count only what a revision scores; the checks that it writes have everything.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import yaml

REVISIONS = ("2026-07-28", "2025-11-25")
MAX_SECONDS = 600
ABSENT = "it did not run"
PACKAGE = Path("@modelcontextprotocol", "conformance")
FOLDER = re.compile(r"server-(?P<scenario>.+)-\d{4}-\d\d-\d\dT[\d-]+Z")


class Suite(NamedTuple):
    """Where it lies."""

    node: Path
    package: Path

    @classmethod
    def of(cls, modules: Path) -> Suite:
        """Return the suite in a folder `node_modules`. Raises SystemExit where it or Node is not there."""
        own = next(iter(modules.glob("node-*/bin/node")), None)
        node = own or shutil.which("node")
        if node is None or not (modules / PACKAGE).is_dir():
            raise SystemExit(f"{modules} has no Node or no suite in it: `make conformance` installs both.")
        return cls(Path(node).absolute(), (modules / PACKAGE).absolute())

    def scenarios(self, revision: str) -> set[str]:
        """Return the scenarios for servers, those that are not scored among them."""
        listed = yaml.safe_load((self.package / "requirements" / f"{revision}.yaml").read_text(encoding="utf-8"))
        unscored = {entry["scenario"] for entry in listed["not_scored"] if entry["leg"] == "server"}
        return unscored | set(listed["server"])

    def run(self, address: str, revision: str, folder: Path) -> dict[str, list[str]]:
        """Return of each scenario of a revision what failed in it; nothing: it passed."""
        program = [str(self.node), str(self.package / "dist" / "index.js"), "server", "--url", address]
        asked = [*program, "--requirements", revision, "-o", str(folder)]
        done = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=MAX_SECONDS)
        found = {scenario: [ABSENT] for scenario in self.scenarios(revision)}
        for file in folder.glob("*/checks.json"):
            named = FOLDER.fullmatch(file.parent.name)
            if named is not None:
                found[named["scenario"]] = _failures(file)
        if all(failures == [ABSENT] for failures in found.values()):
            raise SystemExit(f"The suite did not run: {done.stdout[-2000:]}{done.stderr[-2000:]}")
        return found


def _failures(file: Path) -> list[str]:
    checks = json.loads(file.read_text(encoding="utf-8"))
    failed = [check for check in checks if check["status"] == "FAILURE"]
    return [f"{check['id']}: {check.get('errorMessage') or check['description']}" for check in failed]
