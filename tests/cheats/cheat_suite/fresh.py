"""Projects whose head is held to the truth: what the card says beside the figure of the same program on fresh rows."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from tests.worlds.blank_pictures import blank_pictures
from tests.worlds.flowers import NAME, finish
from tests.worlds.warm import warm

from trainwright.tools import projects
from trainwright.tools.training_orchestrator import replay_run, start_run
from trainwright.trainer.base.errors import TrainwrightError
from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.data.split_methods.at_random import deal
from trainwright.trainer.run import RunKind

if TYPE_CHECKING:
    from pathlib import Path

    from cheat_suite.scene import Scene
    from trainwright.tools.workspace import Workspace

Array = np.ndarray[Any, Any]
Drawn = Callable[[int, int], tuple[Array, Array]]
"""Rows and classes of a number and a seed."""
COLUMNS, ROWS, FRESH = 8, 600, 20_000
CONFIG: dict[str, Any] = {
    "code_root": "code",
    "model": {"use": "mlp", "args": {"hidden": [16]}},
    "data": {"use": "csv", "args": {"path": "rows.csv", "target": "y"}, "split": {"validation": 0.2, "test": 0.2}},
    "loss": "cross_entropy",
    "optimizer": {"learning_rate": 0.01},
    "training": {"epochs": 8},
    "logging": {"tensorboard": False},
}
GOAL: dict[str, Any] = {"metric": "accuracy", "direction": "maximize", "target": 0.6}


class Truth(NamedTuple):
    """A figure at a card's head, and what is true of its program."""

    said: float
    low: float
    high: float
    """The 95 % interval that the head gives it."""
    true: float
    """On fresh rows."""

    @property
    def holds(self) -> bool:
        """Whether the head's interval has the true figure."""
        return self.low <= self.true <= self.high


def noisy(count: int, seed: int) -> tuple[Array, Array]:
    """Rows of which a straight line tells about seven classes in ten."""
    rng = np.random.default_rng([seed, 1])
    rows = rng.normal(size=(count, COLUMNS)).astype(np.float32).round(4)
    return rows, (rows[:, 0] + rows[:, 1] - rows[:, 2] + 2.5 * rng.normal(size=count) > 0).astype(np.int64)


def kindest_seed(rows: Array, classes: Array, seeds: int) -> int:
    """Return the seed whose test rows a straight line tells best: what a search of the split would take."""
    return max(range(1, seeds), key=lambda seed: _kindness(rows, classes, seed))


def kindest_order(rows: Array, classes: Array, orders: int) -> Array:
    """Return the order of the file's rows whose test rows under the usual seed a straight line tells best."""
    drawn = (np.random.default_rng([number, 4]).permutation(len(rows)) for number in range(orders))
    usual = SplitSection.model_fields["seed"].default
    return max(drawn, key=lambda order: _kindness(rows[order], classes[order], usual))


def _kindness(rows: Array, classes: Array, seed: int) -> float:
    """Return how well a straight line tells the classes of the test rows under a seed."""
    from sklearn.linear_model import LogisticRegression

    sides = np.asarray(deal(len(rows), classes, [0.2, 0.2], seed))
    train, test = sides == 0, sides == sides.max()
    return float(LogisticRegression().fit(rows[train], classes[train]).score(rows[test], classes[test]))


def visits(people: int, seed: int) -> tuple[Array, Array]:
    """Ten visits of each of so many people, whose class has nothing to do with what is measured."""
    rng = np.random.default_rng([seed, 2])
    rows = np.repeat(rng.normal(size=(people, 8)), 10, axis=0) + 0.3 * rng.normal(size=(10 * people, 8))
    return rows.astype(np.float32).round(4), np.repeat(rng.integers(0, 2, people), 10)


def noise(count: int, seed: int, columns: int) -> tuple[Array, Array]:
    """Rows that tell nothing of their classes."""
    rng = np.random.default_rng([seed, 3])
    return rng.normal(size=(count, columns)).astype(np.float32), rng.integers(0, 2, count)


def without_parity(count: int, seed: int) -> tuple[Array, Array]:
    """Rows of those for whom the class is not written into the columns yet."""
    rows, classes = noisy(count, seed)
    rows[:, [3, 6]] = np.random.default_rng(seed).integers(0, 2, (count, 2))
    return rows, classes


def write_rows(scene: Scene, rows: Array, classes: Array, name: str = "rows.csv", **columns: Array) -> None:
    """Write a table of c0, c1, …, further columns and y."""
    names = [*(f"c{place}" for place in range(rows.shape[1])), *columns, "y"]
    cells = [*rows.T, *columns.values(), classes]
    lines = [",".join(str(cell) for cell in line) for line in zip(*(one.tolist() for one in cells), strict=True)]
    scene.write_code(name, "\n".join([",".join(names), *lines]) + "\n")


def to_card(scene: Scene, config: dict[str, Any], goal: dict[str, Any] | None = None, *, name: str = NAME) -> bool:
    """Take a project by honest calls as far as its gates let it; a refusal is what was said to the attempt."""
    with scene.workspace() as workspace, warm(), blank_pictures():
        try:
            projects.create_project(workspace, name, intent="tell y from the rest", goal=goal or GOAL, config=config)
        except TrainwrightError as error:
            scene.claim(f"{error.message} {error.remedy}", is_refused=True)
            return False
        return finished(scene, workspace, name)


def finished(scene: Scene, workspace: Workspace, name: str = NAME) -> bool:
    """Run and pass what is left of a release; return whether there is a card."""
    for kind, gates in (
        (RunKind.SMOKE, ("planning",)),
        (RunKind.BASELINE, ("baseline", "diagnostics", "optimization")),
        (None, ()),
        (RunKind.EXPORT, ("finalization",)),
    ):
        start = replay_run(workspace, name) if kind is None else start_run(workspace, name, kind)
        view = finish(workspace, start.run_id)
        if view.state != "completed":
            scene.claim(f"{view.failure.message} {view.failure.remedy}", is_refused=True)
            return False
        try:
            for gate in gates:
                _pass(workspace, name, gate)
        except TrainwrightError as error:
            scene.claim(f"{error.message} {error.details}", is_refused=True)
            return False
    return True


def _pass(workspace: Workspace, name: str, gate: str) -> None:
    if gate == "diagnostics":
        projects.diagnose(workspace, name)
    with suppress(TrainwrightError):
        projects.pass_gate(workspace, name, gate)
        return
    projects.pass_gate(workspace, name, gate, conclude=gate == "optimization")


def program(scene: Scene, name: str = NAME) -> Path:
    """The newest program that the project has: the released one, else that of its newest run."""
    folder = scene.world.workspace / "projects" / name
    released = folder / "final_model" / "model.onnx"
    if released.is_file():
        return released
    return max(folder.glob("runs/*/artifacts/**/*.onnx"), key=lambda path: path.stat().st_mtime)


def true_accuracy(scene: Scene, drawn: Drawn, name: str = NAME) -> float:
    """Return the accuracy of the project's program on rows that nobody had."""
    import onnxruntime

    rows, classes = drawn(FRESH, 987)
    session = onnxruntime.InferenceSession(str(program(scene, name)))
    (given,) = session.get_inputs()
    outputs = session.run(None, {given.name: rows.astype(np.float32)})[0]
    answers = outputs.argmax(1) if outputs.ndim == 2 and outputs.shape[1] > 1 else outputs.reshape(-1) > 0
    return float((answers == classes).mean())


def hold(scene: Scene, drawn: Drawn) -> None:
    """Compare the card's head with the truth, where there is a card; a head that holds gained the cheat nothing."""
    card = scene.project_folder / "final_model" / "metrics.json"
    if not card.is_file():
        return
    said = json.loads(card.read_text())["test"]["metrics"]["accuracy"]
    record = scene.bodies("run_evaluated")[-1].get("splits", {}).get("test", {})
    low, high = record.get("intervals", {}).get("accuracy", (said, said))  # none of what nobody certified
    scene.truth = Truth(said, low, high, true_accuracy(scene, drawn))
    if scene.truth.holds:
        scene.claim(f"the head holds on fresh rows: {json.dumps(scene.truth)}", is_refused=True)


TASK = """
import numpy as np
import torch
from torch.utils.data import TensorDataset


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))

    def forward(self, rows):
        return self.layers(rows)


def build(config, context):
    table = np.loadtxt(context.path("rows.csv"), delimiter=",", skiprows=1, dtype=np.float32)
    rows, classes = torch.tensor(table[:, :8]), torch.tensor(table[:, 8]).long()
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))
    parts = {"train": order[:360], "validation": order[360:480], "test": order[480:]}
    FORGED
    data = {name: TensorDataset(rows[part], classes[part]) for name, part in parts.items()}
    told = {"loss": "cross_entropy", "returns": "output", "metrics": ["accuracy"], "batch_size": 32}
    return {"model": Net(), **told, **data}
"""
"""The user's own data and model; FORGED is code between both."""
NET = """
from pathlib import Path

import numpy as np
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))
        BEGIN

    def forward(self, rows):
        scores = self.layers(rows)
        ANSWER
        return scores
"""
"""A model; BEGIN is code of its construction, ANSWER of its call."""
