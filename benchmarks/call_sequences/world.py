"""A workspace with the user's folder beside it, two servers on it, and the model of what they must answer."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

from phases import Model
from sklearn.datasets import load_iris
from understudy import Library, Understudy

from trainwright.tools import projects
from trainwright.tools.figures import curves, gradients
from trainwright.tools.gates import staleness
from trainwright.tools.hyperparameter_tuner import conductor
from trainwright.tools.launchers import LAUNCHERS, Launch, jobs, write_launch
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.records import latest_config
from trainwright.trainer.run import ProcessIdentity, RunDirectory

NAME = "flowers"
MODEL = """
import torch


class Net(torch.nn.Module):
    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(4, width), torch.nn.ReLU(), torch.nn.Linear(width, 3))

    def forward(self, rows):
        return self.layers(rows)
"""
GOOD_RATE, POOR_RATE = 0.02, 0.0005
CONFIG: dict[str, Any] = {
    "code_root": "code",
    "model": {"use": "flower_model.py:Net"},
    "data": {
        "use": "csv",
        "args": {"path": "iris.csv", "target": "species"},
        "split": {"validation": 0.2, "test": 0.2},
    },
    "optimizer": {"learning_rate": GOOD_RATE},
    "training": {"epochs": 6},
    "logging": {"tensorboard": False},
}
GOAL = {"metric": "accuracy", "direction": "maximize", "target": 0.8}
TRIALS = 2
LIMITS = {"runs_at_once": 2, "trials": 2 * TRIALS}
SEARCH: dict[str, Any] = {
    "trials": TRIALS,
    "method": "random",
    "space": {"optimizer.learning_rate": {"type": "categorical", "choices": [GOOD_RATE, POOR_RATE]}},
}


def write_user_files(folder: Path, code: str, data: str) -> None:
    """Write the user's model and data, in one of two states each."""
    folder.mkdir(parents=True, exist_ok=True)
    other = "\nSTATE = 'another'\n"  # a comment alone would change nothing
    (folder / "flower_model.py").write_text(MODEL + ("" if code == "a" else other))
    rows, target = load_iris(return_X_y=True)
    lines = dict.fromkeys(
        ",".join(map(str, (*map(float, row), int(label)))) for row, label in zip(rows, target, strict=True)
    )
    kept = list(lines)[: None if data == "a" else -1]
    (folder / "iris.csv").write_text("\n".join(["a,b,c,d,species", *kept]) + "\n")


@dataclass
class Edit:
    """A file of the workspace that was edited by hand, and what it was."""

    path: Path
    before: bytes | None
    """None: there was none, and it was added."""
    named: tuple[str, ...]
    """What `verify` has to say of it."""
    run: str | None = None


@dataclass
class World:
    """One workspace under test. The copy of a stage always takes the same place: code roots are absolute."""

    base: Path
    understudy: Understudy
    model: Model = field(default_factory=lambda: Model(""))
    edits: dict[Path, Edit] = field(default_factory=dict)
    servers: list[Workspace] = field(default_factory=list)
    verified: object = None
    """What had been recorded, edited and ended when the workspace was verified last."""
    asked: int = 0

    @property
    def folder(self) -> Path:
        """The folder that workspace and code stand in."""
        return self.base / "world"

    @property
    def path(self) -> Path:
        """The workspace's folder."""
        return self.folder / "workspace"

    @property
    def project(self) -> Path:
        """The project's folder."""
        return self.path / "projects" / NAME

    @property
    def turn(self) -> Workspace:
        """The servers in turn."""
        self.asked += 1
        return self.servers[self.asked % len(self.servers)]

    def open(self) -> None:
        """Let two servers have the workspace open."""
        self.servers = [Workspace.open(self.path) for _ in range(2)]

    def restart(self, number: int) -> None:
        """Let one of the servers end, and another one come."""
        self.servers[number].close()
        self.servers[number] = Workspace.open(self.path)

    def close(self) -> None:
        """End runs and servers."""
        self.understudy.close()
        for server in self.servers:
            server.close()
        self.servers = []

    def run(self, run_id: str) -> RunDirectory:
        """Return a run's directory."""
        return RunDirectory(self.project / "runs" / run_id)


class Stages:
    """Copies of the world at every stage of the project, made by real calls; each sequence begins at one of them."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.library = Library(base / "library")
        self.understudy = Understudy(self.library)
        self._kept: dict[str, tuple[Path, Model, dict[str, str]]] = {}

    @property
    def names(self) -> list[str]:
        """The stages in order."""
        return list(self._kept)

    def keep(self, name: str, world: World) -> None:
        """Keep the world as it is now."""
        place = self.base / "stages" / name
        for server in world.servers:
            server.close()  # the database is checkpointed and whole on the disk
        shutil.copytree(world.folder, place)
        self._kept[name] = (place, copy.deepcopy(world.model), self.library.remember())
        world.open()

    def fresh(self) -> World:
        """Return an empty world with the user's files."""
        shutil.rmtree(self.base / "world", ignore_errors=True)
        write_user_files(self.base / "world" / "code", "a", "a")
        world = World(self.base, self.understudy)
        world.open()
        return world

    def at(self, name: str) -> World:
        """Return a private copy of the world at a stage."""
        place, model, keys = self._kept[name]
        shutil.rmtree(self.base / "world", ignore_errors=True)
        shutil.copytree(place, self.base / "world")
        self.library.recall(keys)
        world = World(self.base, self.understudy, copy.deepcopy(model))
        world.open()
        return world


@contextmanager
def in_place(understudy: Understudy, pictures: Path) -> Iterator[None]:
    """Let launches hand runs to the understudy, and conductors work in this process.

    Every picture is drawn once, and the installed packages are listed once: neither is under test, both take long.
    """
    pictures.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        for module, name, stand_in in (
            (LAUNCHERS["own"], "spawn", understudy.spawn),
            (jobs, "spawn", partial(_conduct, understudy, jobs.spawn)),
            (staleness, "installed_packages", cache(staleness.installed_packages)),
            (curves, "learning_curves", partial(_draw_once, curves.learning_curves, pictures / "curves.png")),
            (gradients, "gradient_health", partial(_draw_once, gradients.gradient_health, pictures / "gradients.png")),
        ):
            stack.callback(setattr, module, name, getattr(module, name))
            setattr(module, name, stand_in)
        yield


def _conduct(
    understudy: Understudy, others: Callable[..., Launch], folder: Path, launched: Launch, command: list[str],
    **options: Any,
) -> Launch:  # fmt: skip
    if conductor.__name__ not in command:
        return others(folder, launched, command, **options)
    understudy.at_once = True
    try:
        recorded = write_launch(folder, launched.model_copy(update={"process": ProcessIdentity.current()}))
        conductor.main(command[-2:])
    finally:
        understudy.at_once = False
    return recorded


def _draw_once(draw: Callable[..., Any], kept: Path, runs: Any, target: Path, *named: Any) -> None:
    if not kept.exists():
        draw(runs, target, *named)
        shutil.copy(target, kept)
    shutil.copy(kept, target)


def create(world: World) -> None:
    """Make the project, and the model of it."""
    status = projects.create_project(
        world.servers[0], NAME, intent="tell irises apart", goal=GOAL, config=CONFIG, limits=LIMITS
    )
    assert isinstance(status, projects.ProjectStatus)
    with world.servers[0].session() as session:
        world.model = Model(latest_config(session, NAME).digest)
