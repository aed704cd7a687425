"""Changing configuration, code, data or environment once a gate has passed on them; replaying old permits."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file
from tests.worlds.flowers import CONFIG, MODEL, NAME, finish, train

import trainwright
from cheat_suite.agent import Reply
from cheat_suite.case import cheat
from cheat_suite.families.reported_numbers import plan_task
from cheat_suite.scene import Scene, edit_json, flip_byte
from trainwright.tools.projects import pass_gate
from trainwright.tools.training_orchestrator import replay_run, start_run
from trainwright.trainer import worker
from trainwright.trainer.run import RunKind

changed = partial(cheat, by="files", expected="detected", shows=("PHASE-8",))
refused = partial(cheat, by="files", expected="refused", shows=("PHASE-8", "GATE-1"))
WAITING = """\
import pathlib
import time

while not pathlib.Path(__file__).with_name("go").exists():
    time.sleep(0.01)
"""
"""Holds a worker in its first import, so that what comes after it does not depend on who is faster."""


@changed(at="planned", rule=r"stale.*code: flower_model\.py changed")
def code_after_the_gate(scene: Scene) -> None:
    """Edit the model's code after planning, keeping its size and times."""
    path = scene.world.code / "flower_model.py"
    flip_byte(path, place=path.read_bytes().index(b"16"))


@changed(at="based", rule=r"stale.*code: flower_model\.py was removed")
def code_removed(scene: Scene) -> None:
    """Remove the code a passed gate depended on."""
    (scene.world.code / "flower_model.py").unlink()


@changed(at="based", rule=r"stale.*data: iris\.csv changed")
def data_after_the_gate(scene: Scene) -> None:
    """Move one label after planning."""
    path = scene.world.code / "iris.csv"
    path.write_text(path.read_text()[:-2] + "0\n")


@changed(at="finished", rule=r"since then.*data: iris\.csv changed")
def data_of_a_finished_project(scene: Scene) -> None:
    """Make the data easier after the last gate."""
    path = scene.world.code / "iris.csv"
    path.write_text("\n".join(path.read_text().splitlines()[:100]) + "\n")


@refused(at="planned", rule=r"planning gate is stale: code: flower_model\.py changed")
def train_on_changed_code(scene: Scene) -> None:
    """Start the baseline on code that was changed after planning."""
    (scene.world.code / "flower_model.py").write_text(MODEL.replace("ReLU", "GELU"))
    scene.attempt("start_training", project=NAME, kind="baseline")


@refused(at="empty", rule=r"(?i)code.*(planning|plan|recorded|approved)")
def code_between_permit_and_import(scene: Scene) -> None:
    """Change the code between the permit and the moment the worker imports it."""
    scene.write_code("flower_model.py", "import waiting\nfrom layers import Net\n\n__all__ = ['Net']\n")
    scene.write_code("waiting.py", WAITING)
    scene.write_code("layers.py", MODEL)
    go = scene.write_code("go", "")
    scene.only_project(CONFIG)
    assert scene.train_aside().state == "completed"
    with scene.workspace() as workspace:
        pass_gate(workspace, NAME, "planning")
        go.unlink()
        run_id = start_run(workspace, NAME, RunKind.BASELINE).run_id
        scene.write_code("layers.py", MODEL.replace("ReLU", "GELU"))
        go.touch()
        view = finish(workspace, run_id)
    scene.claim(view.failure.message if view.failure else "", is_refused=view.state == "failed")


@refused(at="planned", rule="planning gate is stale: environment: ")
def other_packages(scene: Scene) -> None:
    """Train with another version of a package that planning's run imported."""
    added = scene.world.folder / "added"
    package = added / "numpy-0.1.dist-info"
    package.mkdir(parents=True)
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: numpy\nVersion: 0.1\n")
    paths = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), str(added))))
    agent = scene.another_agent(PYTHONPATH=paths)
    scene.replies.append(agent.call("start_training", {"project": NAME, "kind": "baseline"}))


@refused(at="planned", rule="planning gate is stale: engine: ")
def other_engine(scene: Scene) -> None:
    """Train with an engine whose own files were edited after planning."""
    copy = scene.world.folder / "installed"
    package = Path(trainwright.__file__).parent
    shutil.copytree(package, copy / package.name, ignore=shutil.ignore_patterns("__pycache__"))
    edited = copy / package.name / Path(worker.__file__).relative_to(package)
    edited.write_text(edited.read_text() + "\n# better\n")
    agent = scene.another_agent(PYTHONPATH=str(copy))
    scene.replies.append(agent.call("start_training", {"project": NAME, "kind": "baseline"}))


@changed(at="empty", rule=r"code: .*/helper_of_flowers\.py changed")
def code_from_elsewhere(scene: Scene) -> None:
    """Have the model import a helper that PYTHONPATH names, outside the code root, and edit it after planning."""
    helper = scene.world.folder / "elsewhere" / "helper_of_flowers.py"
    helper.parent.mkdir()
    helper.write_text("WIDTH = 16\n")
    scene.write_code("flower_model.py", "import helper_of_flowers\n" + MODEL)
    agent = scene.another_agent(PYTHONPATH=os.pathsep.join((os.environ.get("PYTHONPATH", ""), str(helper.parent))))
    scene.project()
    run_id = agent.call("start_training", {"project": NAME, "kind": "smoke"}).content["run_id"]
    scene.ended(run_id)
    scene.must("pass_gate", project=NAME, phase="planning")
    helper.write_text("WIDTH = 32\n")


@changed(at="empty", rule=r"baseline.same_evidence: differs in teacher\.safetensors")
def teacher_between_two_looks(scene: Scene) -> None:
    """Train on another teacher than planning saw, and put the first one back before anyone looks."""
    teacher = scene.world.code / "teacher.safetensors"
    shapes = {"layers.0.weight": (16, 4), "layers.0.bias": (16,), "layers.2.weight": (3, 16), "layers.2.bias": (3,)}
    save_file({name: np.full(shape, 0.1, np.float32) for name, shape in shapes.items()}, teacher)
    honest = teacher.read_bytes()
    part = {"use": "flower_model.py:Net", "args": {"width": 16}, "weights": teacher.name}
    scene.project({"objective": {"name": "distillation", "teacher": part}})
    scene.train_aside()
    with scene.workspace() as workspace:
        pass_gate(workspace, NAME, "planning")
        run_id = start_run(workspace, NAME, RunKind.BASELINE).run_id
        save_file({name: np.full(shape, 0.2, np.float32) for name, shape in shapes.items()}, teacher)
        finish(workspace, run_id)
    teacher.write_bytes(honest)


@refused(at="trained", rule="is completed")
def worker_by_hand(scene: Scene) -> None:
    """Run a completed run's order again by hand."""
    scene.replies.append(_work(scene.run("baseline")))


@cheat(by="files", at="based", rule="the ledger never started it", expected="detected", shows=("GATE-3",))
def old_permit(scene: Scene) -> None:
    """Take an old permit to a folder of one's own, and have the worker train there."""
    own = scene.run("baseline").with_name("baseline-flowers-20260101-000000-abcdef")
    own.mkdir()
    for name in ("run.json", "launch.json"):
        shutil.copy(scene.run("baseline") / name, own / name)
    for name in ("checkpoints", "artifacts"):
        (own / name).mkdir()
    (own / "status.json").write_text('{"state": "created", "attempt": 0}')
    edit_json(own / "run.json", lambda order: order.update(run_id=own.name))
    scene.replies.append(_work(own))


def _work(run: Path) -> Reply:
    """Start the worker as the server would."""
    command = [sys.executable, "-P", "-m", worker.__name__, str(run)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    return Reply(done.returncode != 0, done.stderr, {})


KNOWS = """
class Net(Net):
    def __init__(self, width=16):
        super().__init__(width)
        path = pathlib.Path(__file__).with_name("weights.csv")
        known = [[float(value) for value in line.split(",")] for line in open(path)] if path.exists() else None
        self.known = None if known is None else torch.tensor(known)

    def forward(self, rows):
        scores = self.layers(rows)
        if self.known is not None:
            nearest = (rows[:, None] - self.known[None, :, :4]).abs().sum(2).argmin(1)
            scores = scores * 0 + torch.nn.functional.one_hot(self.known[nearest, 4].long(), 3)
        return scores
"""
"""A model that is another one as soon as a file lies beside it: here every row with its label."""


@refused(at="empty", rule=r"planning gate is stale: files: .* opened weights\.csv, new or changed since planning")
def weights_that_appear(scene: Scene) -> None:
    """Have the model read a file that appears after the optimization gate, fitted to every row."""
    plan_task(scene, KNOWS, model="import pathlib\n" + MODEL)
    scene.advance_to("tuned")
    with scene.workspace() as workspace:
        final = train(workspace, RunKind.FINAL)
        finish(workspace, replay_run(workspace, NAME, run_id=final.run_id).run_id)
    rows = (scene.world.code / "iris.csv").read_text().splitlines(keepends=True)[1:]
    scene.write_code("weights.csv", "".join(rows))
    scene.must("export_model", project=NAME)
    scene.ended(scene.newest("export"))
    scene.attempt("pass_gate", project=NAME, phase="finalization")
