"""A version on a labelled file: the clean room computes its figures on the rows that it was not trained on.

No gate counts it, since whoever gives the file knows its rows. The file is read as final_model/predict.py reads it.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field

from trainwright.tools.answers import Answer, NextCall
from trainwright.tools.evaluation import Sealed, run_clean_room
from trainwright.tools.evaluation.evaluate import order_of
from trainwright.tools.evaluation.meanings import take_worse
from trainwright.tools.ledger import ProjectFacts
from trainwright.tools.registry.versions import model_folder, registered
from trainwright.tools.workspace.records import get_project
from trainwright.trainer.base.canonical import sha256_of_file
from trainwright.trainer.base.errors import DataError, TrainwrightError
from trainwright.trainer.base.paths import confine
from trainwright.trainer.run.artifacts import Array, FixedRows, FixedSplit, Program
from trainwright.trainer.run.split_rows import CELL, RECORD, TARGET, SplitRows

if TYPE_CHECKING:
    import numpy as np

    from trainwright.tools.workspace import Workspace

SPLIT = "test"
"""Under which name the clean room gets the file's rows."""
KINDS = frozenset({"classes", "numbers"})
"""Answers whose targets are cells of the file."""
MOST_BYTES = 256 << 20
BY_HAND = "python final_model/predict.py FILE answers its rows; compare the answers yourself."


class Score(Answer):
    """A version's figures on a file."""

    project: str
    version: str
    file: str
    metric: str
    """The goal's."""
    rows: int
    """Evaluated."""
    left_out: dict[str, int] = Field(default_factory=dict)
    """Rows of the file that are no evidence, by why: trained on, chosen by (validation), without a target."""
    metrics: dict[str, float]
    intervals: dict[str, list[float]] = Field(default_factory=dict)
    """95 %."""
    by_class: dict[str, str] = Field(default_factory=dict)
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
    rows, inputs, left_out = _read(found, path)
    seen, notes = _seen(found, inputs)
    for split, marks in seen.items():
        left_out |= {WHY[split]: sum(marks)} if any(marks) else {}
    kept = [place for place in range(len(rows)) if not any(marks[place] for marks in seen.values())]
    if not kept:
        raise _refused(f"No row of {file} is new to {found.name} and has a target", "Give rows that came later.")
    answer = _evaluated(found, [rows[place] for place in kept], inputs[kept])
    names = found.schema["answer"].get("classes") or []
    each = {names[int(one["class"])]: f"{one['found']:.0f} of {one['rows']:.0f}" for one in answer.get("classes", [])}
    return Score(
        project=project, version=found.name, file=file, metric=metric, rows=answer["rows"], left_out=left_out,
        metrics=answer["metrics"], intervals=answer["intervals"], by_class=each, notes=notes,
        next=NextCall(tool="models", arguments={"project": project}, why="all versions and their certified figures"),
    )  # fmt: skip


WHY = {"train": "it was trained on them", "validation": "its epoch was chosen by them"}


def _version(workspace: Workspace, project: str, name: str) -> _Version:
    with workspace.snapshot() as session:
        found = registered(session, workspace, project)
        number, facts = found.version(name), ProjectFacts(session, project)
    run_id = found.model(number).run_id
    export, fixed = (_sealed(workspace, facts, project, one) for one in (run_id, facts.rows_run(run_id)))
    path = model_folder(workspace, project, f"v{number}") / "schema.json"
    schema = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    is_table = schema.get("kind") == "table" and schema["answer"]["kind"] in KINDS
    if not is_table or export is None or fixed is None or not export.part(Program).path:
        raise _refused(f"v{number} of {project} is not evaluated on files: that is for tables of cells alone", BY_HAND)
    evaluated = facts.evaluations.get(run_id)
    splits = evaluated.splits.values() if evaluated is not None else ()
    readings = {metric: meant for one in splits for metric, meant in one.get("readings", {}).items()}
    return _Version(f"v{number}", export, fixed, schema, readings)


def _sealed(workspace: Workspace, facts: ProjectFacts, project: str, run_id: str) -> Sealed | None:
    seal = facts.seals.get(run_id)
    return None if seal is None else Sealed(workspace.run_directory(project, run_id), seal.digests)


def _read(version: _Version, path: Path) -> tuple[list[dict[str, Any]], np.ndarray[Any, Any], dict[str, int]]:
    """Return the file's rows that have a target, their inputs (rows, numbers), and how many have none."""
    from trainwright.trainer.data.table.transform import encode_rows, text_of
    from trainwright.trainer.prediction.frame import WrongInputError
    from trainwright.trainer.prediction.tables import as_known, guarded, read_any

    if path.stat().st_size > MOST_BYTES:
        raise _refused(f"{path.name} has more than {MOST_BYTES:,} bytes", "Give a sample of its rows.")
    schema = version.schema
    try:
        with guarded(str(path), schema):
            rows = list(read_any(str(path), schema))
            targets = schema["targets"]
            if rows and (missing := [name for name in targets if not any(name in row for row in rows)]):
                raise ValueError(f"no row has the target {missing[0]!r}")
            told = [row for row in rows if all(text_of(row.get(name)) is not None for name in targets)]
            inputs = encode_rows(as_known(told, schema["columns"])[0], schema)
    except WrongInputError as error:
        raise _refused(str(error).rstrip("."), error.remedy) from None
    return told, inputs, {"they have no target": len(rows) - len(told)} if len(told) < len(rows) else {}


def _seen(version: _Version, inputs: np.ndarray[Any, Any]) -> tuple[dict[str, list[bool]], list[str]]:
    """Return which rows the version was trained on, and which chose its epoch, by their cells; or why nobody knows."""
    from trainwright.trainer.data.cells import hashed_cells

    columns = version.schema["columns"]
    kept: SplitRows = version.rows.part(SplitRows)
    if not kept.kept or kept.level or kept.columns[: len(columns) + 1] != [*(one["name"] for one in columns), TARGET]:
        return {}, ["which rows it was trained on is not recorded: rows that it knows may be among these"]
    codes = [(one["width"], one["values"] if one["kind"] == "category" else None) for one in columns]
    marks = [row.tobytes() for row in hashed_cells(inputs.astype("float64"), codes)]
    end = RECORD + CELL * len(columns)
    known = {
        split: {record[RECORD:end] for record in records}
        for split, records in kept.read(version.rows.directory.artifacts).items()
    }
    train = [mark in known["train"] for mark in marks]
    chose = [mark in known["validation"] and not one for mark, one in zip(marks, train, strict=True)]
    return {"train": train, "validation": chose}, []


def _evaluated(version: _Version, rows: list[dict[str, Any]], inputs: np.ndarray[Any, Any]) -> dict[str, Any]:
    """Return the clean room's answer on the rows. Raises DataError where it has none."""
    import numpy as np

    specification, record = version.export.directory.specification(), version.rows.part(FixedRows)
    fixed = version.fixed
    targets = np.array([[_target(row[name], version.schema) for name in version.schema["targets"]] for row in rows])
    with tempfile.TemporaryDirectory(prefix="scored-") as folder:
        (name, stored), *others = fixed.inputs.items()
        if others or fixed.target is None:
            raise _refused("The version takes several inputs", BY_HAND)
        split = FixedSplit(
            size=len(rows), rows=len(rows), order=[name],
            inputs={name: _written(Path(folder), "input", inputs, stored)},
            target=_written(Path(folder), "target", targets, fixed.target),
        )  # fmt: skip
        order = order_of(specification, version.export, version.rows, version.export.part(Program))
        given = record.model_copy(update={"splits": {SPLIT: split}}).as_dict()
        order |= {"rows": {"folder": folder, "record": given}, "splits": [SPLIT], "slices": [], "groups": []}
        answer = run_clean_room(order)
        if answer.get("problem"):
            raise _refused(str(answer["problem"]).rstrip("."), str(answer.get("remedy") or BY_HAND))
        found: dict[str, Any] = answer["splits"][SPLIT]
        found["readings"] = {
            metric: {words: value for words, value in found["readings"].get(metric, {}).items() if words in meant}
            for metric, meant in version.readings.items()
        }
        take_worse(order, {SPLIT: found})
    return found


def _target(cell: Any, schema: dict[str, Any]) -> float:
    from trainwright.trainer.data.table.transform import number, text_of

    text, names = str(text_of(cell)), schema["answer"].get("classes")
    if names is None:
        try:
            return number(text, {})[0]
        except ValueError:
            raise _refused(f"The target {text[:40]!r} is no number", "Write it as 1234.5.") from None
    if text not in names:
        raise _refused(f"The target {text[:40]!r} is no class of this version", f"It knows {', '.join(names[:20])}.")
    return float(names.index(text))


def _written(folder: Path, name: str, values: np.ndarray[Any, Any], like: Array) -> Array:
    """Write an array as the fixed one is stored: of its type, each row of its shape."""
    import numpy as np

    stored = np.ascontiguousarray(values.astype(like.dtype).reshape(len(values), *like.shape[1:]))
    np.save(folder / f"{name}.npy", stored)
    path = folder / f"{name}.npy"
    return Array(path=path.name, digest=sha256_of_file(path), dtype=str(stored.dtype), shape=list(stored.shape))


def _refused(what: str, remedy: str) -> TrainwrightError:
    return DataError(f"{what}.", remedy=remedy, document="phases/promotion.md")
