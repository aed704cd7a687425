#!/usr/bin/env python3
"""Validate a pipeline without running it: dvc.yaml, and Trainwright's trainwright.yaml beside it.

    python validate_pipeline.py [FOLDER or dvc.yaml]

Checked are files that a stage depends on and neither a stage makes nor the folder holds, cycles, outputs that two
stages claim, stages without a command, parameters that params.yaml lacks, and commands that name a script which is not
there. dvc.yaml needs PyYAML and not DVC; trainwright.yaml is checked where Trainwright is installed. Exit code 0: good;
1: found something; 2: cannot be read. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import graphlib
import posixpath
import shlex
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
from findings import Outcome, UncheckableError, is_there, run

REMOTE = "://"
MAX_CHARACTERS = 4_000_000
"""Of a document with its aliases written out: a few lines can stand for more than any memory holds."""
LISTS = ("deps", "outs", "metrics", "plots", "params")
DVC, DEFINITION, PARAMETERS = "dvc.yaml", "trainwright.yaml", "params.yaml"


def main() -> int:
    """Validate, print, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path, nargs="?", default=Path(), help="folder, or its dvc.yaml")
    path = parser.parse_args().path
    file = path if path.suffix in {".yaml", ".yml"} else path / DVC
    return run(file.name, lambda outcome: check(outcome, file))


def check(outcome: Outcome, file: Path) -> None:
    """Check a dvc.yaml and the definition beside it. Raises UncheckableError."""
    document = _yaml(file)
    stages = document.get("stages") if isinstance(document, dict) else None
    if not isinstance(stages, dict) or not stages:
        outcome.found("no_stages", f"{file.name} has no stages", "Write `stages:` with a name and a `cmd` for each.")
        return
    stages = {str(name): one for name, one in stages.items()}
    plain = {name: one for name, one in stages.items() if _is_plain(outcome, name, one)}
    makers = _makers(outcome, plain)
    needs = {name: _paths(one.get("deps"), one.get("wdir")) for name, one in plain.items()}
    for name, paths in needs.items():
        for path in (one for one in paths if _maker(one, makers) is None and not is_there(file.parent / one)):
            if REMOTE in path or len(plain) < len(stages):  # a stage that could not be read may make it
                outcome.not_checked.append(f"{name}: whether {path} is there")
                continue
            text = f"{name} depends on {path}, which no stage makes and the folder does not hold"
            outcome.found("missing_dependency", text, "Correct the path, or add the stage that makes it.")
    _check_order(outcome, needs, makers)
    for name, one in plain.items():
        _check_command(outcome, file.parent, name, one)
        _check_parameters(outcome, file.parent, name, one)
    outcome.facts = {"stages": len(stages)}
    if (file.parent / DEFINITION).is_file():
        _check_definition(outcome, file.parent / DEFINITION)


def _yaml(file: Path) -> Any:
    try:
        import yaml
    except ImportError as error:
        raise UncheckableError("PyYAML is not installed.", "pip install pyyaml") from error
    try:
        document = yaml.safe_load(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UncheckableError(f"{file} cannot be read: {error.strerror}.", f"Name the folder of a {DVC}.") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        what = " ".join(str(error).split())[:200]
        raise UncheckableError(f"{file.name} is no YAML: {what}.", "Correct that line.") from error
    if _is_beyond(document):
        text = f"{file.name} has more than {MAX_CHARACTERS:,} characters, with its aliases written out."
        raise UncheckableError(text, "Write it without aliases (`*name`) that hold others.")
    return document


def _is_beyond(document: Any) -> bool:
    """Whether a document is too large, or within itself, once its aliases are written out."""
    left, size = [document], 0
    while left and size <= MAX_CHARACTERS:
        one = left.pop()
        size += len(one) if isinstance(one, str) else 1
        left += [*one, *one.values()] if isinstance(one, dict) else one if isinstance(one, list) else []
    return size > MAX_CHARACTERS


def _is_plain(outcome: Outcome, name: str, stage: Any) -> bool:
    """Whether a stage can be read as it stands: DVC's loops and variables would have to be resolved first."""
    if isinstance(stage, dict) and not {"foreach", "matrix"} & set(stage) and "${" not in str(stage):
        wrong = [key for key in LISTS if not _is_list(stage.get(key))]
        wrong += [] if isinstance(stage.get("wdir"), str | None) else ["wdir"]
        for key in wrong:
            what = "a path" if key == "wdir" else "a list of names, or of names with their options"
            text = f"{key} of {name} is {str(stage[key])[:80]!r}, and must be {what}"
            outcome.found("stage", text, f"Write `{key}: PATH`." if key == "wdir" else f"Write `{key}: [NAME, …]`.")
        return not wrong
    if isinstance(stage, dict):
        outcome.not_checked.append(f"stage {name}: it has a loop or a variable, which `dvc repro --dry` resolves")
    else:
        outcome.found("stage", f"{name} is no mapping", "A stage has `cmd`, and `deps` and `outs` as lists.")
    return False


def _is_list(given: Any) -> bool:
    """Whether deps, outs and their like are as DVC takes them: names, or mappings of a name to its options."""
    entries = given if isinstance(given, list) else [] if given is None else [given]
    return all(isinstance(one, str) or (isinstance(one, dict) and all(map(_is_name, one))) for one in entries)


def _is_name(given: Any) -> bool:
    return isinstance(given, str)


def _paths(listed: Any, folder: Any = None) -> list[str]:
    """Return normalized paths of deps or outs: texts, or mappings of one path to its options."""
    entries = [listed] if isinstance(listed, str | dict) else listed or []
    names = [name for one in entries for name in (one if isinstance(one, dict) else [one])]
    return [name if REMOTE in name else posixpath.normpath(posixpath.join(str(folder or ""), name)) for name in names]


def _makers(outcome: Outcome, stages: dict[str, Any]) -> dict[str, str]:
    """Return the stage that makes each output."""
    makers: dict[str, str] = {}
    for name, one in stages.items():
        for path in [found for key in ("outs", "metrics", "plots") for found in _paths(one.get(key), one.get("wdir"))]:
            if path in makers and makers[path] != name:
                text = f"{path} is made by {makers[path]} and by {name}"
                outcome.found("two_makers", text, "Let one stage make it, or give the other another name.")
            makers[path] = name
    return makers


def _maker(path: str, makers: dict[str, str]) -> str | None:
    """Return the stage that makes a path, a folder around it, or something in it."""
    near = (one for one in makers if one == path or path.startswith(f"{one}/") or one.startswith(f"{path}/"))
    return next((makers[one] for one in near), None)


def _check_order(outcome: Outcome, needs: dict[str, list[str]], makers: dict[str, str]) -> None:
    edges = {name: {found for path in paths if (found := _maker(path, makers))} for name, paths in needs.items()}
    try:
        graphlib.TopologicalSorter(edges).prepare()
    except graphlib.CycleError as error:
        text = "each waits for the one before it: " + " -> ".join(error.args[1])
        outcome.found("cycle", text, "Take one of these dependencies out: no stage could run first.")


def _check_command(outcome: Outcome, folder: Path, name: str, stage: dict[str, Any]) -> None:
    commands = stage.get("cmd")
    lines = commands if isinstance(commands, list) else [commands]
    if not all(isinstance(line, str) and line.strip() for line in lines):
        outcome.found("no_command", f"{name} has no command", "Give it a `cmd`.")
        return
    for line in lines:
        try:
            words = shlex.split(line, comments=True)
        except ValueError as error:
            outcome.found("command", f"{name}: {line!r} is no command line ({error})", "Close the quotation.")
            continue
        place = folder / str(stage.get("wdir") or "")
        for word in words[1:2] if words and Path(words[0]).name.startswith("python") else words[:1]:
            if word.endswith(".py") and not is_there(place / word, is_file=True):
                text = f"{name} runs {word}, which is not there"
                outcome.found("missing_script", text, "Write the script, or correct the path.")


def _check_parameters(outcome: Outcome, folder: Path, name: str, stage: dict[str, Any]) -> None:
    given = stage.get("params") or []
    entries = given if isinstance(given, list) else [given]
    listed = [one if isinstance(one, dict) else {PARAMETERS: [one]} for one in entries]
    for file, keys in [pair for one in listed for pair in one.items()]:
        path = folder / str(stage.get("wdir") or "") / file
        if not is_there(path, is_file=True):
            outcome.found("missing_parameters", f"{name} reads {file}, which is not there", "Write that file.")
        elif not isinstance(keys, list | None):
            text = f"{name} reads {str(keys)[:80]!r} of {file}, and must have a list of keys there"
            outcome.found("stage", text, "Write them as a list, or leave them out for the whole file.")
        elif path.suffix in {".yaml", ".yml"}:
            _check_keys(outcome, name, path, keys or [])


def _check_keys(outcome: Outcome, name: str, path: Path, keys: list[Any]) -> None:
    """Look for keys in a file of parameters."""
    try:
        values = _yaml(path)
    except UncheckableError as error:
        outcome.found("parameters", f"{name} reads {path.name}: {error}", error.remedy)
        return
    for key in keys:
        if not _has(values, str(key)):
            text = f"{name} reads {key} of {path.name}, which has no such key"
            outcome.found("missing_parameter", text, "Add the key, or correct its name.")


def _has(values: Any, key: str) -> bool:
    for part in key.split("."):
        if not isinstance(values, dict) or part not in values:
            return False
        values = values[part]
    return True


def _check_definition(outcome: Outcome, path: Path) -> None:
    """Check a pipeline's definition by Trainwright's own reader."""
    try:
        from trainwright.tools.pipeline import read_definition
        from trainwright.tools.projects import settled_values
        from trainwright.trainer.base.errors import TrainwrightError
    except ImportError:
        outcome.not_checked.append(f"{path.name}: Trainwright is not installed")
        return
    try:
        definition = read_definition(path)
        settled_values(definition.config, definition.goal)
    except TrainwrightError as error:
        for problem in error.details.get("problems") or [error.message]:
            outcome.found("definition", f"{path.name}: {problem}", error.remedy)


if __name__ == "__main__":
    sys.exit(main())
