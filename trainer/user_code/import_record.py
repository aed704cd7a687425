"""Import record: the user's files, run from the source that is digested, and their meaning.

Python prefers a cached `.pyc` whose header matches the source's time and size, and both can be forged. So the standard
loaders compile the user's files from their source, whichever way they are imported (a module, a file of any
name, a relative import, in a loader worker that was forked). Libraries keep their caches.
"""

from __future__ import annotations

import ast
import os
import re
import sys
import warnings
from importlib.machinery import SourceFileLoader, SourcelessFileLoader
from pathlib import Path
from types import CodeType
from typing import Any
from zipimport import zipimporter

from trainwright.trainer.base.canonical import digest_bytes, digest_file
from trainwright.trainer.base.errors import ReproducibilityError
from trainwright.trainer.base.paths import own_name, users_name

READS_ITSELF = re.compile(rb"__doc__|getdoc|docopt|getsource|getcomments|linecache|tokenize")
"""Where code reads its source text, comments and docstrings are part of its behaviour."""


class _Unspoken(ast.NodeTransformer):
    """Removes docstrings, and other texts that are statements by themselves."""

    def visit_Expr(self, node: ast.Expr) -> ast.Expr | None:
        return None if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str) else node


def meaning_of(source: bytes) -> str:
    """Return the digest of a Python file's meaning; of its bytes, where it is no Python that can be read."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the user's source: Python has said it when it was imported
            tree = _Unspoken().visit(ast.parse(source))
        return digest_bytes(ascii(_told(tree)).encode())
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return digest_bytes(source)


def _told(node: Any) -> Any:
    """Return a syntax tree as lists, alike in every Python: one adds fields that are empty, another leaves them out."""
    if isinstance(node, ast.AST):
        fields = [(name, value) for name, value in ast.iter_fields(node) if value is not None and value != []]
        return [type(node).__name__, *((name, _told(value)) for name, value in fields)]
    return [_told(each) for each in node] if isinstance(node, list) else node


def meanings_of(sources: dict[str, bytes]) -> dict[str, str]:
    """Return each file's digest of meaning. Where any of the files reads such texts, the bytes are the meaning."""
    read = digest_bytes if any(READS_ITSELF.search(source) for source in sources.values()) else meaning_of
    return {name: read(source) for name, source in sources.items()}


_library_source = SourceFileLoader.get_code
_library_bytecode = SourcelessFileLoader.get_code
_library_archive = zipimporter.get_code
_compiled: dict[str, str] = {}
"""Digest of the source that was compiled, by the path it was imported from."""
_sources: dict[str, bytes] = {}
"""That source, by the name that the file is recorded under."""
_recorded: dict[str, str] | None = None
"""The record of this run's files, once it is made."""


class LateImportError(ReproducibilityError):
    """Code of the user's that was imported after the record of the run's code was made.

    Raised in a loader worker it reaches the training process as text, from which it is made again.
    """

    def __init__(self, message: str, *, remedy: str = "") -> None:
        super().__init__(
            message.rpartition(f"{type(self).__name__}: ")[2].strip(),
            remedy=remedy or "Import it at the top of the module that uses it, so that it is recorded before training.",
        )


def install(code_root: Path) -> None:
    """Compile the user's files from their source, from now on and in this process and its forks."""
    global _recorded  # noqa: PLW0603 - one run per process
    _compiled.clear()
    _sources.clear()
    _recorded = None

    def from_source(loader: SourceFileLoader, name: str) -> CodeType | None:
        path = loader.get_filename(name)
        users = users_name(path, code_root)
        if users is None:
            return _library_source(loader, name)
        source = loader.get_data(path)
        _note(path, users, digest_bytes(source))
        _sources[users] = source
        code: CodeType = loader.source_to_code(source, path)
        return code

    def not_from_bytecode(loader: SourcelessFileLoader, name: str) -> CodeType | None:
        _require_library(loader.get_filename(name), code_root)
        return _library_bytecode(loader, name)

    def not_from_archive(loader: zipimporter, name: str) -> CodeType:
        _require_library(loader.archive, code_root)
        return _library_archive(loader, name)

    replacements: list[tuple[Any, Any]] = [
        (SourceFileLoader, from_source),
        (SourcelessFileLoader, not_from_bytecode),
        (zipimporter, not_from_archive),
    ]
    for loader, get_code in replacements:
        loader.get_code = get_code


def own_files(code_root: Path) -> dict[str, str]:
    """Return the digests of the user's imported files, by relative path under the root and by absolute path elsewhere.

    Of a file that was compiled here it is the digest of the compiled source, even if the file has changed since.
    """
    files = {users_name(path, code_root): digest for path, digest in _compiled.items()}
    roots = (str(code_root), str(code_root.resolve()))
    for module in list(sys.modules.values()):
        origin = getattr(module, "__file__", None)
        if isinstance(origin, str) and origin.startswith(roots) and os.path.isfile(origin):  # noqa: PTH113 - many
            name = own_name(origin, code_root)
            if name not in files:
                files[name] = digest_file(Path(origin))
    return {name: files[name] for name in sorted(filter(None, files))}


def sources_of(files: dict[str, str], code_root: Path) -> dict[str, bytes]:
    """Return the source of each of the user's imported files: as it was compiled, or else as it is on disk."""
    return {name: _sources.get(name) or (code_root / name).read_bytes() for name in files}


def record(files: dict[str, str]) -> None:
    """Take these files as the run's code: importing any other user file from now on raises."""
    global _recorded  # noqa: PLW0603 - one run per process
    _recorded = dict(files)


def require_recorded(code_root: Path) -> None:
    """Hold the files imported by now to the record, however they were imported.

    Raises:
        ReproducibilityError: names a file that came after the record was made, or with other content.
    """
    for name, digest in own_files(code_root).items():
        _require_recorded(name, digest)


def _note(path: str, name: str, digest: str) -> None:
    _require_recorded(name, digest)
    if _compiled.setdefault(path, digest) != digest:
        raise ReproducibilityError(
            f"{path} was imported twice in this run, with different content.",
            remedy="Import each file once, and do not write to it while the run works.",
        )


def _require_recorded(name: str, digest: str) -> None:
    if _recorded is not None and _recorded.get(name) != digest:
        what = "with other content than the recorded" if name in _recorded else "after the run's code was recorded"
        raise LateImportError(f"{name} was imported {what}: its effect is not part of the evidence.")


def _require_library(path: str, code_root: Path) -> None:
    name = users_name(path, code_root)
    if name is not None:
        where = "outside the code root and the installed packages" if name.startswith("/") else "under the code root"
        raise ReproducibilityError(
            f"{name} {where} holds compiled code; its source is not there to be recorded.",
            remedy="Put the `.py` files there (unpacked), and remove the compiled ones.",
        )
