"""A release is brought to the client's machine by its token, and by nobody else's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from tests.server.http.conftest import Served

from trainwright.server import cli

pytestmark = [pytest.mark.slow, pytest.mark.requirement("MCP-2", "PRED-1")]
FILES = {"README.md": b"# one", "model.onnx": bytes(range(256)) * 999, "code/net.py": b"x = 1"}


@pytest.fixture
def released(served: Served) -> Served:
    folder = served.workspace / "projects" / "one" / "final_model"
    if not folder.exists():
        (folder / "code").mkdir(parents=True)
        for name, data in FILES.items():
            (folder / name).write_bytes(data)
        (folder / "link").symlink_to(served.workspace / "tokens.json")
    return served


def fetched(served: Served, token: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", cli.__name__, "fetch", "one", "--url", served.address]
    environment = {**os.environ, "TRAINWRIGHT_TOKEN": token}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_the_folder_comes_whole_and_without_what_a_link_leads_to(released: Served, tmp_path: Path) -> None:
    done = fetched(released, released.token("reader", "read"), tmp_path)
    assert done.returncode == 0, done.stderr
    found = {str(one.relative_to(tmp_path / "final_model")): one for one in tmp_path.rglob("*") if one.is_file()}
    assert {name: one.read_bytes() for name, one in found.items()} == FILES
    again = fetched(released, released.token("reader", "read"), tmp_path)
    assert again.returncode == 1
    assert "final_model is there already" in again.stderr
    lines = (released.workspace / "logs" / "http.jsonl").read_text().splitlines()
    line = next(one for one in map(json.loads, lines) if one["method"] == "releases")
    assert (line["token"], line["project"], line["outcome"]) == ("reader", "one", "answered")


@pytest.mark.parametrize(
    ("project", "headers", "status", "said"),
    [
        ("one", {"Authorization": "Bearer wrong"}, 401, "no token that lets anybody in"),
        ("one", {"Host": "evil.example.org"}, 421, "Host"),
        ("one", {"Origin": "https://evil.example.org"}, 403, "Origin"),
        ("two", {}, 404, "has no final model"),
        ("..%2F..", {}, 404, ""),
    ],
)
def test_others_get_a_refusal(released: Served, project: str, headers: dict[str, str], status: int, said: str) -> None:
    given = {"Authorization": f"Bearer {released.token('reader', 'read')}", **headers}
    answer = httpx.get(f"{released.address.removesuffix('/mcp')}/releases/{project}.tar", headers=given)
    assert answer.status_code == status
    assert said in answer.text


def test_a_token_of_another_project_brings_nothing(released: Served, tmp_path: Path) -> None:
    done = fetched(released, released.token("bound", "read", "two"), tmp_path)
    assert done.returncode == 1
    assert "is bound to two" in done.stderr
    assert list(tmp_path.iterdir()) == []


async def test_a_page_of_the_servers_machine_comes_with_the_way_to_it(served):
    async with served.agent(served.token("maker")) as agent:
        answer = await agent.get("open_dashboard")
    port = urlsplit(answer["address"]).port
    assert answer["forward"] == f"ssh -L {port}:127.0.0.1:{port} BOX"
