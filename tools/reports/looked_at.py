"""Section of reports on what was looked at: plain predictors, near rows, opened files, projects on the same rows."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from sqlalchemy import select

from trainwright.tools.gates.decide import final_values
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.leak_prices import found_leaks
from trainwright.tools.gates.leakage import beyond_chance
from trainwright.tools.gates.phases import Phase
from trainwright.tools.gates.run_evidence import RunEvidence
from trainwright.tools.ledger import entries
from trainwright.tools.workspace.tables import Project
from trainwright.trainer.base.errors import TrainwrightError
from trainwright.trainer.config import flatten, parse_config
from trainwright.trainer.data.leaks.finding import probability
from trainwright.trainer.run import RunDirectory
from trainwright.trainer.run.artifacts import FixedRows
from trainwright.trainer.run.evidence import AlikeSamples, Data
from trainwright.trainer.run.looked_at import TRANSFORMATIONS, LookedAt, NearRows, Opened, OpenedFile, SplitLook
from trainwright.trainer.run.split_rows import SplitRows, rows_moved

MAX_FILES, MAX_ALIKE = 50, 10
MOSTLY = 0.9
"""Share of rows that must differ for rows to be known from one project to another."""
SPLITS = ("train", "validation", "test")
COPIES = frozenset({"duplicate", "near_duplicate"})
"""Kinds of leaks that are train rows like held-out ones, whatever their targets."""
UNLIKE = frozenset({"mae", "mse"})
"""Errors in a target's unit, whose mean over several targets says nothing."""


class SplitLine(NamedTuple):
    """One split's line of the table; scores in words."""

    name: str
    size: str
    """Rows, and of a large split how many of them were compared."""
    classes: str
    constant: str
    nearest_neighbour: str


class OpenedLine(NamedTuple):
    """One line of the table of opened files."""

    files: int
    bytes: int
    digest: str | None
    """Of one file; how many there are of several; None: it changed during the run."""


def looked_at_values(evidence: Evidence, run: RunEvidence | None, *, with_test: bool = False) -> dict[str, Any]:
    """Return the values of `looked_at.md.j2`.

    Args:
        evidence: of the project; the look is its planning's smoke run's.
        run: whose opened files are named.
        with_test: also what is known of the test split beside its size; before the release it is not shown.
    """
    smoke = evidence.smoke
    look = smoke.part(LookedAt) if smoke is not None else LookedAt()
    alike = smoke.data.alike_samples if smoke is not None else []
    pooled = UNLIKE if smoke is not None and smoke.data.target_names else frozenset[str]()
    opened = run.part(Opened) if run is not None else Opened()
    lines = opened_lines(opened.files)
    return {
        "look": look,
        "split_lines": [_line(name, look.splits[name], with_test, pooled) for name in SPLITS if name in look.splits],
        "transformations": [TRANSFORMATIONS.get(name, name) for name in look.transformations],
        "copies": [one.text for one in found_leaks(evidence) if one.kind in COPIES],
        "near_rows": [_near_text(one) for one in near_rows(evidence, look)],
        "by_chance": [_alike_text(one) for one in alike if one.alike and "train" in one.splits],
        "opened_by": run.id if run is not None and opened else None,
        "opened": dict(list(lines.items())[:MAX_FILES]),
        "opened_more": sum(one.files for one in list(lines.values())[MAX_FILES:]) + opened.more,
        "others": projects_on_same_rows(evidence),
    }


def opened_lines(files: Mapping[str, OpenedFile]) -> dict[str, OpenedLine]:
    """Return a line for each file, and one for many of a kind in a folder: a user's pictures are one thing."""
    alike: dict[str, list[str]] = {}
    for name in files:
        path = PurePosixPath(name)
        alike.setdefault(f"{path.parent}/*{path.suffix}", []).append(name)
    lines: dict[str, OpenedLine] = {}
    for kind, names in alike.items():
        if len(names) > MAX_ALIKE:
            lines[kind] = OpenedLine(len(names), sum(files[name].bytes for name in names), f"{len(names)} files")
        else:
            lines |= {name: OpenedLine(1, files[name].bytes, files[name].digest) for name in names}
    return lines


def near_rows(evidence: Evidence, look: LookedAt) -> list[NearRows]:
    """Return the near rows that chance does not explain, by the gate's rule: of each transformation the clearest."""
    line = next((one for one in evidence.lines(Phase.PLANNING) if one.id == "planning.data_fingerprinted"), None)
    limits = ((line.threshold if line else None) or math.inf, (line.most if line else None) or math.inf)
    clearest: dict[tuple[Any, str], NearRows] = {}
    for one in look.near_rows:
        key = (one.splits, one.transformation)
        if beyond_chance([one], *limits) and (key not in clearest or _chance(one) < _chance(clearest[key])):
            clearest[key] = one
    return list(clearest.values())


def projects_on_same_rows(evidence: Evidence) -> list[tuple[str, list[str]]]:
    """Return the workspace's other projects that were planned on rows or files of this one, and which they share."""
    if evidence.smoke is None:
        return []
    own = _marks(evidence.smoke.directory)
    names = evidence.session.scalars(select(Project.name).where(Project.name != evidence.name).order_by(Project.name))
    found = []
    for name in names:
        planned = [body for _, body in entries(evidence.session, name, "gate") if _is_planning(body)]
        smoke = planned[-1]["rested_on"].get("smoke_run") if planned else None
        if smoke is None:
            continue
        directory = evidence.workspace.run_directory(name, smoke)
        theirs = _marks(directory)
        shared = [what for what, marks in own.items() if marks & theirs.get(what, set())]
        shared = [text] if (text := _rows_shared(evidence.smoke.directory, directory)) and not shared else shared
        found += [(name, shared)] if shared else []
    return found


def configurations_beside(evidence: Evidence) -> list[tuple[str, Any, Any]]:
    """Return (key, value of the baseline, of the configuration to finalize): keys that were set or that differ."""
    if evidence.baseline is None:
        return []
    final = final_values(evidence)
    before = flatten(evidence.baseline.directory.specification().config.model_dump(mode="json", exclude={"search"}))
    after = flatten(parse_config(final).model_dump(mode="json", exclude={"search"}))
    keys = [key for key in sorted(before.keys() | after.keys()) if before.get(key) != after.get(key)]
    given = [key for key in flatten(evidence.version.values) if key not in keys and key in before]
    return [(key, before.get(key), after.get(key)) for key in [*keys, *given] if not key.startswith("search.")]


def _line(name: str, look: SplitLook, with_test: bool, pooled: Collection[str]) -> SplitLine:
    size = f"{look.size}" if look.compared in {0, look.size} else f"{look.size}, {look.compared} of them compared"
    if name == "test" and not with_test:
        return SplitLine(name, size, *3 * ("shown with the release",))
    classes = ", ".join(f"{one}: {count}" for one, count in (look.classes or {}).items())
    scores = (
        [_scores(values, pooled) for values in (look.constant, look.nearest_neighbour)] if name != "train" else ["", ""]
    )
    return SplitLine(name, size, classes, *scores)


def _scores(values: dict[str, float], pooled: Collection[str]) -> str:
    return ", ".join(f"{name} {value:.4g}" for name, value in values.items() if name not in pooled) or "not scored"


def _alike_text(one: AlikeSamples) -> str:
    first, second = one.splits
    return f"{one.alike} of {one.first} {first} rows almost equal {second} rows"


def _near_text(one: NearRows) -> str:
    first, second = one.splits
    how = TRANSFORMATIONS.get(one.transformation, one.transformation)
    nearest = ", ".join(f"{row} and {other}" for row, other in one.examples[:3])
    return f"{one.alike} of {one.first} {first} rows resemble {second} rows {how} (samples {nearest})"


def _chance(one: NearRows) -> float:
    return probability(one.alike, one.near, one.first, one.second)


def _is_planning(body: dict[str, Any]) -> bool:
    return bool(body["phase"] == Phase.PLANNING and body["outcome"] != "refused")


def _rows_shared(own: RunDirectory, other: RunDirectory) -> str:
    """Return how many rows two smoke runs have in common, under whatever targets; nothing where none, or not known.

    Rows of which many are equal, as in small tables of categories, say nothing of where they come from.
    """
    try:
        mine, theirs = own.part(SplitRows), other.part(SplitRows)
        sizes = [sum(split.size for split in one.part(Data).splits.values()) for one in (own, other)]
        different = [one.different(run.artifacts) for one, run in ((mine, own), (theirs, other))]
        if any(count < MOSTLY * size for count, size in zip(different, sizes, strict=True)):
            return ""
        moved = rows_moved(theirs, other.artifacts, mine, own.artifacts)
    except TrainwrightError:
        return ""
    if moved is None or not moved.same:
        return ""
    about = "about " if moved.estimated else ""
    changes = f", {moved.changes}" if moved.changed else ""
    return f"{about}{moved.same} of {sizes[0]} rows{changes}"


def _marks(run: RunDirectory) -> dict[str, set[Any]]:
    """Return what tells a smoke run's held-out rows and its source files: {what: digests}."""
    try:
        data, rows = run.part(Data), run.part(FixedRows)
    except TrainwrightError:  # a damaged record; `verify` names it
        return {}
    found: dict[str, set[Any]] = {}
    for name in SPLITS[1:]:
        fixed, split = rows.splits.get(name), data.splits.get(name)
        arrays = [*fixed.inputs.values(), fixed.target] if fixed is not None else []
        marks: set[Any] = {tuple(array.digest for array in arrays if array is not None), split and split.fingerprint}
        found[f"the {name} rows"] = {mark for mark in marks if mark} if split is not None and split.size else set()
    return found | {f"the file {name}": {digest} for name, digest in data.files.items()}
