"""A rendered job gets the notice of a machine that is taken away, and its next start ends with the same bits."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml
from sqlalchemy import select
from tests.variants import variants
from tests.worlds.flowers import CONFIG, GOAL, NAME, train, write_code

from trainwright.server import cli
from trainwright.tools import projects
from trainwright.tools.clouds import read_cloud_request, render_cloud
from trainwright.tools.costs.measured import measured_restart
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.ledger import Look
from trainwright.tools.pipeline.job import STOPPED_CODE
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.tables import Trial
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.run import RunDirectory, RunKind

pytestmark = [pytest.mark.slow, pytest.mark.requirement("COST-2")]
EPOCHS = 150
"""More than are trained before a notice comes, on a busy machine too."""
MANY_SECONDS = 120.0


@pytest.fixture
def rendered(tmp_path: Path) -> Path:
    """A folder with code/, a workspace with a new project, and a rendered job beside it."""
    write_code(tmp_path / "code")
    workspace = Workspace.open(tmp_path / "workspace")
    config = {**CONFIG, "training": {"epochs": EPOCHS}, "early_stopping": {"enabled": False}}
    projects.create_project(workspace, NAME, intent="tell irises apart", goal=GOAL, config=config)
    render_cloud(workspace, read_cloud_request(project=NAME, platform="slurm", gpu="h100:1", hours=1), tmp_path / "job")
    workspace.close()
    return tmp_path


@pytest.fixture
def planned(rendered: Path) -> Path:
    """The same with the planning gate passed."""
    workspace = Workspace.open(rendered / "workspace")
    train(workspace, RunKind.SMOKE)
    projects.pass_gate(workspace, NAME, "planning")
    workspace.close()
    return rendered


def program(folder: Path) -> Path:
    """Write what the job finds as `trainwright`: this checkout's."""
    path = folder / "trainwright"
    path.write_text(f'#!/bin/sh\nexec "{sys.executable}" -P -m {cli.__name__} "$@"\n')
    path.chmod(0o755)
    return path


def started(folder: Path, workspace: Path, **more: str) -> subprocess.Popen[str]:
    names = {"TRAINWRIGHT_PROGRAM": program(folder), "CODE": folder / "code", "WORKSPACE": workspace}
    env = {**os.environ, **{name: str(value) for name, value in names.items()}, **more}
    return subprocess.Popen(
        ["bash", str(folder / "job" / "entry.sh")], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def baselines(workspace: Path) -> list[Path]:
    return [workspace / "projects" / NAME / "runs" / name for name in runs(workspace, "baseline-*")]


def status_of(workspace: Path) -> dict[str, Any]:
    """The newest status of the baseline; empty before there is one."""
    found = baselines(workspace)
    try:
        return dict(json.loads((found[0] / "status.json").read_bytes())) if found else {}
    except FileNotFoundError:
        return {}


def await_step(job: subprocess.Popen[str], workspace: Path, step: int) -> None:
    until = time.monotonic() + MANY_SECONDS
    while int(status_of(workspace).get("step") or 0) < step:
        assert job.poll() is None, job.communicate()[0]
        assert time.monotonic() < until, status_of(workspace)
        time.sleep(0.01)


def record_of(folder: Path) -> tuple[Any, list[Any]]:
    """What a run computed: the digest of its weights, and every loss of every step."""
    run = RunDirectory(folder)
    points = [(point.step, point.value) for point in run.metrics().series("train/loss")]
    return json.loads((run.artifacts / "summary.json").read_bytes())["weights_digest"], points


@pytest.mark.long
def test_a_job_that_gets_the_notice_saves_and_the_next_start_ends_with_the_same_bits(planned: Path) -> None:
    undisturbed, disturbed, keep = planned / "undisturbed", planned / "disturbed", planned / "keep"
    shutil.copytree(planned / "workspace", undisturbed)
    shutil.copytree(planned / "workspace", disturbed)
    workspace = Workspace.open(undisturbed)
    expected = record_of(workspace.run_directory(NAME, train(workspace, RunKind.BASELINE).run_id).path)
    workspace.close()

    job = started(planned, disturbed, KEEP=str(keep))
    await_step(job, disturbed, 12)
    job.send_signal(signal.SIGTERM)
    said = job.communicate(timeout=MANY_SECONDS)[0]
    assert job.returncode == STOPPED_CODE, said
    status = status_of(disturbed)
    assert (status["state"], status["stop_reason"]) == ("stopped", "preempted")
    assert 12 <= status["step"] < 3 * EPOCHS
    run = RunDirectory(baselines(disturbed)[0])
    newest = json.loads((run.checkpoints / "index.json").read_bytes())["last"]
    assert int(newest.removeprefix("step-")) == status["step"], "the notice saved the step that was reached"

    shutil.rmtree(disturbed)  # the machine is gone, and its disk
    again = started(planned, disturbed, KEEP=str(keep))
    said = again.communicate(timeout=MANY_SECONDS)[0]
    assert again.returncode == 0, said
    assert len(baselines(disturbed)) == 1
    run = RunDirectory(baselines(disturbed)[0])
    assert [event.data["step"] for event in run.events("resumed")] == [status["step"]]
    assert record_of(run.path) == expected
    workspace = Workspace.open(disturbed)
    with workspace.session() as session:
        restart = measured_restart(Evidence(session, workspace, NAME, inspection=Look()))
    workspace.close()
    assert restart is not None, "what a resume takes is read off the project's own"
    assert restart.resumes == 1
    assert 0 < restart.seconds < MANY_SECONDS


@pytest.mark.long
def test_a_search_in_a_job_gets_the_notice_and_the_next_start_repeats_no_trial(rendered: Path) -> None:
    home = Workspace.open(rendered / "workspace")
    search = {
        "trials": 4, "confirmation_repeats": 3, "pruning": {"name": "none"},
        "space": {"optimizer.learning_rate": {"type": "categorical", "choices": [0.001, 0.005, 0.02, 0.1]}},
    }  # fmt: skip
    projects.configure(home, NAME, changes={"search": search, "training.epochs": 10})
    shutil.rmtree(rendered / "job")
    request = read_cloud_request(project=NAME, platform="slurm", gpu="h100:1", hours=1, search=True)
    render_cloud(home, request, rendered / "job")
    home.close()
    definition = yaml.safe_load((rendered / "job" / "trainwright.yaml").read_text())
    definition["goal"]["target"] = 0.999  # which the baseline misses, so that the search is asked for
    (rendered / "job" / "trainwright.yaml").write_text(yaml.safe_dump(definition))
    workspace = rendered / "there"
    job = started(rendered, workspace)
    await_run(job, workspace, "trial-*", 2)
    job.send_signal(signal.SIGTERM)
    said = job.communicate(timeout=MANY_SECONDS)[0]
    assert job.returncode == STOPPED_CODE, said
    begun = runs(workspace, "trial-*")
    again = started(rendered, workspace)
    said = again.communicate(timeout=2 * MANY_SECONDS)[0]
    assert said.count("4/4 trials") == 1, "no search is asked for again"
    assert again.returncode, "whether to end below the goal is decided by somebody"
    opened = Workspace.open(workspace)
    with opened.session() as session:
        made = [trial.run for trial in session.scalars(select(Trial).order_by(Trial.number))]
    opened.close()
    assert len(set(made)) == 4, "each of the four rates once, whatever the second search takes over"
    assert set(begun) <= set(made), "what had begun is resumed, and not made again"


def runs(workspace: Path, kind: str) -> list[str]:
    return sorted(path.name for path in (workspace / "projects" / NAME / "runs").glob(kind))


def await_run(job: subprocess.Popen[str], workspace: Path, kind: str, count: int) -> None:
    until = time.monotonic() + 2 * MANY_SECONDS
    while len(runs(workspace, kind)) < count:
        assert job.poll() is None, job.communicate()[0]
        assert time.monotonic() < until
        time.sleep(0.05)


def test_the_entry_stops_by_itself_now_and_then_puts_the_workspace_away_and_goes_on(rendered: Path) -> None:
    """The program is a stand-in that obeys the contract of `trainwright job`: what is shown is the entry's own loop."""
    stand_in, calls, keep = rendered / "stand-in", rendered / "calls", rendered / "keep"
    stand_in.write_text(
        "#!/bin/bash\n"
        f'echo "$*" >> "{calls}"\n'
        f'mkdir -p "$WORKSPACE"; cp "{calls}" "$WORKSPACE/calls"\n'
        f'[ "$(wc -l < "{calls}")" -lt 3 ] || exit 0\n'
        "trap 'exit 75' TERM\n"
        "while :; do sleep 0.05; done\n"
    )
    stand_in.chmod(0o755)
    job = started(rendered, rendered / "there", TRAINWRIGHT_PROGRAM=str(stand_in), KEEP=str(keep), KEEP_EVERY="1")
    said = job.communicate(timeout=MANY_SECONDS)[0]
    assert job.returncode == 0, said
    assert len(calls.read_text().splitlines()) == 3
    shutil.rmtree(rendered / "there")
    with tarfile.open(keep / "workspace.tar") as kept:
        kept.extract("./calls", rendered / "home", filter="data")
    assert (rendered / "home" / "calls").read_text() == calls.read_text()


@pytest.mark.parametrize("where", variants(["script", "step"], quick=["script"]))
def test_both_notices_of_slurm_reach_the_entry_and_the_job_is_queued_again(rendered: Path, where: str) -> None:
    """Slurm is a stand-in that starts steps as it does; near the end it signals the script, at preemption the steps."""
    stand_in_for_slurm(rendered / "bin")
    stand_in, begun = rendered / "stand-in", rendered / "begun"
    stand_in.write_text(
        f"#!/bin/bash\ntrap 'exit {STOPPED_CODE}' TERM\ntouch \"{begun}\"\nwhile :; do sleep 0.05; done\n"
    )
    stand_in.chmod(0o755)
    names = {"PATH": f"{rendered / 'bin'}:{os.environ['PATH']}", "SLURM_JOB_ID": "7", "NOTES": str(rendered / "notes")}
    command, env = ["bash", str(rendered / "job" / "slurm.sh")], {**os.environ, **names}
    with (rendered / "said").open("wb") as said:
        job = subprocess.Popen(
            command, env={**env, "TRAINWRIGHT_PROGRAM": str(stand_in)}, stdout=said, stderr=said, start_new_session=True
        )
    step = job.pid
    try:
        step = await_step_of_slurm(job, rendered / "notes")
        await_file(job, begun)
        if where == "script":
            job.send_signal(signal.SIGTERM)
        else:
            os.killpg(step, signal.SIGTERM)
        assert job.wait(timeout=MANY_SECONDS) == STOPPED_CODE, (rendered / "said").read_text()
        assert (rendered / "notes" / "scontrol").read_text() == "requeue 7\n"
    finally:
        for group in {job.pid, step}:  # Slurm ends the steps with the job
            with suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)
        job.wait(timeout=MANY_SECONDS)


def stand_in_for_slurm(folder: Path) -> None:
    folder.mkdir()
    texts = {
        "srun": 'while [[ $1 == --* ]]; do shift; done\nmkdir -p "$NOTES"\n'
                'exec setsid bash -c \'echo $$ > "$NOTES/new"; mv "$NOTES/new" "$NOTES/step"; exec "$@"\' _ "$@"\n',
        "scontrol": 'mkdir -p "$NOTES"\necho "$*" >> "$NOTES/scontrol"\n',
    }  # fmt: skip
    for name, text in texts.items():
        (folder / name).write_text(f"#!/bin/bash\n{text}")
        (folder / name).chmod(0o755)


def await_file(job: subprocess.Popen[bytes], file: Path) -> None:
    until = time.monotonic() + MANY_SECONDS
    while not file.exists():
        assert job.poll() is None
        assert time.monotonic() < until
        time.sleep(0.01)


def await_step_of_slurm(job: subprocess.Popen[bytes], notes: Path) -> int:
    """Return the process of the step once it sleeps, which it does after it has set its trap."""
    await_file(job, notes / "step")
    step, until = psutil.Process(int((notes / "step").read_text())), time.monotonic() + MANY_SECONDS
    while not any(child.name() == "sleep" for child in step.children()):
        assert job.poll() is None
        assert time.monotonic() < until
        time.sleep(0.01)
    return step.pid


@pytest.mark.long
def test_a_job_that_cannot_go_on_says_why_and_keeps_its_workspace(rendered: Path) -> None:
    keep = rendered / "keep"
    (rendered / "code" / "iris.csv").unlink()
    job = started(rendered, rendered / "other", KEEP=str(keep))
    said = job.communicate(timeout=MANY_SECONDS)[0]
    assert job.returncode == 1, said
    assert "no file at" in said
    assert "Remedy:" in said
    assert "Traceback" not in said
    assert (keep / "workspace.tar").is_file()


def test_the_jobs_settings_make_a_new_workspace_and_never_change_one(rendered: Path) -> None:
    from trainwright.tools.pipeline.job import install_settings

    folder, file = rendered / "new", rendered / "job" / "settings.yaml"
    assert install_settings(folder, file, rendered / "code")
    settings = yaml.safe_load((folder / "settings.yaml").read_text())
    assert settings["code_roots"] == [str((rendered / "code").resolve())]
    assert settings["limits"]["run_wall_clock_seconds"] == 3600.0
    (folder / "settings.yaml").write_text("require_git: true\n")
    assert not install_settings(folder, file, rendered / "code")
    assert (folder / "settings.yaml").read_text() == "require_git: true\n"
    file.write_text("limits: {money: cheap}\n")
    with pytest.raises(ConfigurationError, match=r"settings.yaml is no file of settings"):
        install_settings(rendered / "third", file, rendered / "code")
