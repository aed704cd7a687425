"""Files of the user's that a final model needs, with what these import of the code root, as source."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.base.imports import imported_files
from trainwright.trainer.base.paths import confine
from trainwright.trainer.engine.session import Session
from trainwright.trainer.run.directory import write_generated
from trainwright.trainer.run.environment import package_of
from trainwright.trainer.user_code.served import CODE

FILE_ENDING = re.compile(r"[^\s./\\]((?:\.\w{1,8})?\.(?:gz|bz2|xz|zst)|\.[A-Za-z][A-Za-z0-9]{0,7})$")
MAX_BYTES = 1 << 20
"""Of all files together: source, and no data."""


def ship_function(entry: str, key: str, code_root: Path, folder: Path) -> str:
    """Copy the file of `path/file.py:name`, and those it imports; return the entry below the folder.

    Raises:
        ConfigurationError: it is no file of the code root, it defines no such function, a file holds a secret, or they
            are too large.
    """
    place, _, name = entry.partition(":")
    path = confine(place, code_root, key=key)
    tree = ast.parse(path.read_text(encoding="utf-8"), place)
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
    if (size := sum(len(text.encode()) for text in texts.values())) > MAX_BYTES:
        raise ConfigurationError(
            f"{path.name} and the files that it imports take {size:,} bytes, more than the {MAX_BYTES:,} of source.",
            remedy="Keep data out of the files of code: read it from files of its own.",
        )
    write_generated(folder, texts)
    return f"{CODE}/{path.resolve().relative_to(root).as_posix()}"


def held_out(session: Session) -> Any:
    """Return the validation samples; those of train where there are none."""
    samples = session.work.splits.samples
    return samples.get("validation", samples["train"])


def raw_inputs_of(samples: Any) -> list[Any] | None:
    """Return what the user's samples were before they were prepared, one of each; None where nothing says it."""
    if hasattr(samples, "raw_inputs"):
        return list(samples.raw_inputs)
    inner, places = getattr(samples, "dataset", None), getattr(samples, "indices", None)
    if inner is None or places is None:
        return None
    whole = raw_inputs_of(inner)
    return None if whole is None else [whole[place] for place in places]


def kind_of_raw(raw: str) -> tuple[str, str]:
    """Return of what kind a raw input of `prepare` is, and a made-up one: the user's own may be nobody's business."""
    ending = FILE_ENDING.search(raw)
    return ("a text", "some words") if ending is None else (f"a file, {ending[1]}", f"input{ending[1]}")


def imported_packages(folder: Path) -> list[str]:
    """Return the packages that the folder's source imports, by the names under which pip installs them."""
    files = sorted((folder / CODE).rglob("*.py"))
    ours = {part for path in files for part in path.relative_to(folder / CODE).with_suffix("").parts}
    trees = (ast.parse(path.read_text(encoding="utf-8")) for path in files)
    named = {name.partition(".")[0] for tree in trees for node in _run(tree) for name in _names(node)}
    found = map(package_of, sorted(named - ours - sys.stdlib_module_names))
    return [name for name in found if name is not None]


def _run(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what runs where a file is imported or its functions are called: no script, and nothing for typing alone."""
    if isinstance(node, ast.If) and any(word in ast.unparse(node.test) for word in ("TYPE_CHECKING", "__name__")):
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _run(child)


def _names(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ConfigurationError(
            f"{file.name} goes with the model, and is no UTF-8: byte {error.start} is {error.object[error.start]:#x}.",
            remedy="Save it as UTF-8, without another encoding in its first lines, or do not import it.",
        ) from error
