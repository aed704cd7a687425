"""Files of the user's that a file imports: they go with it where it is shipped, or run apart."""

from __future__ import annotations

import ast
from pathlib import Path


def imported_files(path: Path, root: Path) -> list[Path]:
    """Return a file and, in turn, the files below the root that it imports: by their names, or from beside it.

    Both paths are absolute. Raises SyntaxError where a file is no Python.
    """
    found = [path]
    for file in found:
        named = [(base, name) for base in (root, file.parent) for name in _imported(file)]
        packages = [one / "__init__.py" for one in file.parents if one != root and one.is_relative_to(root)]
        places = [base.joinpath(*name.split(".")) for base, name in named]
        wanted = [*packages, *(one for place in places for one in (place.with_suffix(".py"), place / "__init__.py"))]
        found += [one for one in dict.fromkeys(wanted) if one.is_file() and one not in found]
    return found


def _imported(path: Path) -> list[str]:
    """Return the names that a file imports, and of `a.b` also `a`."""
    names: list[str] = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            names += [module, *(f"{module}.{alias.name}".lstrip(".") for alias in node.names)]
    return [".".join(parts[:count]) for parts in (name.split(".") for name in names if name)
            for count in range(1, len(parts) + 1)]  # fmt: skip
