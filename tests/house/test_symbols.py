"""Tests and benchmarks name what they mean by symbols, so that a moved module is found before any of them runs."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.conftest import LONGEST_FIRST

import trainwright

ROOT = Path(__file__).parents[2]
ALONE = ("gpu_kit/unpack.py",)
"""Files that run where the package is not there yet."""
FILES = [path for folder in ("benchmarks", "tests") for path in sorted((ROOT / folder).rglob("*.py"))]
MODULE = re.compile(rf"\b{trainwright.__name__}\.(?:server|tools|trainer)\b")


def test_no_string_names_a_module_of_the_package():
    """`worker.__name__`, `function.__module__`, and for the code of another process `function_text.body_of`."""
    named = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {node.value[:60]!r}"
        for path in FILES
        if not path.as_posix().endswith(ALONE)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and MODULE.search(node.value)
    ]
    assert not named


def test_everything_that_is_imported_from_the_package_is_there():
    """Imports inside functions too, some of which run in other processes, or by `make` alone."""
    missing = [
        f"{path.relative_to(ROOT)}:{line}: {module}.{name}"
        for path in FILES
        for line, module, name in _imported(path)
        if name not in _names(module)
    ]
    assert not missing


def test_everything_that_is_patched_is_there():
    """`patch.setattr(module, "name", ...)`, `module.name = ...`, and tuples that begin with a module and a name."""
    missing = [
        f"{path.relative_to(ROOT)}:{line}: {module}.{name}"
        for path in FILES
        for line, module, name in _patched(path)
        if name not in _names(module)
    ]
    assert not missing


def test_the_files_that_begin_first_are_there():
    assert not [name for name in LONGEST_FIRST if not list((ROOT / "tests").glob(f"**/{name}"))]


def _patched(path: Path) -> Iterator[tuple[int, str, str]]:
    """Yield line, module and name wherever a file replaces what a module of the package holds."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    modules = {alias.asname or alias.name: f"{node.module}.{alias.name}" for node in imports for alias in node.names}
    for node in ast.walk(tree):
        match node:
            case (
                ast.Call(func=ast.Attribute(attr="setattr"), args=[ast.Name(id=place), ast.Constant(value=name), *_])
                | ast.Tuple(elts=[ast.Name(id=place), ast.Constant(value=str(name)), *_])
                | ast.Assign(targets=[ast.Attribute(value=ast.Name(id=place), attr=name)])
            ) if _names(modules.get(place, "")):
                yield node.lineno, modules[place], name


def _imported(path: Path) -> Iterator[tuple[int, str, str]]:
    """Yield line, module and name of every import from the package."""
    own = f"{trainwright.__name__}."
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and f"{node.module}.".startswith(own):
            yield from ((node.lineno, str(node.module), alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            split = [alias.name.rpartition(".") for alias in node.names if alias.name.startswith(own)]
            yield from ((node.lineno, module, name) for module, _, name in split)


@cache
def _names(module: str) -> frozenset[str]:
    """Return the names that stand in a module of the package, its own modules among them; nothing is imported."""
    if not f"{module}.".startswith(f"{trainwright.__name__}."):
        return frozenset()
    base = ROOT / "src" / Path(*module.split("."))
    file = base / "__init__.py" if base.is_dir() else base.with_suffix(".py")
    modules = {path.stem for path in base.glob("*") if path.suffix == ".py" or path.is_dir()}
    if not file.exists():
        return frozenset(modules)
    return frozenset(modules | set(_bound(ast.parse(file.read_text(encoding="utf-8")).body)))


def _bound(statements: list[ast.stmt]) -> Iterator[str]:
    for node in (node for statement in statements for node in ast.walk(statement)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from (alias.asname or alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
