"""Two versions of a model on the same rows: those that neither trained on, by the clean room, from their programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import BaseModel, Field

from trainwright.tools.answers import Answer, NextCall
from trainwright.tools.evaluation import Sealed, run_clean_room
from trainwright.tools.evaluation.evaluate import order_of, ordered
from trainwright.tools.evaluation.process import libraries_of
from trainwright.tools.evaluation.statistics import statistics_of
from trainwright.tools.ledger import ProjectFacts
from trainwright.tools.registry.versions import registered
from trainwright.tools.workspace.records import get_project
from trainwright.trainer.base.errors import TrainwrightError
from trainwright.trainer.run.artifacts import Program
from trainwright.trainer.run.evidence import Data
from trainwright.trainer.run.split_rows import SplitRows, rows_unseen

if TYPE_CHECKING:
    from trainwright.tools.workspace import Workspace

SPLITS = ("test", "validation")


class OnRows(BaseModel):
    """Both versions on one split's rows."""

    rows: int
    left_out: int = 0
    """Held-out rows of the later version that the earlier one was trained on."""
    first: dict[str, float]
    second: dict[str, float]
    """Metrics by name."""
    differ: int | None = None
    """Rows that one of them gets right and the other wrong."""
    difference: float | None = None
    """Second minus first, of the goal's metric."""
    interval: list[float] | None = None
    """95 %, paired, of the difference."""
    verdict: str = ""
    """Of the second: better, worse, or not told apart."""


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
    not_compared: str | None = None
    """Why not, where they cannot be."""


class Side(NamedTuple):
    """One version's export, and the smoke run that fixed its rows."""

    export: Sealed
    rows: Sealed | None

    @property
    def data(self) -> Data:
        """What its export saw of the data."""
        found: Data = self.export.part(Data)
        return found


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
    sides = [_side(workspace, facts, project, found.model(number).run_id) for number in numbers]
    later = 0 if numbers[0] > numbers[1] else 1
    names = [f"v{number}" for number in numbers]
    head: dict[str, Any] = {"project": project, "first": names[0], "second": names[1], "metric": found.metric}
    head["next"] = NextCall(tool="models", arguments={"project": project}, why="all versions and their aliases")
    try:
        if numbers[0] == numbers[1]:
            return Comparison(**head, not_compared=f"both are v{numbers[0]}")
        answer, left_out = _evaluated(sides[later], sides[1 - later])
    except TrainwrightError as error:
        return Comparison(**head, not_compared=error.message)
    if isinstance(answer, str):
        return Comparison(**head, not_compared=answer)
    splits = {
        name: _on_rows(answer[name], left_out.get(name, 0), goal, second_is_later=later == 1)
        for name in SPLITS
        if name in answer
    }
    if any(one.verdict == "better" for one in splits.values()) and not any(
        one.verdict == "worse" for one in splits.values()
    ):
        arguments = {"project": project, "version": names[1]}
        head["next"] = NextCall(tool="promote_model", arguments=arguments, why="it is better on the same rows")
    return Comparison(**head, rows_of=names[later], splits=splits)


def _side(workspace: Workspace, facts: ProjectFacts, project: str, run_id: str) -> Side:
    export, rows = (
        Sealed(workspace.run_directory(project, one), facts.seals[one].digests) if one in facts.seals else None
        for one in (run_id, facts.rows_run(run_id))
    )
    assert export is not None  # noqa: S101 - only a sealed export is registered
    return Side(export, rows)


def _evaluated(later: Side, earlier: Side) -> tuple[dict[str, Any] | str, dict[str, int]]:
    """Return the clean room's answer by split, the later version's program first, and rows left out; or why not."""
    programs = [side.export.part(Program) for side in (later, earlier)]
    if later.rows is None or not all(program.path for program in programs):
        return "a version has no program of its own, or its rows were not fixed", {}
    recode = _recoding(later.data, earlier.data)
    if isinstance(recode, str):
        return recode, {}
    order = order_of(later.export.directory.specification(), later.export, later.rows, programs[0])
    only = _unseen(later, earlier)
    if only is None:
        return "which of the later version's rows the earlier one was trained on is not recorded", {}
    libraries = [*order["libraries"], *libraries_of(str(programs[1].form))]
    beside = ordered(earlier.export, programs[1]) | ({"recode": recode} if recode else {})
    order |= {"libraries": list(dict.fromkeys(libraries)), "beside": beside, "slices": [], "groups": [], "only": only}
    order["splits"] = [name for name in order["splits"] if only.get(name) != []]
    answer = run_clean_room(order)
    if answer.get("problem"):
        return str(answer["problem"]), {}
    sizes = {name: split.size for name, split in later.data.splits.items()}
    return answer["splits"], {name: sizes.get(name, len(kept)) - len(kept) for name, kept in only.items()}


def _unseen(later: Side, earlier: Side) -> dict[str, list[int]] | None:
    """Return the held-out rows of the later version that the earlier one was not trained on; {}: none was."""
    if earlier.rows is None or later.rows is None:
        return None
    if later.rows.directory.path == earlier.rows.directory.path:
        return {}
    parts = [(side.rows.part(SplitRows), side.rows.directory.artifacts) for side in (earlier, later) if side.rows]
    return rows_unseen(*parts[0], *parts[1])


def _recoding(later: Data, earlier: Data) -> dict[str, Any] | str:
    """Return how the earlier program reads rows that were encoded for the later one; {}: as they are; or why not."""
    if (later.class_names, later.target_names) != (earlier.class_names, earlier.target_names):
        return "their classes or targets differ"
    if later.preprocessing_digest == earlier.preprocessing_digest and later.places == earlier.places:
        return {}
    if not later.places or not earlier.places:
        same = (later.text, later.input) == (earlier.text, earlier.input)
        return {} if same else "their inputs are prepared otherwise"
    if missing := [name for name in earlier.places if name not in later.places]:
        return f"the later version has no column {missing[0]!r}, which the earlier one reads"
    kinds = [{column["name"]: column["kind"] for column in one.columns or []} for one in (later, earlier)]
    changed = [name for name in earlier.places if kinds[0].get(name) != kinds[1].get(name)]
    width = list(earlier.input.get("shape", [len(earlier.places)]))
    if changed or width != [len(earlier.places)]:
        return f"column {changed[0]!r} is read as another kind" if changed else "a column takes several inputs"
    names = sorted(earlier.places, key=earlier.places.__getitem__)
    codes = {
        str(place): [_code(value, earlier.categories[name]) for value in later.categories.get(name, [])]
        for place, name in enumerate(names)
        if name in earlier.categories
    }
    return {"take": [later.places[name] for name in names], "codes": codes}


def _code(value: str, known: list[str]) -> int:
    return known.index(value) if value in known else -1


def _on_rows(found: dict[str, Any], left_out: int, goal: dict[str, Any], *, second_is_later: bool) -> OnRows:
    """Return one split's figures and difference, by the clean room's answer: the later one, the earlier beside it."""
    metric, beside = str(goal["metric"]), found["beside"]
    if beside.get("problem"):
        raise TrainwrightError(f"The earlier program cannot take these rows: {beside['problem']}", remedy="")
    figures = [found["metrics"], beside["metrics"]]
    first, second = figures[::-1] if second_is_later else figures
    told = OnRows(rows=found["rows"], left_out=left_out, first=first, second=second)
    if metric not in first or metric not in second:
        told.verdict = f"{metric} is not computed apart: not compared"
        return told
    told.difference = second[metric] - first[metric]
    statistics = statistics_of(beside["paired"]) if "paired" in beside else {}
    ends = statistics["loss"]["interval"] if metric == "loss" and "loss" in statistics else None
    ends = ends or statistics.get("intervals", {}).get(metric)
    if table := statistics.get("classes"):
        told.differ = table["only_first"] + table["only_second"]
        if metric == "accuracy" and told.differ == 0:
            ends = [-3 / told.rows, 3 / told.rows]  # none of n seen: the rule of three (Hanley & Lippman-Hand 1983)
    if ends is not None:
        told.interval = list(ends) if second_is_later else [-ends[1], -ends[0]]
    told.verdict = _verdict(told.interval, maximize=goal["direction"] == "maximize")
    return told


def _verdict(interval: list[float] | None, *, maximize: bool) -> str:
    if interval is None or interval[0] <= 0 <= interval[1]:
        return "not told apart" if interval is not None else "no interval: too few rows"
    return "better" if (interval[0] > 0) is maximize else "worse"
