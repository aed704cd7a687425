"""The official Inspector's command line on the real server, in both eras, and on what `mcp dev` starts."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from trainwright.server.surface import TOOLS

pytestmark = [pytest.mark.slow, pytest.mark.requirement("MCP-2")]
ROOT = Path(__file__).parents[2]
TOOL_ERROR = 5
"""Exit code of a tool's refusal."""


@pytest.fixture
def inspector() -> str:
    program, node = shutil.which("mcp-inspector"), shutil.which("node")
    said = (
        subprocess.run([node or "node", "--version"], capture_output=True, text=True, check=False).stdout
        if node
        else ""
    )
    if program is None or int((re.findall(r"v(\d+)", said) or ["0"])[0]) < 22:
        pytest.skip("mcp-inspector (npm: @modelcontextprotocol/inspector) and Node 22 are not on PATH")
    return program


def asked(program: str, workspace: Path, *words: str, command: list[str] | None = None) -> tuple[int, Any]:
    """Return the exit code, and what it prints as JSON, or as it is where it prints none."""
    serve = [str(Path(sys.executable).with_name("trainwright")), "serve"]
    environment = {**os.environ, "TRAINWRIGHT_HOME": str(workspace)}
    done = subprocess.run(
        [program, "--cli", *(serve if command is None else command), *words, "-e", f"TRAINWRIGHT_HOME={workspace}"],
        env=environment, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    try:
        return done.returncode, json.loads(done.stdout)
    except ValueError:
        return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_it_lists_calls_and_reads(inspector: str, workspace: Path, era: str) -> None:
    def ask(*words: str) -> tuple[int, Any]:
        return asked(inspector, workspace, *words, "--protocol-era", era)

    code, found = ask("--method", "tools/list", "--strict")
    assert (code, [tool["name"] for tool in found["tools"]]) == (0, [tool.name for tool in TOOLS])
    code, found = ask("--method", "tools/call", "--tool-name", "project_status")
    assert (code, found["structuredContent"]["total"]) == (0, 0)
    given = json.dumps({"project": "none"})
    code, found = ask("--method", "tools/call", "--tool-name", "project_status", "--tool-args-json", given)
    assert code == TOOL_ERROR
    assert "There is no project" in json.dumps(found)
    code, found = ask("--method", "resources/read", "--uri", "trainwright://documents/begin.md")
    assert (code, found["contents"][0]["text"][:8]) == (0, "# Begin\n")
    code, found = ask(
        "--method", "prompts/get", "--prompt-name", "finalize_and_export", "--prompt-args", "project=iris"
    )
    assert code == 0, found
    assert "iris" in found["messages"][0]["content"]["text"]


def test_mcp_dev_starts_what_the_inspector_reads(inspector: str, workspace: Path, tmp_path: Path) -> None:
    """`npx` is answered by a script that runs the Inspector without a browser on the command that it is given."""
    npx = tmp_path / "npx"
    npx.write_text(f'#!/bin/sh\nshift\nexec "{inspector}" --cli "$@" --method tools/list\n')
    npx.chmod(0o755)
    place = Path(sys.executable).parent
    environment = {**os.environ, "PATH": f"{tmp_path}:{place}:{os.environ['PATH']}", "VIRTUAL_ENV": str(place.parent)}
    command = [str(place / "mcp"), "dev", "server/main.py"]
    done = subprocess.run(
        command, cwd=ROOT, env={**environment, "TRAINWRIGHT_HOME": str(workspace)}, capture_output=True, text=True,
        check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert [tool["name"] for tool in json.loads(done.stdout)["tools"]] == [tool.name for tool in TOOLS]
