#!/usr/bin/env python3
"""Validate a training configuration against Trainwright's schema; needs Trainwright, and neither project nor server.

    python validate_config.py config.yaml [--code-root DIR]

The file holds what `create_project` takes as `config`, or what a template of training-patterns holds. A key that does
not exist is named with the nearest that does, and with the change that corrects it. With --code-root the files that it
names (data, model code) are looked for there. Exit code 0: good; 1: found something; 2: the file cannot be read, or
Trainwright is not installed. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
from findings import Outcome, UncheckableError, is_there, run


def main() -> int:
    """Validate, print, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path, help="a YAML file")
    parser.add_argument("--code-root", type=Path, help="folder against which the paths in it are read")
    options = parser.parse_args()
    return run(options.path.name, lambda outcome: check(outcome, options.path, options.code_root))


def check(outcome: Outcome, path: Path, code_root: Path | None) -> None:
    """Check the file. Raises UncheckableError."""
    try:
        from trainwright.trainer.base.errors import TrainwrightError
        from trainwright.trainer.config import load_yaml, parse_config
    except ImportError as error:
        raise UncheckableError(
            f"Trainwright cannot be imported: {error}.", "Install it: the schema is in it."
        ) from error
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UncheckableError(f"{path} cannot be read: {error}.", "Name a YAML file in UTF-8.") from error
    try:
        values = load_yaml(text, source=path.name)
        parse_config(values)
    except TrainwrightError as error:
        changes = error.details.get("changes") or {}
        for problem in error.details.get("problems") or [error.message]:
            outcome.found("schema", str(problem), _remedy(changes) or error.remedy, document=error.document)
        return
    if code_root is not None:
        _check_files(outcome, values, code_root)
    else:
        outcome.not_checked.append("whether the files that it names exist: give --code-root")


def _remedy(changes: dict[str, Any]) -> str:
    lines = [f"{key}: {value!r}" if value is not None else f"take out {key}" for key, value in changes.items()]
    return "; ".join(lines)


def _check_files(outcome: Outcome, values: dict[str, Any], code_root: Path) -> None:
    """Look for the Python files that `use` names, and for the path of the data."""
    for section in ("model", "data", "task", "trainer", "loss", "objective"):
        part = values.get(section)
        use = part.get("use") if isinstance(part, dict) else None
        name, colon, _ = str(use or "").partition(":")
        if colon and name.endswith(".py") and not is_there(code_root / name, is_file=True):
            text = f"{section}.use names {name}, which is not in {code_root}"
            outcome.found("missing_file", text, "Write it there, or correct the path.")
    place = ((values.get("data") or {}).get("args") or {}).get("path")
    if isinstance(place, str) and "://" not in place and not is_there(code_root / place):
        text = f"data.args.path names {place}, which is not in {code_root}"
        outcome.found("missing_file", text, "Put the data there, or correct the path.")


if __name__ == "__main__":
    sys.exit(main())
