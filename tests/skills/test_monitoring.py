"""The scripts of skills/monitoring-dashboard run as they are, on a run that was trained."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.worlds.flowers import CONFIG, GOAL, NAME, train, write_code
from tests.worlds.warm import warm

from trainwright.tools import projects
from trainwright.tools.documents import SKILL
from trainwright.tools.workspace import Settings, Workspace
from trainwright.trainer.config import load_yaml
from trainwright.trainer.run import RunKind

pytestmark = [pytest.mark.requirement("SKILL-3"), pytest.mark.slow]

FOLDER = (SKILL.parent / "monitoring-dashboard").resolve()
ALERT = {"severity": "critical", "project": "flowers", "run_id": "r", "message": "it\nburst", "document": "d.md"}


@pytest.fixture(scope="module")
def trained_once(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A workspace with one smoke run, of which an alert says that a key has no effect."""
    base = tmp_path_factory.mktemp("watched")
    write_code(base / "code")
    workspace = Workspace.open(base / "workspace")
    projects.create_project(workspace, NAME, intent="tell irises apart", goal=GOAL, config=CONFIG)
    with warm():
        view = train(workspace, RunKind.SMOKE)
    workspace.close()
    return base / "workspace", view.run_id


def run(script: str, *arguments: object, given: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", str(FOLDER / "scripts" / script), *map(str, arguments)]
    return subprocess.run(command, input=given, capture_output=True, text=True, check=False)


@pytest.mark.long
def test_watch_names_a_new_alert_once(trained_once: tuple[Path, str], tmp_path: Path) -> None:
    state = tmp_path / "watch.json"
    first = run("watch.py", "--workspace", trained_once[0], "--state", state)
    assert first.returncode == 1, first.stderr
    assert "warning flowers" in first.stdout
    assert "no_effect" in first.stdout
    assert "diagnostics/no_effect.md" in first.stdout
    again = run("watch.py", "--workspace", trained_once[0], "--state", state)
    assert (again.returncode, again.stdout) == (0, "")


@pytest.mark.long
def test_watch_passes_over_what_was_not_asked_for(trained_once: tuple[Path, str]) -> None:
    for narrowed in (("--severity", "critical"), ("--project", "others")):
        done = run("watch.py", "--workspace", trained_once[0], *narrowed)
        assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_a_workspace_that_is_not_there_is_no_quiet_one(tmp_path: Path) -> None:
    done = run("watch.py", "--workspace", tmp_path / "nowhere")
    assert done.returncode == 3
    assert "no workspace" in done.stderr
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.long
def test_curves_gives_what_the_run_recorded(trained_once: tuple[Path, str]) -> None:
    workspace, run_id = trained_once
    done = run("curves.py", f"{NAME}/smoke-1", "train/loss", "--workspace", workspace)
    rows = list(csv.DictReader(done.stdout.splitlines()))
    opened = Workspace.open(workspace)
    points = opened.run_directory(NAME, run_id).metrics().series("train/loss")
    opened.close()
    assert [(int(row["step"]), float(row["mean"])) for row in rows] == [(p.step, p.value) for p in points]
    keys = run("curves.py", run_id, "--keys", "--workspace", workspace).stdout.split()
    assert "validation/loss" in keys
    assert run("curves.py", "none", "--workspace", workspace).returncode == 1


def test_on_alert_writes_one_line(tmp_path: Path) -> None:
    log = tmp_path / "alerts.log"
    assert run("on_alert.py", log, given=json.dumps(ALERT)).returncode == 0
    assert run("on_alert.py", log, given="nonsense").returncode == 1
    [line] = log.read_text().splitlines()
    assert line.endswith("critical flowers r it burst d.md")


def test_the_settings_of_the_template_are_valid() -> None:
    values = load_yaml((FOLDER / "notify.yaml").read_text(encoding="utf-8"))
    settings = Settings.model_validate(values)
    assert settings.notify is not None
    assert settings.notify.ways == ["command"]
