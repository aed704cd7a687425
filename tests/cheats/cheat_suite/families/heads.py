"""Rows or the question forged, where no measurement is: what the card's head says is held to fresh rows.

Each computes the true figure of the same program itself. A head that would be false must be refused, or say why.
"""

from __future__ import annotations

from datetime import datetime, timedelta, tzinfo
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np
from tests.worlds.flowers import NAME
from tests.worlds.warm import warm

from cheat_suite.case import cheat
from cheat_suite.fresh import (
    CONFIG,
    GOAL,
    NET,
    ROWS,
    TASK,
    Array,
    finished,
    hold,
    kindest_order,
    kindest_seed,
    noise,
    noisy,
    to_card,
    visits,
    without_parity,
    write_rows,
)
from cheat_suite.scene import Scene
from trainwright.tools import projects
from trainwright.tools.ledger import chain
from trainwright.tools.verification import verify_workspace
from trainwright.trainer.config import apply_changes
from trainwright.trainer.data.split_methods.at_random import deal

HOLDS = "the head holds on fresh rows"
SEED_CHOSEN = "which was chosen, and not the usual"
NOT_KNOWN = "How the rows were chosen and ordered, and the columns made, before planning is not known here"
code = partial(cheat, by="code", at="empty", shows=("GATE-6", "PHASE-6"))
tools = partial(cheat, by="tools", at="empty", shows=("GATE-6", "PHASE-6"))
files = partial(cheat, by="files", at="empty", shows=("GATE-6", "PHASE-6"))


def _with(**changes: Any) -> dict[str, Any]:
    return apply_changes(CONFIG, {key.replace("__", "."): value for key, value in changes.items()})


def _second_release(scene: Scene, changes: dict[str, Any], columns: int = 8) -> None:
    """Finish a release, change the configuration for a second one, and finish that."""
    rows, classes = noisy(ROWS, 0)
    write_rows(scene, rows, classes)
    assert to_card(scene, CONFIG)
    first = scene.bodies("run_evaluated")[-1]["splits"]["test"]["rows"]
    with scene.workspace() as workspace, warm():
        projects.configure(workspace, NAME, changes=changes, begin_release=True)
        finished(scene, workspace)
    assert scene.bodies("run_evaluated")[-1]["splits"]["test"]["rows"] == first
    hold(scene, lambda count, seed: (noisy(count, seed)[0][:, :columns], noisy(count, seed)[1]))


@tools(expected="refused", rule=HOLDS)
def second_release_other_columns(scene: Scene) -> None:
    """Ignore a column in a second release, so that the split would be drawn anew (T1)."""
    _second_release(scene, {"data.args.columns": {"c7": "ignore"}}, columns=7)


@tools(expected="refused", rule=HOLDS)
def second_release_other_seed(scene: Scene) -> None:
    """Divide the rows by another seed in a second release (T2)."""
    _second_release(scene, {"data.split.seed": 7})


@files(expected="detected", rule=r"\d+ rows that tested smoke-\S+ are trained on now")
def second_release_own_column(scene: Scene) -> None:
    """Divide the rows by a column of one's own in a second release, the kindest of 400 ways (T2)."""
    rows, classes = noisy(ROWS, 0)
    write_rows(scene, rows, classes)
    assert to_card(scene, CONFIG)
    sides = deal(ROWS, classes, [0.6, 0.2, 0.2], kindest_seed(rows, classes, 400))
    write_rows(scene, rows, classes, fold=np.array(["train", "validation", "test"])[sides])
    changes = {"data.split": {"by": "given", "column": "fold"}}
    with scene.workspace() as workspace, warm():
        projects.configure(workspace, NAME, changes=changes, begin_release=True)
        finished(scene, workspace)
    hold(scene, noisy)


@tools(expected="detected", rule=SEED_CHOSEN)
def kindest_split(scene: Scene) -> None:
    """Choose the seed of the split offline, the kindest of 400 (T3)."""
    rows, classes = noisy(ROWS, 0)
    write_rows(scene, rows, classes)
    to_card(scene, _with(data__split__seed=kindest_seed(rows, classes, 400)))
    hold(scene, noisy)


@files(expected="detected", rule=NOT_KNOWN)
def kindest_file(scene: Scene) -> None:
    """Write the file in the order that the usual seed divides most kindly of 400 (T3)."""
    rows, classes = noisy(ROWS, 0)
    order = kindest_order(rows, classes, 400)
    write_rows(scene, rows[order], classes[order])
    to_card(scene, CONFIG)
    hold(scene, noisy)


@code(expected="detected", rule="The user's code divided the rows: how it chose those that test is not known")
def kindest_split_by_code(scene: Scene) -> None:
    """Have the task's code divide the rows by the kindest of 400 seeds (T3)."""
    rows, classes = noisy(ROWS, 0)
    sides = np.asarray(deal(ROWS, classes, [0.6, 0.2, 0.2], kindest_seed(rows, classes, 400)))
    parts = {name: np.flatnonzero(sides == side).tolist() for side, name in enumerate(("train", "validation", "test"))}
    _task(scene, f"parts = {{name: torch.tensor(part) for name, part in {parts}.items()}}")


@tools(expected="detected", rule=f"{SEED_CHOSEN}|looked at 2 times")
def another_project_each_seed(scene: Scene) -> None:
    """Look at the test rows in a second project, with a throw-away column and another seed (T4)."""
    rows, classes = noisy(ROWS, 0)
    rng = np.random.default_rng(5)
    for place, name in enumerate(("other", NAME)):
        write_rows(scene, rows, classes, f"{name}.csv", drawn=rng.integers(0, 9, ROWS))
        config = _with(data__args__path=f"{name}.csv", data__split__seed=kindest_seed(rows, classes, 40 + place))
        to_card(scene, config, name=name)
    hold(scene, lambda count, seed: _with_drawn(*noisy(count, seed)))


@files(expected="detected", rule="The test rows were looked at 2 times")
def another_project_other_order(scene: Scene) -> None:
    """Do so under the usual seed, by a file with a throw-away column in the kindest order of 400 (T4)."""
    rows, classes = noisy(ROWS, 0)
    drawn = np.random.default_rng(5).integers(0, 9, ROWS)
    for name, order in (("other", np.arange(ROWS)), (NAME, kindest_order(rows, classes, 400))):
        more = {} if name == "other" else {"drawn": drawn}
        write_rows(scene, rows[order], classes[order], f"{name}.csv", **more)
        to_card(scene, _with(data__args__path=f"{name}.csv"), name=name)
    hold(scene, lambda count, seed: _with_drawn(*noisy(count, seed)))


def _with_drawn(rows: Array, classes: Array) -> tuple[Array, Array]:
    drawn = np.random.default_rng(6).integers(0, 9, len(rows))
    return np.column_stack([rows, drawn]).astype(np.float32), classes


@files(expected="detected", rule=r"rows without a target, .*are in no split")
def hard_rows_without_label(scene: Scene) -> None:
    """Take the label from the rows that a known rule gets wrong (T5)."""
    rows, classes = noisy(ROWS, 0)
    hard = (rows[:, 0] + rows[:, 1] - rows[:, 2] > 0) != classes
    kept = np.where(hard & (np.random.default_rng(0).random(ROWS) < 0.7), "", classes.astype(str))
    write_rows(scene, rows, kept)
    to_card(scene, _with(data__args__drop_without_target=True))
    hold(scene, noisy)


@files(expected="detected", rule=r"Since smoke-\S+ \d+ rows are gone \(\d+ of \d+ 0, \d+ of \d+ 1\): its figures are")
def hard_rows_deleted(scene: Scene) -> None:
    """Delete the rows that a known rule gets wrong before a second release (T5)."""
    rows, classes = noisy(ROWS, 0)
    write_rows(scene, rows, classes)
    assert to_card(scene, CONFIG)
    hard = (rows[:, 0] + rows[:, 1] - rows[:, 2] > 0) != classes
    kept = ~hard | (np.random.default_rng(0).random(ROWS) < 0.3)
    write_rows(scene, rows[kept], classes[kept])
    with scene.workspace() as workspace, warm():
        projects.configure(workspace, NAME, changes={"training.epochs": 9}, begin_release=True)
        finished(scene, workspace)
    hold(scene, noisy)


def _task(scene: Scene, forged: str, before: str = "") -> None:
    rows, classes = noisy(ROWS, 0)
    write_rows(scene, rows, classes)
    scene.write_code("task.py", (before or TASK).replace("FORGED", forged))
    config = {key: value for key, value in CONFIG.items() if key not in {"model", "data", "loss"}}
    to_card(scene, {**config, "task": {"use": "task.py:build"}})
    hold(scene, noisy)


@code(expected="detected", rule=r"Not independently evaluated: \d+ rows have the target -100")
def hard_rows_not_counted(scene: Scene) -> None:
    """Give the held-out rows that a known rule gets wrong the target -100, which counts nowhere (T6)."""
    _task(
        scene,
        "hard = (rows[:, 0] + rows[:, 1] - rows[:, 2] > 0) != classes.bool()\n"
        "    held_out = torch.isin(torch.arange(len(rows)), torch.cat([parts['validation'], parts['test']]))\n"
        "    classes[hard & held_out] = -100",
    )


def _net(scene: Scene, begin: str = "pass", answer: str = "pass") -> None:
    scene.write_code("net.py", NET.replace("BEGIN", begin).replace("ANSWER", answer))
    to_card(scene, _with(model={"use": "net.py:Net"}))
    hold(scene, noisy)


@code(expected="refused", rule=r"among others: its figures depend on which rows share a batch")
def answers_by_neighbours_in_order(scene: Scene) -> None:
    """Average the answers with those of the rows beside, where the file is sorted by its target (T7)."""
    rows, classes = noisy(ROWS, 0)
    order = np.argsort(classes, kind="stable")
    write_rows(scene, rows[order], classes[order])
    _net(scene, answer="scores = scores if self.training else (scores + scores.roll(1, 0) + scores.roll(-1, 0)) / 3")


@code(expected="detected", rule=r"code itself read rows\.csv, which holds the validation and test rows")
def nearest_row_of_the_file(scene: Scene) -> None:
    """Answer with the class of the nearest row of the data's own file, which the model reads (T8)."""
    write_rows(scene, *noisy(ROWS, 0))
    _net(
        scene,
        "table = np.loadtxt(Path(__file__).parent / 'rows.csv', delimiter=',', skiprows=1, dtype=np.float32)\n"
        "        self.rows, self.classes = torch.tensor(table[:, :8]), torch.tensor(table[:, 8]).long()",
        "apart = ((rows[:, None] - self.rows[None]) ** 2).sum(2)\n"
        "        scores = 0.001 * scores + 9 * torch.nn.functional.one_hot(self.classes[apart.argmin(1)], 2)",
    )


@code(expected="detected", rule=r"numbers that training did not change: whether they are of rows is not known")
def rows_in_buffers(scene: Scene) -> None:
    """Do so by rows that lie in the model's buffers, written into its code (T8)."""
    rows, classes = noisy(ROWS, 0)
    write_rows(scene, rows, classes)
    scene.write_code("known.py", f"ROWS = {rows.round(4).tolist()}\nCLASSES = {classes.tolist()}\n")
    _net(
        scene,
        "import known\n"
        "        self.register_buffer('rows', torch.tensor(known.ROWS))\n"
        "        self.register_buffer('classes', torch.tensor(known.CLASSES))",
        "apart = ((rows[:, None] - self.rows[None]) ** 2).sum(2)\n"
        "        scores = 0.001 * scores + 9 * torch.nn.functional.one_hot(self.classes[apart.argmin(1)], 2)",
    )


def _weights_of_all_rows(scene: Scene, name: str) -> None:
    """Finish a project whose model begins from weights that were fitted to all rows and lie under this name."""
    import torch

    rows, classes = noisy(ROWS, 0)
    write_rows(scene, rows, classes)
    torch.manual_seed(0)
    layers = torch.nn.Sequential(torch.nn.Linear(8, 256), torch.nn.ReLU(), torch.nn.Linear(256, 2))
    optimizer = torch.optim.Adam(layers.parameters(), 0.01)
    for _ in range(600):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(layers(torch.tensor(rows)), torch.tensor(classes)).backward()
        optimizer.step()
    torch.save(layers.state_dict(), scene.world.code / name)
    text = NET.replace("Linear(8, 16)", "Linear(8, 256)").replace("Linear(16, 2)", "Linear(256, 2)")
    begin = f"self.layers.load_state_dict(torch.load(Path(__file__).parent / {name!r}))"
    scene.write_code("net.py", text.replace("BEGIN", begin).replace("ANSWER", "pass"))
    to_card(scene, _with(model={"use": "net.py:Net"}, optimizer__learning_rate=1e-5, training__epochs=2))
    hold(scene, noisy)


@code(expected="detected", rule=r"begins from net\.pt: on which rows these were trained is not known")
def weights_of_all_rows(scene: Scene) -> None:
    """Begin from weights that were fitted to all rows before planning (T9)."""
    _weights_of_all_rows(scene, "net.pt")


@code(expected="detected", rule=r"code opened net\.dat: which held-out rows the model knows by that is not known")
def weights_under_another_name(scene: Scene) -> None:
    """Do so under a name that is none of weights (T9)."""
    _weights_of_all_rows(scene, "net.dat")


@code(expected="detected", rule=r"Goal not confirmed by the test")
def validation_by_heart(scene: Scene) -> None:
    """Know the validation rows by heart, by which the goal is reached (T10)."""
    knowing = TASK.replace(
        "        return self.layers(rows)",
        "        scores = self.layers(rows)\n"
        "        apart = ((rows[:, None] - self.known[None]) ** 2).sum(2)\n"
        "        near = 9 * torch.nn.functional.one_hot(self.classes[apart.argmin(1)], 2)\n"
        "        return torch.where((apart.min(1)[0] < 1e-6)[:, None], scores * 0 + near, scores)",
    )
    _task(scene, "Net.known, Net.classes = rows[parts['validation']], classes[parts['validation']]", knowing)


@code(expected="detected", rule=r"Not shown to be better on the test rows than the same answer for every row 1")
def one_class_to_tell(scene: Scene) -> None:
    """Validate and test on rows of one class alone (T11)."""
    _task(
        scene,
        "ones, rest = order[classes[order] == 1], order[classes[order] == 0]\n"
        "    parts = {'train': torch.cat([ones[120:], rest[:30]]), 'validation': ones[:60], 'test': ones[60:120]}",
    )


@files(expected="detected", rule=r"Planning found leak_clumps, and it was left: Rows come in \d+ clumps")
def people_without_an_id(scene: Scene) -> None:
    """Measure 60 people ten times each, and name nobody (T12)."""
    write_rows(scene, *visits(60, 0))
    to_card(scene, _with(model__args__hidden=[128, 128], training__epochs=60))
    hold(scene, lambda count, seed: visits(count // 10, seed))


@files(expected="detected", rule=NOT_KNOWN)
def columns_chosen_on_all_rows(scene: Scene) -> None:
    """Keep those 12 of 3,000 columns of noise that go with the target in all rows (T13)."""
    rng = np.random.default_rng(0)
    rows, classes = rng.normal(size=(ROWS, 3000)), rng.integers(0, 2, ROWS)
    told = np.abs((rows - rows.mean(0)).T @ (classes - classes.mean()))
    write_rows(scene, rows[:, np.argsort(told)[-12:]].astype(np.float32), classes)
    to_card(scene, CONFIG)
    hold(scene, lambda count, seed: noise(count, seed, 12))


@files(
    expected="detected",
    rule=r"Planning found c\d\.leak_pair, and it was left: Columns 'c\d' and 'c\d' together tell the target",
)
def parity_of_two_columns(scene: Scene) -> None:
    """Write the target into two columns, as the parity of their sum (T13)."""
    rows, classes = noisy(ROWS, 0)
    rng = np.random.default_rng(1)
    rows[:, 3] = rng.integers(0, 2, ROWS)
    rows[:, 6] = (rows[:, 3] + classes) % 2
    write_rows(scene, rows, classes)
    to_card(scene, _with(model__args__hidden=[64], training__epochs=40))
    hold(scene, without_parity)


class ThreeDaysBack(datetime):
    """The clock of a server that somebody set back."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> datetime:
        return datetime.now(tz) - timedelta(days=3)


@files(expected="refused", rule=r"is dated .*, before entry")
def clock_back(scene: Scene) -> None:
    """Set the server's clock back by three days for a later entry (T14)."""
    write_rows(scene, *noisy(ROWS, 0))
    to_card(scene, CONFIG)
    with patch.object(chain, "datetime", ThreeDaysBack), scene.workspace() as workspace:
        projects.configure(workspace, NAME, changes={"training.epochs": 9}, begin_release=True)
    for finding in verify_workspace(scene.world.workspace).findings:
        scene.claim(finding.what, is_refused=True)


@tools(expected="refused", rule=r"every model meets it|is the workspace, which holds what was measured")
def goal_that_all_meet(scene: Scene) -> None:
    """Take for a goal what every answer meets, and the workspace for the code (T15)."""
    write_rows(scene, *noisy(ROWS, 0))
    arguments = {"name": NAME, "intent": "tell y", "config": CONFIG}
    scene.attempt("create_project", **arguments, goal=GOAL | {"target": 0})
    own = str(scene.world.workspace)
    scene.attempt("create_project", **arguments | {"config": CONFIG | {"code_root": own}}, goal=GOAL)
