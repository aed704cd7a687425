"""Files of the user's that a file imports: they go with it where it is shipped, or run apart."""

from __future__ import annotations

import ast
from pathlib import Path


def imported_files(path: Path, root: Path) -> list[Path]:
    """Return a file and, in turn, the files below the root that it imports: by their names, or from beside it.

    Both paths are absolute. What is no Python goes along and imports nothing: the file may do without it.
    """
    found = [path]
    for file in found:
        named = [place for level, name in _imported(file) for place in _bases(file, root, level, name)]
        packages = [one / "__init__.py" for one in file.parents if one != root and one.is_relative_to(root)]
        places = [base.joinpath(*name.split(".")) for base, name in named]
        wanted = [*packages, *(one for place in places for one in (place.with_suffix(".py"), place / "__init__.py"))]
        own = [one for one in dict.fromkeys(wanted) if one.is_relative_to(root) and one.is_file()]
        found += [one for one in own if one not in found]
    return found


def _bases(file: Path, root: Path, level: int, name: str) -> list[tuple[Path, str]]:
    """Return the folders in which a name may be, of which each dot before it, `level` of them, names one."""
    return [(base, name) for base in (file.parents[level - 1 : level] if level else [root, file.parent])]


def _imported(path: Path) -> list[tuple[int, str]]:
    """Return the names that a file imports, each with the dots before it, and of `a.b` also `a`."""
    names: list[tuple[int, str]] = []
    try:
        nodes = list(ast.walk(ast.parse(path.read_bytes())))
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # the last two of what is nested too deeply
        return []
    for node in nodes:
        if isinstance(node, ast.Import):
            names += [(0, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            names += [(node.level, one) for one in (module, *(f"{module}.{a.name}".lstrip(".") for a in node.names))]
    parts = [(level, name.split(".")) for level, name in names if name]
    return [(level, ".".join(one[:count])) for level, one in parts for count in range(1, len(one) + 1)]
