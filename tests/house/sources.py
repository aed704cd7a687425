"""The repository's files as the tests of the house read them: listed once, parsed once."""

from __future__ import annotations

import ast
import gc
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ("server", "tools", "trainer")


@cache
def parsed(path: Path) -> ast.Module:
    """Return the syntax tree of a file, which all that ask share: nobody changes it."""
    with _no_collections():
        return ast.parse(path.read_text(encoding="utf-8"))


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """Return all nodes of a file's syntax tree: walking one takes as long as parsing it."""
    tree = parsed(path)
    with _no_collections():
        return tuple(ast.walk(tree))


@contextmanager
def _no_collections() -> Iterator[None]:
    """Let no garbage collection go through trees, which stay until the end: half of their time, once there are many."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def called(node: ast.AST) -> str:
    """Return the last name of what a node calls; empty for what is no call by a name."""
    function = node.func if isinstance(node, ast.Call) else None
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def tracked(*places: str) -> list[Path]:
    """Return the tracked files, or those under some places; skip where git knows of none."""
    listed = subprocess.run(["git", "ls-files", "-z", *places], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        pytest.skip("not a git repository, so there is no list of tracked files")
    paths = [ROOT / name for name in listed.stdout.split("\0") if name]
    return [path for path in paths if path.is_file() and not path.is_symlink()]


def sources(*places: str) -> list[Path]:
    """Return the Python files of the product, or of some of its rooms."""
    return [path for place in places or ROOMS for path in sorted((ROOT / place).rglob("*.py"))]


def named(path: Path) -> str:
    """Return a file's name as an error shows it."""
    return path.relative_to(ROOT).as_posix()
