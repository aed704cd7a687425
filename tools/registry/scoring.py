"""A version on a labelled file: the clean room computes its figures on the rows that it was not trained on.

No gate counts it, since whoever gives the file knows its rows. The file is read as final_model/predict.py reads it.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field

from trainwright.tools.answers import Answer, NextCall
from trainwright.tools.evaluation import Sealed, run_clean_room
from trainwright.tools.evaluation.evaluate import order_of
from trainwright.tools.evaluation.meanings import take_worse
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.later import later_call
from trainwright.tools.gates.phase_status import phase_status_of
from trainwright.tools.ledger import Look, ProjectFacts
from trainwright.tools.registry.labelled import BY_HAND, Known, Labelled, read_labelled, refused
from trainwright.tools.registry.versions import model_folder, registered
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.records import get_project
from trainwright.trainer.base.canonical import sha256_of_file
from trainwright.trainer.base.paths import confine
from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.run.artifacts import Array, FixedRows, FixedSplit, Program
from trainwright.trainer.run.split_rows import SplitRows

SPLIT = "test"
"""Under which name the clean room gets the file's rows."""
KINDS = frozenset({"classes", "labels", "numbers"})
"""Answers whose targets are cells of the file."""


class Score(Answer):
    """A version's figures on a file."""

    project: str
    version: str
    file: str
    metric: str
    """The goal's."""
    rows: int
    """Evaluated."""
    known: int = 0
    """Rows of the file that the version knows, or others of their group."""
    left_out: dict[str, int] = Field(default_factory=dict)
    """Rows of the file that are no evidence, by why: trained on, of a group that was, tested on, without a target."""
    whole_file: str = ""
    """The goal's metric on all rows with a target, where the version knows some of them: no evidence."""
    metrics: dict[str, float]
    intervals: dict[str, list[float]] = Field(default_factory=dict)
    """95 %."""
    by_class: dict[str, str] = Field(default_factory=dict)
    by_target: dict[str, dict[str, float]] = Field(default_factory=dict)
    """Metrics of each of several targets, of which `metrics` are the means."""
    notes: list[str] = Field(default_factory=list)
    counts: str = "of a file that you gave: no gate counts it"


@dataclass(frozen=True)
class _Version:
    """A version's sealed records, and how its folder reads rows."""

    name: str
    export: Sealed
    rows: Sealed
    schema: dict[str, Any]
    readings: dict[str, Any]
    """By metric what its training process is known to mean by the name, with values."""

    @property
    def fixed(self) -> FixedSplit:
        """One of the splits that planning fixed: how inputs and targets are stored."""
        record: FixedRows = self.rows.part(FixedRows)
        return next(iter(record.splits.values()))


def score_model(workspace: Workspace, project: str, file: str, version: str = "latest") -> Score:
    """Return a version's figures on the rows of a labelled table that it was not trained on.

    Args:
        file: path below the project's code root; its columns are those of the version's data, the target included.

    Raises:
        NotFoundError: no such project or version.
        ConfigurationError: the file is not there, or lies elsewhere.
        DataError: it cannot be read as the version's data, it leaves no row, or the version is not evaluated so.
    """
    found = _version(workspace, project, version)
    with workspace.snapshot() as session:
        owner = get_project(session, project)
        path, metric = confine(file, Path(owner.code_root), key="score"), str(owner.goal["metric"])
    config = found.rows.directory.specification().config.data
    assert config is not None  # noqa: S101 - a table is data of the engine's
    known = Known.of(found.rows.part(SplitRows), found.rows.directory.artifacts, found.schema, config.split)
    rows = read_labelled(path, found.schema, known, config.args.get("labels") or {})
    if not rows.is_new.any():
        told = "; ".join(f"{count}: {why}" for why, count in rows.left_out.items()) or "it is empty"
        what = f"No row of {file} is new to {found.name} and has a target ({told})"
        raise refused(what, "Give rows that came later.")
    answer = _evaluated(found, rows.new())
    whole = _whole(metric, _evaluated(found, rows), rows.known, known.group) if rows.known else ""
    names = found.schema["answer"].get("classes") or []
    of_targets = {one["name"]: one["metrics"] for one in answer.get("targets", [])}
    each = {names[int(one["class"])]: f"{one['found']:.0f} of {one['rows']:.0f}" for one in answer.get("classes", [])}
    return Score(
        project=project, version=found.name, file=file, metric=metric, rows=answer["rows"], left_out=rows.left_out,
        known=rows.known, whole_file=whole, metrics=answer["metrics"], intervals=answer["intervals"], by_class=each,
        by_target=of_targets,
        notes=_notes(known, config.split, answer),
        next=_next(workspace, project),
    )  # fmt: skip


def _next(workspace: Workspace, project: str) -> NextCall:
    with workspace.snapshot() as session:
        evidence = Evidence(session, workspace, project, inspection=Look())
        is_finished = phase_status_of(evidence).is_finished
        call = later_call(evidence, is_scored=True) if is_finished else None
    why = "all versions and their certified figures"
    return call or NextCall(tool="models", arguments={"project": project}, why=why)


def _whole(metric: str, answer: dict[str, Any], known: int, group: str | None) -> str:
    """Return the figure of a whole file in words, which rows that the version knows are a part of, and how it does."""
    value, rows, classes = answer["metrics"].get(metric), answer["rows"], answer.get("classes", [])
    right = f" ({sum(one['found'] for one in classes):.0f} right)" * bool(classes)
    told = "unknown" if value is None else f"{value:.4g}"
    alike = "the inputs" + (f" or the {group}" if group else "")
    of = f"{known} of them share {alike} of rows that it was trained, chosen or tested on"
    return f"{metric} {told} on all {rows} rows{right}: no evidence, since {of}"


def _notes(known: Known, split: SplitSection, answer: dict[str, Any]) -> list[str]:
    if known.units is not None:
        over = f"whole values of {known.units!r}, of which the rows have {answer['groups']}"
        return [f"intervals are over {over}" if answer["intervals"] else f"no intervals: they would be over {over}"]
    if split.by == "given":
        return [
            f"its split is given by {split.of}: rows of a kind that it knows are counted, where it kept kinds apart"
        ]
    return []


def _version(workspace: Workspace, project: str, name: str) -> _Version:
    with workspace.snapshot() as session:
        found = registered(session, workspace, project)
        number, facts = found.version(name), ProjectFacts(session, project)
    run_id = found.model(number).run_id
    export, fixed = (_sealed(workspace, facts, project, one) for one in (run_id, facts.rows_run(run_id)))
    path = model_folder(workspace, project, f"v{number}") / "schema.json"
    schema = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    is_table = schema.get("kind") == "table" and schema["targets"] and schema["answer"]["kind"] in KINDS
    if not is_table or export is None or fixed is None or not export.part(Program).path:
        raise refused(f"v{number} of {project} is not evaluated on files: that is for tables of cells alone", BY_HAND)
    evaluated = facts.evaluations.get(run_id)
    splits = evaluated.splits.values() if evaluated is not None else ()
    readings = {metric: meant for one in splits for metric, meant in one.get("readings", {}).items()}
    return _Version(f"v{number}", export, fixed, schema, readings)


def _sealed(workspace: Workspace, facts: ProjectFacts, project: str, run_id: str) -> Sealed | None:
    seal = facts.seals.get(run_id)
    return None if seal is None else Sealed(workspace.run_directory(project, run_id), seal.digests)


def _evaluated(version: _Version, rows: Labelled) -> dict[str, Any]:
    """Return the clean room's answer on the rows. Raises DataError where it has none."""
    specification, record = version.export.directory.specification(), version.rows.part(FixedRows)
    fixed = version.fixed
    with tempfile.TemporaryDirectory(prefix="scored-") as folder:
        (name, stored), *others = fixed.inputs.items()
        if others or fixed.target is None:
            raise refused("The version takes several inputs", BY_HAND)
        split = FixedSplit(
            size=len(rows.inputs), rows=len(rows.inputs), order=[name],
            inputs={name: _written(Path(folder), "input", rows.inputs, stored)},
            target=_written(Path(folder), "target", rows.targets, fixed.target),
            groups=None if rows.units is None else _written(Path(folder), "groups", rows.units, None),
            grouped_by=fixed.grouped_by,
        )  # fmt: skip
        order = order_of(specification, version.export, version.rows, version.export.part(Program))
        given = record.model_copy(update={"splits": {SPLIT: split}}).as_dict()
        order |= {"rows": {"folder": folder, "record": given}, "splits": [SPLIT], "slices": [], "groups": []}
        answer = run_clean_room(order)
        if answer.get("problem"):
            raise refused(str(answer["problem"]).rstrip("."), str(answer.get("remedy") or BY_HAND))
        found: dict[str, Any] = answer["splits"][SPLIT]
        found["readings"] = {
            metric: {words: value for words, value in found["readings"].get(metric, {}).items() if words in meant}
            for metric, meant in version.readings.items()
        }
        take_worse(order, {SPLIT: found})
    return found


def _written(folder: Path, name: str, values: np.ndarray[Any, Any], like: Array | None) -> Array:
    """Write an array, as a fixed one is stored: of its type, each row of its shape."""
    if like is not None:
        values = values.astype(like.dtype).reshape(len(values), *like.shape[1:])
    np.save(folder / f"{name}.npy", np.ascontiguousarray(values))
    path = folder / f"{name}.npy"
    return Array(path=path.name, digest=sha256_of_file(path), dtype=str(values.dtype), shape=list(values.shape))
