"""Files that a configuration names: there, inside the code root, and with the callable in them. Nothing is imported."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trainwright.trainer.base.download_log import is_remote
from trainwright.trainer.base.errors import ConfigurationError, near, near_matches
from trainwright.trainer.base.paths import MAX_NAMED, confine, confine_folder, matching
from trainwright.trainer.config import TrainingConfig
from trainwright.trainer.data.dvc import tracked_by
from trainwright.trainer.data.remote.storage import database_place, scheme_of
from trainwright.trainer.data.validation.expectations import read_expectations
from trainwright.trainer.metrics.evaluate import require_own_name
from trainwright.trainer.models.weights import weights_folder
from trainwright.trainer.user_code.entries import code_file, entry_file

FOLDERS = ("images", "arrow")
"""Sources that read folders rather than files; chat reads either."""
PATTERN = "*?["
MAKING_NAMES = {"globals", "setattr", "exec", "vars"}
"""Calls by which a module may define names that its text does not show."""
VALUES = (ast.Constant, ast.List, ast.Tuple, ast.Dict, ast.Set, ast.JoinedStr)
"""Expressions whose value cannot be called."""


def require_files(changes: dict[str, Any], config: TrainingConfig, code_root: Path) -> None:
    """Check the files that a call names; unchanged ones are checked by the runs.

    Args:
        changes: the requested changes, by dotted key.

    Raises:
        ConfigurationError: a file that is not there or lies outside the code root, a callable that its file lacks, or
            an argument that it does not take; with near matches.
    """
    for key, value in _texts("", changes):
        try:
            _check(key, value, config, code_root)
        except ConfigurationError as error:
            meant = error.details.get("near")
            if meant:
                error.details |= {"instead": {value: meant}, "key": key}  # the server words the same call with it
            raise
    for name in ("data", "model"):
        entry = getattr(config, name)
        is_named = any(key == name or key.startswith((f"{name}.use", f"{name}.args")) for key in changes)
        if entry is not None and ":" in entry.use and is_named:
            _require_parameters(entry.use, entry.args, code_root, name)


def files_told(changes: dict[str, Any], config: TrainingConfig, code_root: Path) -> list[str]:
    """Return in words which files the changed path of the data stands for; nothing where it is one file's, or remote.

    Args:
        changes: the requested changes, by dotted key.
    """
    if config.data is None or ":" in config.data.use or not any(key.startswith("data") for key in changes):
        return []
    path = config.data.args.get("path")
    given = path if isinstance(path, list) else [path]
    here = [one for one in given if isinstance(one, str) and not is_remote(one)]
    if len(here) < len(given):
        return []
    try:
        files = [file for one in here for file in matching(one, code_root, key="data.args.path")]
    except ConfigurationError:
        return ["data.args.path matches no file yet"]
    named = ", ".join(files[:MAX_NAMED]) + " …" * (len(files) > MAX_NAMED)
    return [f"data.args.path stands for {len(files)} files: {named}"] if files != [path] else []


def _texts(key: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield every text with its dotted key."""
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield from _texts(f"{key}.{place}", item)
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from _texts(f"{key}.{name}" if key else name, item)


def _check(key: str, value: str, config: TrainingConfig, code_root: Path) -> None:
    parts = key.split(".")
    is_part = parts[-1] == "use" or parts[0] in {"loss", "metrics"} or key == "evaluation_gate.reference"
    if is_part and "args" not in parts and ":" in value:
        _check_entry(value, code_root, key)
        if parts[0] == "metrics":
            require_own_name(value.rpartition(":")[2], f"`{key}`")
    elif parts[:3] == ["data", "args", "path"] and config.data is not None and ":" not in config.data.use:
        _check_path(key, value, config.data.use, code_root)
    elif parts[0] == "code_files":
        code_file(value, code_root, key="code_files")
    elif key == "data.expectations":
        read_expectations(value, code_root)
    elif key == "data.args.url" and config.data is not None and config.data.use == "sql":
        if not value.startswith("sqlite"):
            database_place(value)
    elif key == "model.args.path" and config.model is not None and config.model.use == "transformers":
        weights_folder(value, code_root)


def _check_path(key: str, value: str, use: str, code_root: Path) -> None:
    if is_remote(value):
        scheme_of(value)
    elif not any(sign in value for sign in PATTERN) and not _is_to_be_pulled(code_root / value, code_root):
        place = code_root / value
        is_folder = (use in FOLDERS and not place.is_file()) or (use == "chat" and place.is_dir())
        (confine_folder if is_folder else confine)(value, code_root, key=key)


def _is_to_be_pulled(place: Path, code_root: Path) -> bool:
    """Whether a file is absent and DVC tracks it: the first run that reads it lets DVC pull it."""
    return (
        not place.exists()
        and place.resolve().is_relative_to(code_root.resolve())
        and bool(tracked_by(place, code_root))
    )


def _check_entry(use: str, code_root: Path, key: str) -> None:
    """Check that the entry's file lies under the code root and has the callable."""
    place, _, name = use.partition(":")
    file = entry_file(use, code_root, key=key)
    known = _top_names(file)
    first = name.split(".")[0]
    if known is None:
        return
    if first in known:
        _refuse_made(use, name, file, key)
        return
    meant = near(first, known)
    raise ConfigurationError(
        f"`{key}` = {use!r}: {file.name} has no {first!r}.{near_matches(first, known)}",
        remedy=f"Name one of: {', '.join(sorted(known)[:20]) or 'no public names'}.",
        document="configs/your_code.md",
        details={"near": f"{place}:{meant[0]}"} if meant else {},
    )


def _require_parameters(use: str, args: dict[str, Any], code_root: Path, section: str) -> None:
    """Check that a function, or a class with its own __init__, takes the arguments, as far as its text tells."""
    file, name = entry_file(use, code_root, key=f"{section}.use"), use.partition(":")[2]
    try:
        nodes = ast.parse(file.read_bytes()).body
    except (SyntaxError, ValueError, RecursionError, OSError):  # the smoke run reports it with the line
        return
    found = [one for one in nodes if getattr(one, "name", None) == name]
    if any(isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store) and one.id == name
           for node in nodes for one in ast.walk(node)):  # fmt: skip
        return  # it is wrapped, or made, below
    if found and isinstance(found[-1], ast.ClassDef):
        found = [one for one in found[-1].body if isinstance(one, ast.FunctionDef) and one.name == "__init__"]
    function = found[-1] if found else None
    if not isinstance(function, ast.FunctionDef) or function.decorator_list or function.args.kwarg:
        return
    taken = [one.arg for one in (*function.args.args, *function.args.kwonlyargs) if one.arg != "self"]
    unknown = next((one for one in args if one not in taken), None)
    if unknown is None:
        return
    meant = near(unknown, taken)
    changes = {f"{section}.args.{unknown}": None} | ({f"{section}.args.{meant[0]}": args[unknown]} if meant else {})
    raise ConfigurationError(
        f"`{section}.args.{unknown}`: {name}({', '.join(taken)}) of {file.name} takes no {unknown!r}."
        f"{near_matches(unknown, taken)}",
        remedy=f"Give the function that parameter, or {'rename' if meant else 'leave out'} the argument: {changes}.",
        document="configs/your_code.md",
        details={"changes": changes},
    )


def _refuse_made(use: str, name: str, file: Path, key: str) -> None:
    """Refuse a name that the module gives to a value, such as a trainer that is made when it is imported."""
    made = [node.value for node in ast.parse(file.read_bytes()).body if isinstance(node, ast.Assign)
            and any(isinstance(target, ast.Name) and target.id == name for target in node.targets)]  # fmt: skip
    called = ast.unparse(made[-1].func) if made and isinstance(made[-1], ast.Call) else ""
    if not made or not (isinstance(made[-1], VALUES) or called.endswith("Trainer")):
        return
    what = f"what {called}(…) returned when the file was imported" if called else "a value"
    raise ConfigurationError(
        f"`{key}` = {use!r}: {name} is {what}, and a function is called here, in each run anew.",
        remedy=f"Put it into a function, `def make_{name}(): …; return {name}`, and name make_{name}; or name one in a "
        f"file beside it: `sys.modules.pop({file.stem!r}, None); import {file.stem}; return {file.stem}.{name}`.",
        document="configs/own_trainer.md" if called else "configs/your_code.md",
    )


def _top_names(file: Path) -> set[str] | None:
    """Return the names that a module defines at its top; None where only running it could tell."""
    try:
        tree = ast.parse(file.read_bytes(), filename=str(file))
    except (SyntaxError, ValueError, RecursionError, OSError):  # the smoke run reports it with the line
        return None
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
    makes_names = any(isinstance(node, ast.Name) and node.id in MAKING_NAMES for node in ast.walk(tree))
    return None if "*" in names or makes_names or "__getattr__" in names else names
