"""The verdict on what was done with a task: released or not, whether its figures are right, what it cost."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from counting import Counts, counts, databases, entries
from figures import FIGURES, is_same
from final_model import VALIDATION, ReleasedModel
from task import Task
from tracing import in_train_too, traced

NOT_PLAYED, NOT_RELEASED, RELEASED = "not played", "not released", "released"
ALIASES = {"acc": "accuracy"}


@dataclass
class Verdict:
    """What was found of one task."""

    task: str
    state: str = NOT_PLAYED
    figure: float | None = None
    """The goal's metric on the held-back rows, computed here."""
    is_met: bool = False
    problems: list[str] = field(default_factory=list)
    """What differs from what the release says, each named."""
    rows: str = ""
    """How many of the held-back rows are the user's."""
    counts: Counts = field(default_factory=Counts)

    @property
    def is_right(self) -> bool:
        """Whether it was released with figures that come out again, on rows of the user's."""
        return self.state == RELEASED and not self.problems and self.figure is not None


def verify(task: Task, folder: Path, entries_before: int = 0) -> Verdict:
    """Return the verdict on a task's folder, which holds `work`.

    Args:
        task: that was played.
        folder: of the task; everything is looked for below it.
        entries_before: of the ledger, when it was laid out: a project that was begun by then is not played.
    """
    found = Verdict(task.name)
    written = sum(len(entries(path)) for path in databases(folder))
    if written <= entries_before:
        return found
    found.counts = counts(folder, entries_before)
    models = sorted(folder.rglob("projects/*/final_model/metrics.json"), key=lambda path: path.stat().st_mtime)
    found.state = RELEASED if models else NOT_RELEASED
    if models:
        try:
            _compare(found, task, folder / "work", ReleasedModel(models[-1].parent))
        except ValueError as error:
            found.problems.append(str(error))
        except (OSError, KeyError, IndexError) as error:
            found.problems.append(f"{type(error).__name__}: {error}")
    return found


def _compare(found: Verdict, task: Task, work: Path, model: ReleasedModel) -> None:
    """Compute every figure anew, compare it wherever it is written, and find the rows among the user's."""
    rows, goal = model.held_back(), task.goal
    outputs, claims = model.outputs(rows.inputs), model.claims()
    function = task.figure or FIGURES[ALIASES.get(goal.metric, goal.metric)]
    found.figure = function(outputs, rows.targets)
    found.is_met = goal.is_met(found.figure)
    computed = {goal.metric: found.figure}
    for place, figures in claims.items():
        for name, claimed in figures.items():
            if name not in computed and (of_name := FIGURES.get(ALIASES.get(name, name))):
                computed[name] = of_name(outputs, rows.targets)
            if name in computed and not is_same(computed[name], claimed):
                found.problems.append(f"{place} says {name} {claimed:.6g}, and the program gives {computed[name]:.6g}")
    if not any(is_same(found.figure, claimed) for figures in claims.values() for claimed in figures.values()):
        found.problems.append(f"the program gives {goal.metric} {found.figure:.6g}, and no file says so")
    _trace(found, task, work, model)


def _trace(found: Verdict, task: Task, work: Path, model: ReleasedModel) -> None:
    """Find the held-back rows among the user's, and what else the sentence wants of them."""
    table, truth = work / task.table if task.table else None, task.truth(work)
    rows = model.held_back()
    test = traced(rows, truth, table, model.folder)
    found.rows = f"{test.count} of {len(rows.targets)} by {test.how}"
    if test.count < len(rows.targets):
        found.problems.append(f"{len(rows.targets) - test.count} held-back rows are not the user's, by {test.how}")
    if task.groups is not None:
        validation = traced(model.held_back(VALIDATION), truth, table, model.folder)
        if shared := in_train_too(task.groups(work), test, validation):
            found.problems.append(f"{len(shared)} groups of test rows have rows in train: {', '.join(shared[:3])}")
