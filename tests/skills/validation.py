"""Running of validation scripts for the tests of them: in this process, or as a user does."""

from __future__ import annotations

import io
import json
import runpy
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from typing import Any

import pytest

from trainwright.tools.documents import SKILL

SCRIPTS = (SKILL.parent / "validation-scripts" / "scripts").resolve()
GOOD, FOUND, UNCHECKED = 0, 1, 2
WORDS = {GOOD: "good", FOUND: "found", UNCHECKED: "not_checked"}


def run(script: str, *arguments: object, options: tuple[str, ...] | None = None) -> tuple[int, dict[str, Any]]:
    """Run a script. Returns its exit code, and the object in its last line with the checks found.

    Args:
        options: of the interpreter that runs it as a user does; None: it is run here, without a start.
    """
    path, given = str(SCRIPTS / f"validate_{script}.py"), list(map(str, arguments))
    if options is None:
        code, output = _run_here(path, given)
    else:
        done = subprocess.run([sys.executable, *options, path, *given], capture_output=True, text=True, check=False)
        assert done.stderr == "", done.stderr
        code, output = done.returncode, done.stdout
    answer = json.loads(output.splitlines()[-1])
    assert answer["verdict"] == WORDS[code], answer
    assert code == GOOD or answer.get("remedy") or all(one["remedy"] for one in answer["findings"])
    answer["checks_found"] = [one["check"] for one in answer.get("findings", [])]
    return code, answer


def _run_here(path: str, arguments: list[str]) -> tuple[int, str]:
    output, errors = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(output), redirect_stderr(errors):
        patch.setattr(sys, "argv", [path, *arguments])
        patch.setattr(sys, "path", list(sys.path))
        with pytest.raises(SystemExit) as ended:
            runpy.run_path(path, run_name="__main__")
    assert errors.getvalue() == ""
    return int(ended.value.code or 0), output.getvalue()
