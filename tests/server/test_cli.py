"""The command line: what people read, with remedies and exit codes, and never a traceback."""

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from tests.worlds.warm import trainwright_command
from typer.testing import CliRunner

import trainwright
from trainwright.server import cli
from trainwright.server.commands.doctor import Finding, examine_folder
from trainwright.server.commands.terminal import bar
from trainwright.tools.projects import configure, create_project
from trainwright.tools.workspace import Workspace

pytestmark = pytest.mark.slow

GOAL = {"metric": "accuracy", "direction": "maximize", "target": 0.9}


def run(*arguments, cwd=None, **environment):
    """Run `trainwright …` with its output in a pipe, as a script would."""
    return subprocess.run(
        [*trainwright_command(os.environ), *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        env={**os.environ, **environment},
    )


@pytest.fixture
def made(workspace, iris):
    """A workspace with one project."""
    opened = Workspace.open(workspace)
    create_project(opened, "iris", intent="a test", goal=GOAL, template="baseline", config=iris)
    opened.close()
    return workspace


def test_version_and_help():
    fresh = [sys.executable, "-P", "-m", cli.__name__, "--version"]
    done = subprocess.run(fresh, capture_output=True, text=True, check=True)
    assert done.stdout == run("--version").stdout == f"trainwright {trainwright.__version__}\n"
    said = run("--help").stdout
    assert all(
        command in said for command in ("serve", "doctor", "status", "verify", "replay-step", "keys", "approve", "demo")
    )


def test_status_shows_phase_goal_and_what_to_do(made):
    done = run("status", "--workspace", made)
    assert done.returncode == 0, done.stderr
    assert "iris: in planning; goal validation accuracy >= 0.9" in done.stdout
    assert "[>] planning" in done.stdout
    assert 'Next: start_training(project="iris", kind="smoke")' in done.stdout
    assert "\x1b[" not in done.stdout, "no colours in a pipe"
    (project,) = json.loads(run("status", "-w", made, "--json").stdout)
    assert project["phase"] == "planning"


def test_the_workspace_is_the_option_then_the_variable_then_the_folder_here(made, tmp_path):
    assert "iris" in run("status", TRAINWRIGHT_HOME=str(made)).stdout
    (tmp_path / ".trainwright").symlink_to(made)
    assert "iris" in run("status", cwd=tmp_path, TRAINWRIGHT_HOME="").stdout
    elsewhere = run("status", "--workspace", tmp_path / "none", TRAINWRIGHT_HOME=str(made))
    assert elsewhere.returncode == 1
    assert "Error: There is no workspace at" in elsewhere.stderr
    assert "Remedy: " in elsewhere.stderr
    assert "Traceback" not in elsewhere.stderr


@pytest.mark.requirement("GATE-3")
def test_verify_finds_an_edited_ledger_and_says_so_by_its_exit_code(made):
    assert run("verify", "-w", made).returncode == 0
    whole = run("verify", made)
    assert whole.returncode == 0, whole.stdout + whole.stderr
    assert whole.stdout.startswith("ok")
    with sqlite3.connect(made / "workspace.sqlite") as connection:
        connection.executescript("DROP TRIGGER IF EXISTS ledger_no_update;")
        triggers = connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for (name,) in triggers:
            connection.execute(f"DROP TRIGGER {name}")
        connection.execute("UPDATE ledger SET body = replace(body, '0.9', '0.1') WHERE sequence = 1")
    edited = run("verify", made)
    assert edited.returncode == 1
    assert "fail  ledger: ledger entry 1" in edited.stdout
    assert json.loads(run("verify", made, "--json").stdout)["problems"]


@pytest.mark.requirement("GATE-3")
def test_a_key_is_made_once_and_verify_says_what_it_attests(made, tmp_path):
    key = tmp_path / "owner.key"
    done = run("keys", "new", "--key", key)
    assert done.returncode == 0, done.stderr
    assert "PRIVATE" not in done.stdout + done.stderr
    again = run("keys", "new", "--key", key)
    assert again.returncode == 1
    assert again.stderr.startswith("Error: There is a key at")
    shown = run("verify", made).stdout
    assert "not attested: nothing is signed" in shown
    head = shown.partition("The ledger ends with ")[2].strip().rstrip(".")
    assert run("verify", made, "--head", head).returncode == 0
    cut = run("verify", made, "--head", head.replace(head[-6:], "000000"))
    assert cut.returncode == 1
    assert "with which it once ended" in cut.stdout
    unsigned = run("verify", made, "--public-key", f"{key}.pub")
    assert unsigned.returncode == 1
    assert "fail  signature: not attested: no entry is signed by key" in unsigned.stdout


def test_a_damaged_database_is_a_sentence_with_a_remedy(made):
    (made / "workspace.sqlite").write_bytes(b"this is no database" * 100)
    done = run("status", "--workspace", made)
    assert done.returncode == 1
    assert done.stderr.startswith("Error: ")
    assert "Remedy: " in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.long
def test_doctor_imports_everything_together_and_gives_remedies(tmp_path):
    done = run("doctor", "--workspace", tmp_path / "workspace", "--json")
    findings = {finding["name"]: Finding.model_validate(finding) for finding in json.loads(done.stdout)}
    assert set(findings) >= {"python", "sqlite", "packages", "devices", "memory", "disk", "write access", "database"}
    assert all(name in findings["packages"].found for name in ("torch", "onnxruntime", "optuna", "mcp"))
    assert [name for name, finding in findings.items() if finding.status != "ok" and not finding.remedy] == []
    assert done.returncode == (1 if any(finding.status == "fail" for finding in findings.values()) else 0)
    assert "workers " in findings["walls"].found or "no Landlock" in findings["walls"].found
    assert not (tmp_path / "workspace").exists(), "the doctor leaves no trace"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs a folder in which even root cannot write")
def test_doctor_fails_where_nothing_can_be_written():
    findings = {finding.name: finding for finding in examine_folder(Path("/proc/self/workspace"))}
    for name in ("write access", "database"):
        assert findings[name].status == "fail"
        assert "--workspace DIR" in findings[name].remedy


@pytest.mark.parametrize(
    ("done", "total", "shown"), [(0, 10, "  0%"), (5, 10, " 50%"), (10, 10, "100%"), (20, 10, "100%"), (3, None, "")]
)
def test_a_bar_is_as_long_as_its_share(done, total, shown):
    text = bar(done, total)
    assert text.index("]") == 25
    assert text.endswith(shown)
    if total:
        assert text.count("#") == round(min(1, done / total) * 24)


@pytest.mark.requirement("PIPE-2")
def test_data_is_validated_with_the_rows_and_an_exit_code(made):
    changes = {"data.expectations": {"columns": {"x0": {"max": 7.8}}}}
    opened = Workspace.open(made)
    configure(opened, "iris", changes=changes, reason="what they look like")
    opened.close()
    answer = CliRunner().invoke(cli.app, ["validate-data", "iris", "-w", str(made)])
    assert answer.exit_code == 1, answer.output
    assert "fail  x0.max: " in answer.output
    assert "(rows 131)" in answer.output
    assert "report.json" in answer.output
    found = json.loads(CliRunner().invoke(cli.app, ["validate-data", "iris", "-w", str(made), "--json"]).output)
    assert (found["errors"], found["findings"][0]["check"]) == (1, "x0.max")
