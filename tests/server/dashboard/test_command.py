"""`trainwright dashboard` at a terminal: an address that works, until Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.server.dashboard.conftest import PROJECT
from tests.worlds.flowers import CONFIG, GOAL, write_code
from tests.worlds.warm import trainwright_command

from trainwright.server import cli
from trainwright.server.commands.status import keep_page
from trainwright.tools.projects import create_project
from trainwright.tools.workspace import Workspace

pytestmark = pytest.mark.slow


FRESH = (sys.executable, "-P", "-m", cli.__name__)


def command(workspace: Path, *more: str, trainwright: Sequence[str] = FRESH) -> list[str]:
    return [*trainwright, "dashboard", "--workspace", str(workspace), *more]


def refused(*arguments: Any) -> str:
    """Call it where it cannot begin, and return what it says."""
    called = command(*arguments, trainwright=trainwright_command(os.environ))
    done = subprocess.run(called, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    return done.stderr


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    Workspace.open(tmp_path / "workspace").close()
    return tmp_path / "workspace"


@pytest.mark.long
@pytest.mark.requirement("MON-2")
def test_it_prints_an_address_that_opens_and_ends_by_ctrl_c(workspace):
    process = subprocess.Popen(command(workspace), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        with opener.open(address, timeout=30) as page:
            assert b"<title>Trainwright</title>" in page.read()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
    finally:
        process.kill()
    assert errors == ""
    assert process.returncode == 128 + signal.SIGINT, "as shells report an interrupt"


def test_a_taken_port_is_refused_with_a_remedy(workspace):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        said = refused(workspace, "--port", port)
    assert port in said
    assert "--port" in said


def test_a_workspace_that_is_not_there_is_not_made(tmp_path):
    assert "There is no workspace" in refused(tmp_path / "none")
    assert not (tmp_path / "none").exists()


@pytest.mark.requirement("MON-2")
def test_a_projects_pages_are_kept_in_one_file_with_the_answers_of_the_server(served, tmp_path):
    keep_page(served.workspace.path, PROJECT, tmp_path / "report.html")
    html = (tmp_path / "report.html").read_text(encoding="utf-8")
    kept = json.loads(html.partition('id="kept">')[2].partition("</script>")[0])
    assert kept["home"] == f"#/projects/{PROJECT}"
    address = f"api/runs/{served.smoke}"
    assert kept["answers"][address] == served.read(f"/{address}")
    assert len(kept["answers"][f"api/projects/{PROJECT}"]["runs"]) == 2
    assert kept["answers"][f"api/runs/{served.smoke}/curves"]["curves"]["train/loss"]["steps"]
    assert html.count("<script>") == 1, "an intent of the user's begins no script"


def test_a_kept_page_has_no_secret_whatever_json_writes_before_it(workspace, tmp_path):
    token = "gh" + "p_" + "a1B2" * 9
    intents = {
        "line": f"tell\n{token}",
        "quote": f'"{token}"',
        "sign": f"<{token}>",
        "umlaut": f"ü{token}",
        "back": f"\\{token}",
    }
    write_code(tmp_path / "code")
    with closing(Workspace.open(workspace)) as opened:
        for name, intent in intents.items():
            create_project(opened, name, intent=intent, goal=GOAL, config=CONFIG)
    for name in intents:
        keep_page(workspace, name, tmp_path / "page.html")
        assert token not in (tmp_path / "page.html").read_text(encoding="utf-8"), name
