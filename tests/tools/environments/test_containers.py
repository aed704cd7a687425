"""Runs in images of Docker and Apptainer, through stand-ins for their clients that check each command.

No real engine is played here: docs/environments.md says so too.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.worlds.engine_client import install
from tests.worlds.environments import make_environment, pretend, site_of
from tests.worlds.flowers import finish

from trainwright.tools.environments import (
    UnreachableError,
    cache_folder,
    changed_image,
    containers,
    require_environment,
    require_kept,
    runtime_of,
)
from trainwright.tools.environments.containers import _require_usable, interpreter_in
from trainwright.tools.environments.interpreters import Interpreter
from trainwright.tools.environments.overlays import _of_image
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.staleness import _image_change
from trainwright.tools.launchers import read_launch
from trainwright.tools.launchers.environment import command_of, worker_environment
from trainwright.tools.projects import create_project, pass_gate, project_status
from trainwright.tools.training_orchestrator import resume_run, start_run, stop_run
from trainwright.tools.workspace import Workspace
from trainwright.trainer.base import container
from trainwright.trainer.base.errors import ConfigurationError, ConflictError
from trainwright.trainer.checkpoints.index import list_checkpoints
from trainwright.trainer.config import TrainingConfig, parse_config
from trainwright.trainer.run import RunDirectory, RunKind, RunState
from trainwright.trainer.run.runtime import Runtime

pytestmark = pytest.mark.requirement("ENV-1")
IMAGE = "lab/torch:2"
GOAL = {"metric": "accuracy", "direction": "maximize", "target": 0.5}
CONFIG: dict[str, Any] = {
    "model": {"use": "mlp", "args": {"hidden": [8]}},
    "data": {"use": "csv", "args": {"path": "flowers.csv", "target": "kind"}},
    "metrics": ["accuracy"],
    "training": {"epochs": 60},
    "logging": {"tensorboard": False},
}
ENGINES = ("docker", "apptainer")
REACHED = {"DOCKER_HOST": "ssh://ann@lab", "DOCKER_CONTEXT": "lab"}
"""Both at once, which Docker's client takes from variables and not from options."""


class Lab:
    """A workspace, its project's folder, and images that the stand-ins have."""

    def __init__(self, workspace: Workspace, made: Path, programs: Path) -> None:
        self.workspace, self.made, self.programs = workspace, made, programs
        self.code = workspace.path.parent
        self.sif = self.code / "torch.sif"
        self.sif.write_bytes(b"an image")
        rows = [f"{n},{n % 7},{'abc'[n % 3]}" for n in range(600)]
        (self.code / "flowers.csv").write_text("\n".join(["length,width,kind", *rows]))
        self.offer("1", made)

    def offer(self, content: str, environment: Path) -> None:
        """Let both engines have an image with such content, and an environment's Python in it."""
        self.sif.write_bytes(f"image {content}".encode())
        held = {"id": f"sha256:{content:0>64}", "python": str(environment / "bin" / "python")}
        for engine in ENGINES:
            install(self.programs, engine, {IMAGE: held, str(self.sif): held})

    def environment(self, engine: str) -> dict[str, str]:
        return {"docker": IMAGE} if engine == "docker" else {"apptainer": "torch.sif"}

    def config(self, engine: str, **more: Any) -> TrainingConfig:
        return parse_config(CONFIG | {"environment": {**self.environment(engine), **more}})

    def runtime(self, engine: str) -> Runtime:
        found = runtime_of(self.workspace, self.config(engine), self.code)
        assert found is not None
        return found

    def refused(self, engine: str = "docker", **environment: str) -> str:
        config = parse_config(CONFIG | {"environment": environment or self.environment(engine)})
        with pytest.raises(ConfigurationError) as error:
            require_environment(self.workspace, config, self.code)
        return f"{error.value.message} {error.value.remedy}"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("image") / "env"
    make_environment(folder, "torch", "numpy")
    return folder


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: Path) -> Iterator[Lab]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(Path(sys.prefix) / "cache"))
    shutil.rmtree(Path(sys.prefix) / "cache" / "trainwright" / "environments" / "images", ignore_errors=True)
    monkeypatch.setenv("PATH", f"{tmp_path / 'programs'}:{os.environ['PATH']}")
    folder = tmp_path / "code" / ".trainwright"
    folder.mkdir(parents=True)
    (folder / "settings.yaml").write_text(f"code_roots: ['..']\nenvironments: ['docker:{IMAGE}']\n")
    with closing(Workspace.open(folder)) as workspace:
        yield Lab(workspace, made, tmp_path / "programs")


def started(lab: Lab, kind: RunKind, key: str | None = None) -> RunDirectory:
    view = start_run(lab.workspace, "p", kind, idempotency_key=key)
    return lab.workspace.run_directory("p", view.run_id)


def trained_to(run: RunDirectory, step: int) -> None:
    """Wait until a run has got so far."""
    until = time.monotonic() + 120
    while run.last_status().step < step and time.monotonic() < until:
        assert not run.last_status().failure, run.log.read_text()
        time.sleep(0.02)
    assert run.last_status().step >= step, run.log.read_text()


def kill_client(run: RunDirectory) -> None:
    """Kill an engine's client alone, at which no daemon ends a container, and wait until the worker is gone."""
    launch, worker = read_launch(run.path), run.last_status().process
    assert launch is not None
    assert launch.process is not None
    assert worker is not None
    os.kill(launch.process.pid, signal.SIGKILL)
    while worker.is_alive() or run.is_locked():
        time.sleep(0.02)


def bits(run: RunDirectory) -> list[Any]:
    """Return all in which two equal runs agree: checkpoints' weights and optimizers, and metrics."""
    kept = [
        [record.name, *((record.path / f"{one}.safetensors").read_bytes() for one in ("model", "optimizer"))]
        for record in list_checkpoints(run)
    ]
    metrics = run.metrics()
    names = [name for name in metrics.keys() if name.startswith(("train/", "validation/"))]  # noqa: SIM118
    return [kept, {name: [(point.step, repr(point.value)) for point in metrics.series(name)] for name in names}]


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("engine", ENGINES)
def test_a_project_goes_through_its_gates_in_an_image_and_is_stopped_killed_and_resumed_there_to_the_bit(
    lab: Lab, engine: str
) -> None:
    create_project(
        lab.workspace, "p", intent="test", goal=GOAL, config=CONFIG | {"environment": lab.environment(engine)}
    )
    smoke = started(lab, RunKind.SMOKE)
    assert finish(lab.workspace, smoke.run_id).state == "completed", smoke.log.read_text()
    assert pass_gate(lab.workspace, "p", "planning").outcome == "passed"
    whole = started(lab, RunKind.BASELINE)
    assert finish(lab.workspace, whole.run_id).state == "completed", whole.log.read_text()
    run, steps = started(lab, RunKind.BASELINE, "again"), whole.last_status().step
    trained_to(run, steps // 4)
    stop_run(lab.workspace, run.run_id)
    assert finish(lab.workspace, run.run_id).state == "stopped"
    resume_run(lab.workspace, run.run_id)
    trained_to(run, steps // 2)
    kill_client(run)
    assert finish(lab.workspace, run.run_id).state == RunState.INTERRUPTED
    resume_run(lab.workspace, run.run_id)
    assert finish(lab.workspace, run.run_id).state == "completed", run.log.read_text()
    assert bits(run) == bits(whole)
    assert pass_gate(lab.workspace, "p", "baseline").outcome == "passed"
    with lab.workspace.session() as session:
        environment = Evidence(session, lab.workspace, "p").run(run.run_id).environment
    named = f"docker:{IMAGE}" if engine == "docker" else f"apptainer:{lab.sif}"
    assert environment.container_image == named
    assert environment.image_digest == run.specification().runtime.container.digest
    assert "pydantic" in environment.overlay
    lab.offer("2", lab.made)
    told = project_status(lab.workspace, "p").model_dump_json()
    assert "environment: image " in told
    assert " -> " in told
    with pytest.raises(ConflictError, match="an image that is not there any more as it was"):
        require_kept(run.specification().runtime)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_command_in_an_image_gets_variables_by_name_and_their_values_stand_in_no_command(
    lab: Lab, engine: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("FLOWERS_DIR", str(tmp_path))
    monkeypatch.setenv("FLOWERS_KIND", "iris of the meadow")
    for name, value in REACHED.items():
        monkeypatch.setenv(name, value)
    config = lab.config(engine, variables=["FLOWERS_DIR", "FLOWERS_KIND"])
    runtime = runtime_of(lab.workspace, config, lab.code)
    assert runtime is not None
    environment = worker_environment(config, runtime=runtime) | {"PYTHONPATH": "/mine"}
    (lab.code / "asked.py").write_text(
        "import json, os, sys\nprint(json.dumps([sys.prefix, os.getcwd(), sys.argv[1:], dict(os.environ)]))\n"
    )
    order = json.loads(command_of(runtime, "asked")[4])
    assert order["settings"] == (REACHED if engine == "docker" else {})
    command, variables = container.ENGINES[engine](order, ["python3"], environment)
    assert not any("iris of the meadow" in one for one in command)
    assert "iris of the meadow" in variables.values()
    binds = [one.partition("=")[2].partition(":")[0] for one in command if one.startswith(("--volume", "--bind"))]
    package = Path(container.__file__).resolve().parent  # links of a checkout lead to it
    for place in (lab.code, lab.workspace.path, Path(runtime.overlay), tmp_path, package):
        assert any(place.is_relative_to(one) for one in binds), place
    ours = runtime.model_copy(update={"overlay": str(lab.code)})
    done = subprocess.run(
        command_of(ours, "asked", "one"), capture_output=True, text=True, check=False, cwd=lab.code, env=environment
    )
    assert done.returncode == 0, done.stderr
    prefix, folder, arguments, seen = json.loads(done.stdout)
    assert (Path(prefix), folder, arguments) == (lab.made, str(lab.code), ["one"])
    assert seen["FLOWERS_KIND"] == "iris of the meadow"
    assert seen["PATH"].startswith(str(lab.made))
    assert "PYTHONPATH" not in seen


def test_cards_are_given_to_the_container_as_the_run_was_given_them(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container, "CARDS", ("/dev/null",))
    order = json.loads(command_of(lab.runtime("docker"), "asked")[4])

    def flags(engine: str, **variables: str) -> list[str]:
        command, _ = container.ENGINES[engine](order, [], {"HOME": "/", **variables})
        return [one for one in command if one.startswith(("--gpus", "--nv"))]

    assert flags("docker", CUDA_VISIBLE_DEVICES="GPU-5c,GPU-9a") == ['--gpus="device=GPU-5c,GPU-9a"']
    assert flags("docker", CUDA_VISIBLE_DEVICES="1") == flags("docker") == ["--gpus=all"]
    assert flags("docker", CUDA_VISIBLE_DEVICES="") == []
    assert flags("apptainer", CUDA_VISIBLE_DEVICES="1") == ["--nv"]


def test_what_an_image_has_is_asked_of_it_once(lab: Lab, tmp_path: Path) -> None:
    first = lab.runtime("apptainer")
    (lab.programs / "images.json").write_text("{}")
    assert lab.runtime("apptainer") == first


def test_an_image_is_used_where_the_owner_allows_it(lab: Lab, tmp_path: Path) -> None:
    said = lab.refused(docker="lab/other:1")
    assert "a client of Docker can do all that root can" in said
    assert "environments: ['docker:lab/other:1']" in said
    outside = tmp_path / "outside.sif"
    outside.write_bytes(b"")
    assert f"environments: ['{outside}']" in lab.refused(apptainer=str(outside))


def test_an_image_that_does_not_do_is_refused_with_the_way_out(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    make_environment(lab.code / "bare", "numpy")
    lab.offer("3", lab.code / "bare")
    said = lab.refused()
    assert f"docker: {IMAGE} has no torch" in said
    assert "pip install 'torch' where the image is built" in said
    make_environment(lab.code / "aged", "torch", "numpy")
    pretend(site_of(lab.code / "aged"), "pydantic", "1.10.2")
    lab.offer("4", lab.code / "aged")
    assert "has pydantic 1.10.2, and a worker needs pydantic" in lab.refused("apptainer")
    lab.offer("5", lab.code / "nowhere")
    assert "Name an image that has python3 on its PATH" in lab.refused()
    install(lab.programs, "docker", {})
    assert f"`docker pull {IMAGE}`: the server fetches none" in lab.refused()
    lab.sif.unlink()
    assert "is no image file that can be read" in lab.refused("apptainer")
    monkeypatch.setenv("PATH", "/nowhere")
    assert "needs the program docker, and none is on the server's PATH" in lab.refused()


def test_a_variable_that_the_image_sets_itself_is_refused(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/etc/mine.pem")
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "0")
    with pytest.raises(ConfigurationError, match="names SSL_CERT_FILE, and in a container what begins so is the image"):
        runtime_of(lab.workspace, lab.config("docker", variables=["SSL_CERT_FILE"]), lab.code)
    config = lab.config("docker", variables=["NVIDIA_TF32_OVERRIDE"])
    assert container.given(worker_environment(config))["NVIDIA_TF32_OVERRIDE"] == "0"


def test_an_engine_that_is_away_says_nothing_of_an_image(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = lab.runtime("docker")
    assert runtime.container is not None
    recorded = (f"docker:{IMAGE}", runtime.container.digest)
    assert changed_image(*recorded) is None
    with monkeypatch.context() as away:
        away.setenv("PATH", "/nowhere")
        with pytest.raises(UnreachableError, match="needs the program docker"):
            require_kept(runtime)
        assert _image_change(*recorded) is None
    (lab.programs / "docker").write_text(f"#!{sys.executable}\nimport time\ntime.sleep(60)\n")
    monkeypatch.setattr(containers, "INSPECT_SECONDS", 0.5)
    with pytest.raises(UnreachableError, match="Docker's daemon does not answer"):
        changed_image(*recorded)
    install(lab.programs, "docker", {})
    assert "is gone: " in (changed_image(*recorded) or "")


def test_an_image_of_another_c_library_or_that_sees_no_process_of_this_machine_is_refused(lab: Lab) -> None:
    found = interpreter_in(lab.runtime("docker").container, IMAGE, cache_folder())  # type: ignore[arg-type]
    _require_usable(found, IMAGE, sees=True)
    with pytest.raises(ConfigurationError, match="another C library than glibc"):
        _require_usable(replace(found, libc=""), IMAGE, sees=True)
    with pytest.raises(ConfigurationError, match="does not see the processes of this machine"):
        _require_usable(found, IMAGE, sees=False)


@pytest.mark.skipif(shutil.which("docker") is None, reason="Docker's client is not installed")
def test_a_daemon_that_does_not_answer_is_told(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    (lab.programs / "docker").unlink()
    monkeypatch.setenv("DOCKER_HOST", f"unix://{lab.programs}/none.sock")
    assert "Docker's daemon does not answer" in lab.refused()


def test_an_overlay_for_an_image_is_of_wheels_that_its_c_library_takes() -> None:
    image = Interpreter("python3", (3, 11, 2), "/usr", (), "linux-x86_64", "", image=IMAGE, libc="2.29")
    assert _of_image(image) == ["--python-version", "3.11", "--python-platform", "x86_64-manylinux_2_28"]
