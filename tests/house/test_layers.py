"""Imports run one way, and the server's process stays light."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
HEAVY = ("torch", "transformers", "accelerate", "peft", "lightning", "tensorflow")


def _modules(*parts: str) -> list[str]:
    folders = [ROOT / part for part in parts]
    files = [file for folder in folders for file in ([folder] if folder.is_file() else folder.rglob("*.py"))]
    names = [".".join(file.relative_to(ROOT).with_suffix("").parts) for file in sorted(files)]
    return [f"trainwright.{name.removesuffix('.__init__')}" for name in names if "migrations" not in name]


def _shared() -> list[str]:
    """Return the files and folders of the modules that a contract of pyproject.toml names as shared and light."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    [names] = [contract["source_modules"] for contract in contracts if contract["name"].endswith("worker is light")]
    paths = [ROOT.joinpath(*name.split(".")[1:]) for name in names]
    return [str((path if path.is_dir() else path.with_suffix(".py")).relative_to(ROOT)) for path in paths]


def _loaded_after_importing(modules: list[str]) -> set[str]:
    """Import the modules in a fresh process and return the top-level names that it then holds."""
    code = (
        "import importlib, json, sys\n"
        "for name in json.loads(sys.argv[1]): importlib.import_module(name)\n"
        "print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))\n"
    )
    process = subprocess.run(
        [sys.executable, "-P", "-c", code, json.dumps(modules)], capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stderr
    return set(json.loads(process.stdout.splitlines()[-1]))


@pytest.mark.requirement("MCP-5")
def test_importing_all_of_server_and_tools_leaves_the_heavy_libraries_out():
    assert not _loaded_after_importing(_modules("server", "tools")) & set(HEAVY)


def test_the_light_modules_of_the_engine_need_neither_torch_nor_the_server_side():
    light = _modules(*_shared())
    assert not _loaded_after_importing(light) & {*HEAVY, "mcp", "sqlalchemy", "alembic", "numpy"}


def test_importing_all_of_the_engine_leaves_the_server_side_out():
    loaded = _loaded_after_importing(_modules("trainer"))
    assert not loaded & {"mcp", "sqlalchemy", "alembic"}


def test_the_bare_names_cannot_be_imported():
    """`server`, `tools` and `trainer` belong to the users' own projects."""
    code = "import importlib.util as u; print([n for n in ('server', 'tools', 'trainer') if u.find_spec(n)])"
    process = subprocess.run([sys.executable, "-P", "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert process.stdout.strip() == "[]"
