"""What registries and clients that install bundles are told of the server is true of this version."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
import typer.main

import trainwright
from trainwright.server import cli

pytestmark = pytest.mark.requirement("MCP-2")
ROOT = Path(__file__).parents[2]


def read(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ROOT / name).read_text(encoding="utf-8"))
    return found


def test_the_registrys_manifest_is_that_of_this_version_and_within_its_bounds() -> None:
    manifest, (package,) = read("server.json"), read("server.json")["packages"]
    assert {manifest["version"], package["version"]} == {trainwright.__version__}
    assert re.fullmatch(r"[a-z0-9.-]+\.[a-z0-9-]+/[a-z0-9-]+", manifest["name"])
    assert len(manifest["description"]) <= 100
    assert package["identifier"] == tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["name"]
    parsed([one["value"] for one in package["packageArguments"]])


def test_the_bundle_starts_the_wheel_that_is_in_it_by_options_that_there_are() -> None:
    manifest = read(".mcpb/manifest.json")
    assert manifest["version"] == trainwright.__version__
    wheel = f"trainwright-{trainwright.__version__}-py3-none-any.whl"
    command = manifest["server"]["mcp_config"]
    assert (command["command"], command["args"][:4]) == ("uv", ["tool", "run", "--from", f"${{__dirname}}/{wheel}"])
    assert manifest["server"]["entry_point"] == wheel
    name, *arguments = command["args"][4:]
    assert name in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    parsed(arguments)
    assert {found for one in arguments for found in re.findall(r"\$\{user_config\.(\w+)\}", one)} == {
        *manifest["user_config"]
    }


def parsed(arguments: list[str]) -> None:
    """Read a command line as `trainwright` does, and run nothing."""
    group = typer.main.get_command(cli.app)
    command = group.commands[arguments[0]]  # type: ignore[attr-defined]
    command.make_context(arguments[0], arguments[1:])


def test_the_official_program_takes_the_bundle(tmp_path: Path) -> None:
    """`mcpb validate` the manifest, pack it with a file of the wheel's name, and read both from the bundle."""
    program = shutil.which("mcpb")
    if program is None:
        pytest.skip("mcpb (npm: @anthropic-ai/mcpb) is not on PATH")

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([program, *words], capture_output=True, text=True, check=False, timeout=120)

    folder, made = tmp_path / "bundle", tmp_path / "trainwright.mcpb"
    folder.mkdir()
    manifest = read(".mcpb/manifest.json")
    (folder / manifest["server"]["entry_point"]).write_bytes(b"a wheel")
    (folder / "manifest.json").write_text(json.dumps(manifest))
    assert run("validate", str(folder / "manifest.json")).returncode == 0
    packed = run("pack", str(folder), str(made))
    assert packed.returncode == 0, packed.stdout + packed.stderr
    assert {"manifest.json", manifest["server"]["entry_point"]} == set(zipfile.ZipFile(made).namelist())
    (folder / "manifest.json").write_text(json.dumps(manifest | {"server": {"type": "snake"}}))
    assert run("validate", str(folder / "manifest.json")).returncode != 0
