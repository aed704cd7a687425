"""Files that SkyPilot would copy with the code: each that a job leaves here elsewhere is named."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.tools.clouds.rendered_jobs import OPTIONS
from tests.worlds.flowers import NAME

from trainwright.tools.clouds import read_cloud_request, render_cloud
from trainwright.tools.clouds.job import LEFT_OUT
from trainwright.tools.clouds.sent_along import sent_along
from trainwright.tools.workspace import Workspace

pytestmark = pytest.mark.requirement("COST-2")


def test_an_env_file_that_skypilot_would_copy_is_warned_of(home: Workspace) -> None:
    code = home.path.parent / "code"
    (code / ".env").write_text("HF_TOKEN=secret\n")
    (code / ".env.example").write_text("HF_TOKEN=flowers_dev_your_token_here\n")

    def warned(job: str, platform: str = "skypilot") -> list[str]:
        request = read_cloud_request(project=NAME, platform=platform, **OPTIONS[platform])
        done = render_cloud(home, request, home.path.parent / job)
        return [one for one in done.warnings if "in the code root" in one]

    assert warned("bare") == [".env in the code root goes to the machine with the code: write it into code/.skyignore."]
    (code / ".gitignore").write_text("# secrets\n.env*\n")
    assert "take over its lines" in warned("no repository")[0], "outside a repository SkyPilot reads no .gitignore"
    git(code, "init", "-q")
    assert warned("by git") == []
    (code / ".gitignore").write_text(".env*\n!.env\n")
    assert len(warned("reintroduced")) == 1
    (code / ".gitignore").write_text(".env*\n")
    git(code, "add", "--force", ".env")
    assert len(warned("tracked")) == 1
    (code / ".skyignore").write_text("data\n")
    assert len(warned("not by sky")) == 1, "with its own file it reads no .gitignore"
    (code / ".skyignore").write_text("# secrets\n/.env*\n")
    assert warned("by sky") == []


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", "-C", str(folder), *arguments], check=True)


def test_what_skypilot_would_copy_of_the_whole_code_root_is_warned_of(tmp_path: Path) -> None:
    for name in ("deep/er/.env.local", ".trainwright/workspace.sqlite", "deep/.venv/bin/x", "records/settings.yaml",
                 ".git/config", "deep/__pycache__/x.pyc", "deep/.env.example", "deep/.hidden/.env", "node_modules/.env",
                 "model.py"):  # fmt: skip
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    left_out = (*LEFT_OUT, "/records")
    [said] = sent_along(tmp_path, left_out)
    assert said.startswith(
        ".trainwright, deep/.venv, deep/er/.env.local, node_modules, records in the code root go to the machine"
    )
    ignoring = tmp_path / ".skyignore"
    ignoring.write_text("/.trainwright/\n.venv\n*.local\nrecords\nnode_modules\n")
    assert "deep/er/.env.local in the code root goes" in sent_along(tmp_path, left_out)[0], (
        "a wildcard is no hidden dot"
    )
    ignoring.write_text(ignoring.read_text() + ".env*\n")
    assert sent_along(tmp_path, left_out) == []
    ignoring.write_text(ignoring.read_text() + "!deep/er/.env.local\n")
    assert "deep/er/.env.local in the code root goes" in sent_along(tmp_path, left_out)[0]
    ignoring.write_text("/.env.local\ndeep\n/.trainwright\n/records\n/node_modules\n")
    assert sent_along(tmp_path, left_out) == [], "what lies in a folder that is ignored does not go"
