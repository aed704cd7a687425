"""Two versions of a model on the same rows: those that neither trained on, by the clean room, from their programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from pydantic import BaseModel, Field

from trainwright.tools.answers import Answer, NextCall
from trainwright.tools.evaluation import Sealed, run_clean_room
from trainwright.tools.evaluation.evaluate import order_of, ordered
from trainwright.tools.evaluation.process import libraries_of
from trainwright.tools.evaluation.slices import slice_columns, slice_order
from trainwright.tools.evaluation.told_apart import shown_by
from trainwright.tools.ledger import ProjectFacts
from trainwright.tools.registry.encodings import recoding
from trainwright.tools.registry.versions import Registered, registered
from trainwright.tools.training_monitor.outdone import ALIKE, BETTER, WORSE, Word
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.records import get_project
from trainwright.trainer.base.errors import ConfigurationError, ConflictError, TrainwrightError
from trainwright.trainer.config import TrainingConfig
from trainwright.trainer.run.artifacts import Program
from trainwright.trainer.run.evidence import Data
from trainwright.trainer.run.split_rows import SplitRows, Unseen, rows_unseen

SPLITS = ("test", "validation")
"""The first of them decides: the later version was chosen on validation rows."""
KEPT = "(kept)"
"""Name of the slice of the rows that tested the earlier version."""
MIN_ROWS = 30
"""Of a part of the rows, for it to show anything."""
ROWS_KEPT = 0.95
"""Share of the earlier version's test rows that the later one keeps; a few may have been deleted."""
WORDS: dict[Word, str] = {word: word for word in (BETTER, WORSE, ALIKE)}


class Difference(BaseModel):
    """What the second version's figure is more or less than the first's, on the same rows."""

    rows: int
    difference: float | None = None
    """Second minus first, of the goal's metric."""
    interval: list[float] | None = None
    """95 %, paired, of the difference."""
    verdict: str = ""
    """Of the second: better, worse, or not told apart, with the rows that differ where they are too few for more."""

    def __str__(self) -> str:
        """In words: `-0.02 (-0.05 to +0.01), not told apart`."""
        return f"{self.between()}, {self.verdict}" if self.difference is not None else self.verdict

    def between(self) -> str:
        """Return the difference with its interval: `-0.02 (-0.05 to +0.01)`."""
        ends = f" ({self.interval[0]:+.4g} to {self.interval[1]:+.4g})" if self.interval else ""
        return f"{self.difference:+.4g}{ends}"


class OnRows(Difference):
    """Both versions on one split's rows."""

    left_out: dict[str, int] = {}
    """Held-out rows of the later version that are not compared on, by why: the earlier one was trained on them."""
    first: dict[str, float]
    second: dict[str, float]
    """Metrics by name."""
    by_class: dict[str, str] = {}
    """Of few classes: rows of it that the first and the second find."""
    differ: int | None = None
    """Rows that one of them gets right and the other wrong."""
    slices: dict[str, Difference] = {}
    """Of the slices that either version's evaluation gate names; their intervals hold for all of them together."""


class KeptRows(BaseModel):
    """What became of the different rows that tested the earlier version."""

    rows: int
    kept: int
    """The same, with the same target and the same cells in its columns: test rows still or, of data that are split by
    time in one way both times, rows at all."""
    instead: dict[str, int] = {}
    """The others, by what became of them."""
    are_drawn: bool = False
    """Whether these are the recorded ones of large data."""

    @property
    def are_enough(self) -> bool:
        """Whether so many are kept that nobody could have picked rows, targets or values for the later version."""
        return self.kept >= ROWS_KEPT * self.rows

    def __str__(self) -> str:
        """In words: `58 of 60 are as they were, 2 have another target: test rows`."""
        others = "".join(f", {count} {what}" for what, count in self.instead.items())
        return f"{self.kept} of {self.rows} are as they were{others}: {'recorded ' * self.are_drawn}test rows"


class Comparison(Answer):
    """Two versions on the same rows."""

    project: str
    first: str
    second: str
    metric: str
    """The goal's."""
    rows_of: str = ""
    """The version whose held-out rows these are: the later one."""
    splits: dict[str, OnRows] = Field(default_factory=dict)
    tested: KeptRows | None = None
    """What became of the rows that tested the earlier version."""
    on_tested: Difference | None = None
    """Both on those of them that test the later one too, each once: added rows outvote none. Of 30 at least."""
    slices_gone: list[str] = Field(default_factory=list)
    """Slices that a version's evaluation gate names, and the later rows have not."""
    not_compared: str | None = None
    """Why not, where they cannot be."""

    @property
    def earlier(self) -> str:
        """The version that was released first."""
        return self.first if self.rows_of == self.second else self.second

    def deciding(self) -> str:
        """Name the split that decides, of those that have rows."""
        return next(name for name in SPLITS if name in self.splits)

    def in_words(self) -> str:
        """Say in one sentence what the split that decides shows of the second version, and by which figures."""
        if self.not_compared is not None:
            return f"{self.second} could not be compared with {self.first}: {self.not_compared.rstrip('.')}."
        split = self.deciding()
        one = self.splits[split]
        if one.difference is None:
            return f"{self.second} beside {self.first} on {one.rows} {split} rows: {one.verdict}."
        shown = f"shown {one.verdict}" if one.verdict in {BETTER, WORSE} else "not shown better"
        few = one.verdict.removeprefix(ALIKE).strip(" ()") if one.verdict.startswith(ALIKE) else ""
        figures = " against ".join(_figure(self.metric, each, one.rows) for each in (one.second, one.first))
        return (
            f"{self.second} is {shown} than {self.first}: {self.metric} {figures} "
            f"on {one.rows} {split} rows that neither trained on, difference {one.between()}{few and f'; {few}'}."
            f"{self._on_tested(one.verdict)}"
        )

    def _on_tested(self, verdict: str) -> str:
        """Return what the rows that tested the earlier version say where it is another thing; '' where they agree."""
        own, told = self.on_tested, ""
        if self.tested is not None and not self.tested.are_enough:
            told = f" But {self.tested} of {self.earlier}."
        if own is None or own.verdict == verdict or own.verdict not in {BETTER, WORSE}:
            return told
        return f" On the {own.rows} rows that tested {self.earlier} it is {own.verdict}: {own.between()}.{told}"


class Side(NamedTuple):
    """One version's export, and the smoke run that fixed its rows."""

    name: str
    export: Sealed
    rows: Sealed | None

    @property
    def data(self) -> Data:
        """What its export saw of the data."""
        found: Data = self.export.part(Data)
        return found


class Asked(NamedTuple):
    """What is asked of two versions."""

    metric: str
    direction: str
    names: tuple[str, str]
    """Of the later one and the earlier one."""
    second_is_later: bool

    def of(self, paired: dict[str, Any], difference: float | None, together: int = 1) -> dict[str, Any]:
        """Return what Difference says of the second one.

        Args:
            paired: of the later one minus the earlier one, as is the difference.
            difference: of the metric.
            together: how many intervals hold at once.
        """
        sign = 1 if self.second_is_later else -1
        is_minimized = (self.direction == "minimize") is self.second_is_later
        shown = shown_by(paired, self.metric, self.names, is_minimized=is_minimized, together=together)
        return {
            "difference": None if difference is None else sign * difference,
            "interval": sorted(sign * end for end in shown.interval) if shown.interval else None,
            "verdict": shown.told(WORDS) if shown.interval else "no interval can be computed",
        }


def compare_models(workspace: Workspace, project: str, first: str, second: str) -> Comparison:
    """Compare two versions of a project's model on the rows that neither trained on.

    Args:
        first, second: names of versions, as `v1`, `production`, `latest`.

    Raises:
        NotFoundError: no such project or version.
    """
    with workspace.snapshot() as session:
        found = registered(session, workspace, project)
        numbers = (found.version(first), found.version(second))
        facts = ProjectFacts(session, project)
        goal = dict(get_project(session, project).goal)
    later = 0 if numbers[0] > numbers[1] else 1
    names = [f"v{number}" for number in numbers]
    head: dict[str, Any] = {"project": project, "first": names[0], "second": names[1], "metric": found.metric}
    try:
        if numbers[0] == numbers[1]:
            raise _not_compared(f"both are {names[0]}")
        sides = [_side(workspace, facts, found, number) for number in numbers]
        asked = Asked(found.metric, str(goal["direction"]), (names[later], names[1 - later]), later == 1)
        found_on = _compared(sides[later], sides[1 - later], asked)
    except TrainwrightError as error:
        call = NextCall(tool="models", arguments={"project": project}, why="all versions and their aliases")
        return Comparison(**head, not_compared=error.message, next=call)
    answer = Comparison(**head, rows_of=names[later], **found_on)
    return answer.model_copy(update={"next": followed_by(answer)})


def _figure(metric: str, found: dict[str, float], rows: int) -> str:
    """Return a figure in words, with how many rows are right where it is their share."""
    right = f" ({found[metric] * rows:.0f} right)" if metric == "accuracy" else ""
    return f"{found[metric]:.4g}{right}"


def followed_by(answer: Comparison) -> NextCall:
    """Return the call that follows: the split that decides is the test split where there is one."""
    project, decides, names = answer.project, answer.deciding(), [answer.first, answer.second]
    own = answer.on_tested.verdict if answer.on_tested is not None else BETTER
    if answer.tested is not None and not answer.tested.are_enough:
        why = f"rows that tested {answer.earlier} are not as they were: the figures do not compare the models alone"
        return NextCall(tool="models", arguments={"project": project}, why=why)
    if answer.splits[decides].verdict != BETTER or own == WORSE:
        why = f"{decides} does not show {names[1]} to be better, so that {names[0]} may stay"
        return NextCall(tool="models", arguments={"project": project}, why=why)
    why = f"{decides} shows it to be better on the same rows"
    return NextCall(tool="promote_model", arguments={"project": project, "version": names[1]}, why=why)


def _not_compared(why: str) -> ConflictError:
    return ConflictError(why, remedy="")


def _side(workspace: Workspace, facts: ProjectFacts, found: Registered, number: int) -> Side:
    run_id = found.model(number).run_id
    export, rows = (
        Sealed(workspace.run_directory(found.project, one), facts.seals[one].digests) if one in facts.seals else None
        for one in (run_id, facts.rows_run(run_id))
    )
    assert export is not None  # noqa: S101 - only a sealed export is registered
    return Side(f"v{number}", export, rows)


def _compared(later: Side, earlier: Side, asked: Asked) -> dict[str, Any]:
    """Return what Comparison says of the splits of which rows are left, and of the rows besides.

    Raises TrainwrightError: why they cannot be compared.
    """
    order, unseen = _order(later, earlier, asked.metric)
    slices, gone = _slices(later, earlier)
    kept = {"name": KEPT, "split": "test", "places": unseen.kept}
    answer = _evaluated(order | {"slices": [], "groups": [], "paired_slices": [*slices, kept]})
    configs = [side.export.directory.specification().config for side in (later, earlier)]
    names = dict(enumerate(later.data.class_names or []))
    why = f"{earlier.name} was trained on them"
    left = {name: {why: count} if count else {} for name, count in unseen.seen.items()}
    found = {name: answer["splits"][name] for name in SPLITS if name in answer["splits"]}
    own = found["test"]["beside"].get("paired", {}).get("slices", {}).pop(KEPT, None) if "test" in found else None
    return {
        "splits": {name: _on_rows(one, left[name], asked, names) for name, one in found.items()},
        "tested": kept_rows(unseen, are_for_training_later=are_split_by_time_alike(configs)),
        "on_tested": _difference(own, asked) if own is not None and own["rows"] >= MIN_ROWS else None,
        "slices_gone": gone,
    }


def kept_rows(unseen: Unseen, *, are_for_training_later: bool) -> KeptRows:
    """Return what became of rows, of which some were meant to become rows to train on as data grow."""
    rows = unseen.tested
    held = f" in {', '.join(rows.columns[:3])}{' …' * (len(rows.columns) > 3)}" if rows.columns else ""
    others = {
        "are for training or validation now": 0 if are_for_training_later else rows.moved,
        "have another target": rows.relabelled,
        f"hold other values{held}": rows.changed,
        "are gone": rows.gone,
        "cannot be told from rows that it was trained on": rows.unknown,
    }
    kept = rows.same + (rows.moved if are_for_training_later else 0)
    instead = {what: count for what, count in others.items() if count}
    return KeptRows(rows=rows.all, kept=kept, instead=instead, are_drawn=unseen.are_drawn)


def _evaluated(order: dict[str, Any]) -> dict[str, Any]:
    answer = run_clean_room(order)
    if answer.get("problem"):
        raise _not_compared(str(answer["problem"]))
    return answer


def are_split_by_time_alike(configs: Sequence[TrainingConfig]) -> bool:
    """Whether rows were tested on because they came last: as data grow, test rows become rows to train on."""
    splits = [config.data.split for config in configs if config.data is not None]
    return (
        len(splits) == len(configs) and splits[0] == splits[1] and splits[0].by == "time" and splits[0].borders is None
    )


def _order(later: Side, earlier: Side, metric: str) -> tuple[dict[str, Any], Unseen]:
    """Return the clean room's order, the later version's program first, and which rows it takes."""
    programs = [side.export.part(Program) for side in (later, earlier)]
    if later.rows is None or not all(program.path for program in programs):
        raise _not_compared("a version has no program of its own, or its rows were not fixed")
    recode, unseen = recoding(later.data, earlier.data), _unseen(later, earlier)
    order = order_of(later.export.directory.specification(), later.export, later.rows, programs[0])
    if earlier.rows is not None:
        of_earlier = order_of(earlier.export.directory.specification(), earlier.export, earlier.rows, programs[1])
        require_same_question(order, of_earlier, metric, earlier.name)
    splits = [name for name in order["splits"] if unseen.indices.get(name) != []]
    if not splits:
        raise _not_compared(f"{earlier.name} was trained on all rows that {later.name} holds out")
    libraries = [*order["libraries"], *libraries_of(str(programs[1].form))]
    beside = ordered(earlier.export, programs[1]) | ({"recode": recode} if recode else {})
    more = {"splits": splits, "only": unseen.indices, "libraries": list(dict.fromkeys(libraries)), "beside": beside}
    return order | more, unseen


def require_same_question(order: dict[str, Any], other: dict[str, Any], metric: str, name: str) -> None:
    """Refuse what two versions answer by measures of their own, by their clean rooms' orders: a loss, or an attack."""
    part = "loss" if metric == "loss" else "attack" if metric.startswith("robust_") else None
    if part is not None and order[part] != other[part]:
        raise _not_compared(f"{metric} is of another {part} in {name}: {other[part]}, and here {order[part]}")


def _slices(later: Side, earlier: Side) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the slices that either version's gate names, as the later rows have them, and those they have not."""
    gates = [side.export.directory.specification().config.evaluation_gate for side in (later, earlier)]
    named = dict.fromkeys(name for gate in gates if gate is not None for name in gate.slices)
    columns, found, gone = slice_columns(later.export.directory.specification().config, later.data), [], []
    for name in named:
        try:
            found.append(slice_order(name, columns))
        except ConfigurationError:
            gone.append(name)
    return found, gone


def _unseen(later: Side, earlier: Side) -> Unseen:
    """Return the held-out rows of the later version that the earlier one was not trained on."""
    found = None
    if earlier.rows is not None and later.rows is not None:
        parts = [(side.rows.part(SplitRows), side.rows.directory.artifacts) for side in (earlier, later) if side.rows]
        found = rows_unseen(*parts[0], *parts[1])
    if found is None:
        raise _not_compared("which of the later version's rows the earlier one was trained on is not recorded")
    return found


def _on_rows(found: dict[str, Any], left: dict[str, int], asked: Asked, names: dict[int, str]) -> OnRows:
    """Return one split's figures and difference, by the clean room's answer: the later one, the earlier beside it."""
    metric, beside = asked.metric, found["beside"]
    if beside.get("problem"):
        raise _not_compared(f"The earlier program cannot take these rows: {beside['problem']}")
    both = [beside, found] if asked.second_is_later else [found, beside]
    first, second = (one["metrics"] for one in both)
    head = {"rows": found["rows"], "left_out": left, "first": first, "second": second}
    head["by_class"] = _by_class(both, names)
    if metric not in first or metric not in second:
        return OnRows(**head, verdict=f"{metric} is not computed apart: not compared")
    paired = beside.get("paired", {})
    parts, table = paired.get("slices", {}), paired.get("classes")
    slices = {name: _difference(one, asked, len(parts)) for name, one in parts.items()}
    differ = table["only_first"] + table["only_second"] if table else None
    told = asked.of(paired, found["metrics"][metric] - beside["metrics"][metric])
    return OnRows(**head, **told, differ=differ, slices=slices)


def _difference(paired: dict[str, Any], asked: Asked, together: int = 1) -> Difference:
    return Difference(rows=paired["rows"], **asked.of(paired, paired["differences"].get(asked.metric), together))


def _by_class(both: list[dict[str, Any]], names: dict[int, str]) -> dict[str, str]:
    """Return how many rows of each class either finds, in words; empty where the clean room counts none."""
    lines = [{int(line["class"]): line for line in one.get("classes", [])} for one in both]
    return {
        names.get(number, str(number)): f"{line['found']:.0f} and {lines[1][number]['found']:.0f} of {line['rows']:.0f}"
        for number, line in lines[0].items()
        if number in lines[1] and line["rows"]
    }
