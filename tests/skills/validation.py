"""Running of a validation script as a user does, for the tests of them."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from trainwright.tools.documents import SKILL

SCRIPTS = (SKILL.parent / "validation-scripts" / "scripts").resolve()
GOOD, FOUND, UNCHECKED = 0, 1, 2
WORDS = {GOOD: "good", FOUND: "found", UNCHECKED: "not_checked"}


def run(script: str, *arguments: object, options: tuple[str, ...] = ("-P",)) -> tuple[int, dict[str, Any]]:
    """Run a script as a user does. Returns its exit code, and the object in its last line with the checks found."""
    command = [sys.executable, *options, str(SCRIPTS / f"validate_{script}.py"), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stderr == "", done.stderr
    answer = json.loads(done.stdout.splitlines()[-1])
    assert answer["verdict"] == WORDS[done.returncode], answer
    assert done.returncode == GOOD or answer.get("remedy") or all(one["remedy"] for one in answer["findings"])
    answer["checks_found"] = [one["check"] for one in answer.get("findings", [])]
    return done.returncode, answer
