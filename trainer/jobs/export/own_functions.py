"""Files of the user's that a final model needs, with what these import of the code root, as source."""

from __future__ import annotations

import ast
from pathlib import Path

from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.base.imports import imported_files
from trainwright.trainer.base.paths import confine
from trainwright.trainer.run.directory import write_generated

CODE = "code"
"""Folder of the files, below the model's."""
MOST_BYTES = 1 << 20
"""Of all files together: source, and no data."""


def ship_function(entry: str, key: str, code_root: Path, folder: Path) -> str:
    """Copy the file of `path/file.py:name`, and those it imports; return the entry below the folder.

    Raises:
        ConfigurationError: it is no file of the code root, it defines no such function, a file holds a secret, or they
            are too large.
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
    return f"{ship_source(path, code_root, folder)}:{name}"


def ship_source(path: Path, code_root: Path, folder: Path) -> str:
    """Copy a file, and those below the code root that it imports; return its path below the folder.

    Raises:
        ConfigurationError: a file holds a secret or is no UTF-8, or they are too large.
    """
    root = code_root.resolve()
    texts = {
        f"{CODE}/{file.relative_to(root).as_posix()}": _text(file) for file in imported_files(path.resolve(), root)
    }
    if (size := sum(len(text.encode()) for text in texts.values())) > MOST_BYTES:
        raise ConfigurationError(
            f"{path.name} and the files that it imports take {size:,} bytes, more than the {MOST_BYTES:,} of source.",
            remedy="Keep data out of the files of code: read it from files of its own.",
        )
    write_generated(folder, texts)
    return f"{CODE}/{path.resolve().relative_to(root).as_posix()}"


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ConfigurationError(
            f"{file.name} goes with the model, and is no UTF-8: byte {error.start} is {error.object[error.start]:#x}.",
            remedy="Save it as UTF-8, without another encoding in its first lines, or do not import it.",
        ) from error
