"""Floors: inside each layer, rooms import downwards only, be it at a module's head, in a function, or for typing."""

from __future__ import annotations

import ast
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from tests.house.sources import ROOT, nodes_of

CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
LAYERS = ("trainer", "tools")
TYPED = [("tools", "tools.gates", True)]
"""Rooms without a circle even for typing: rules know what they read of by a protocol (tools/gates/records.py)."""
Import = tuple[str, str, str]
"""Importing module, imported module (both without `trainwright.`), and where: `path:line`."""


def imports_of(layer: str, *, typing: bool) -> Iterator[Import]:
    """Yield every import of one module of a layer by another."""
    modules = {_module(path): path for path in (ROOT / layer).rglob("*.py")}
    for module, path in modules.items():
        nodes = [node for node in nodes_of(path) if isinstance(node, ast.Import | ast.ImportFrom | ast.If)]
        left_out = set() if typing else {id(node) for block in _typing_blocks(nodes) for node in ast.walk(block)}
        for node in nodes:
            if id(node) in left_out:
                continue
            for name in _named(node):
                target = name if name in modules else name.rpartition(".")[0]
                if target in modules and target != module:
                    yield module, target, f"{path.relative_to(ROOT)}:{node.lineno}"  # type: ignore[attr-defined]


def _module(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _typing_blocks(nodes: list[ast.AST]) -> Iterator[ast.If]:
    return (node for node in nodes if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING")


def _named(node: ast.AST) -> list[str]:
    if isinstance(node, ast.ImportFrom) and node.module:
        names = [f"{node.module}.{alias.name}" for alias in node.names]
    else:
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
    return [name.removeprefix("trainwright.") for name in names if name.startswith("trainwright.")]


def floors_of(layer: str) -> dict[str, int]:
    """Return each room's floor, counted from the bottom, as the layers contract in pyproject.toml draws them."""
    (drawn,) = (one["layers"] for one in CONTRACTS if one.get("containers") == [f"trainwright.{layer}"])
    return {room.strip(): floor for floor, rooms in enumerate(reversed(drawn), 1) for room in rooms.split("|")}


@pytest.mark.parametrize("layer", LAYERS)
def test_every_room_has_a_floor(layer: str) -> None:
    rooms = {path.stem for path in (ROOT / layer).iterdir() if path.suffix == ".py" or any(path.glob("*.py"))}
    assert floors_of(layer).keys() == rooms - {"__init__"}


@pytest.mark.parametrize("layer", LAYERS)
def test_no_import_runs_up_or_across_a_floor(layer: str) -> None:
    floors = floors_of(layer)
    wrong = []
    for module, target, place in imports_of(layer, typing=True):
        room, other = (name.split(".")[1] for name in (f"{module}.", f"{target}."))
        if room != other and room and other and floors[other] >= floors[room]:
            wrong.append(f"{place}: {room} (floor {floors[room]}) imports {other} (floor {floors[other]})")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(("layer", "room", "typing"), [*((layer, layer, False) for layer in LAYERS), *TYPED])
def test_no_modules_import_each_other_in_a_circle(layer: str, room: str, typing: bool) -> None:
    graph: dict[str, set[str]] = defaultdict(set)
    for module, target, _ in imports_of(layer, typing=typing):
        if module.startswith(room) and target.startswith(room):
            graph[module].add(target)
    assert graph
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(reversed(error.args[1])))
