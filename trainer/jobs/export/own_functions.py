"""Functions of the user's that predict.py calls: their files, with what these import of the code root, as source."""

from __future__ import annotations

import ast
from pathlib import Path

from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.base.paths import confine
from trainwright.trainer.run.directory import write_generated

CODE = "code"
"""Folder of the files, below the model's."""


def ship_function(entry: str, key: str, code_root: Path, folder: Path) -> str:
    """Copy the file of `path/file.py:name`, and those it imports; return the entry below the folder.

    Raises:
        ConfigurationError: it is no file of the code root, it defines no such function, or a file holds a secret.
    """
    place, _, name = entry.partition(":")
    path = confine(place, code_root, key=key)
    tree = ast.parse(path.read_text(encoding="utf-8"))
    defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    if name not in defined:
        raise ConfigurationError(
            f"`{key}` = {entry!r}: {place} defines no {name!r}; it has {', '.join(sorted(defined)) or 'no function'}.",
            remedy=f"Define it there: configure(project, changes={{'{key}': 'file.py:function'}}) names it.",
        )
    files = _with_imports(path, path.parent)
    names = {f"{CODE}/{file.relative_to(path.parent).as_posix()}": file.read_text(encoding="utf-8") for file in files}
    write_generated(folder, names)
    return f"{CODE}/{path.name}:{name}"


def _with_imports(path: Path, beside: Path) -> list[Path]:
    """Return a file and, in turn, the files below its folder that it imports by their names."""
    found, waiting = [path], [path]
    while waiting:
        for name in _imported(ast.parse(waiting.pop().read_text(encoding="utf-8"))):
            place = beside.joinpath(*name.split("."))
            for file in (place.with_suffix(".py"), place / "__init__.py"):
                if file.is_file() and file not in found:
                    found.append(file)
                    waiting.append(file)
    return found


def _imported(tree: ast.Module) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names | {name.partition(".")[0] for name in names}
