"""Rivals beside a program: what its worker, or the baseline's, fitted, and the user's reference, on the planned rows.

Their outputs are files; the clean room computes the figures, and the intervals of the differences.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trainwright.tools.evaluation.own_metrics import CODE, run_apart
from trainwright.tools.evaluation.sealed import Sealed
from trainwright.trainer.run.evidence import Data
from trainwright.trainer.run.rivals import Rivals

WORKER = "trainwright.trainer.jobs.reference"
SECONDS = 300.0
"""Of a reference, which may be fitted."""


def rivals_of(run: Sealed, fitted: Sealed | None, order: dict[str, Any], folder: Path) -> list[dict[str, Any]]:
    """Return the rivals of a clean room's order, each with name, folder and `splits`; or with a `problem`.

    Args:
        run: whose worker fitted them and kept the train rows, and whose configuration names a reference.
        fitted: the baseline whose worker did so for a run that fits none; both had the rows that planning fixed.
        order: without rivals.
        folder: a temporary one, for the reference's outputs.
    """
    by = run
    if not (record := run.part(Rivals)) and fitted is not None:
        by, record = fitted, fitted.part(Rivals)
    artifacts = str(by.directory.artifacts)
    found = [
        {"name": one.name, "told": one.told, "folder": artifacts, "splits": one.as_dict()["kept"]}
        for one in record.rivals
        if one.kept
    ]
    reference = run.directory.specification().config.reference
    if reference is None:
        return found
    into = folder / "reference"
    into.mkdir()
    train = record.train.as_dict() | {"folder": artifacts} if record.train is not None else None
    given = {"rows": order["rows"], "splits": order["splits"], "train": train, "into": str(into)}
    given["is_table"] = bool(run.part(Data).columns)
    answer = run_apart(run, reference, WORKER, given, folder, seconds=SECONDS, is_imported=False)
    how = ""
    if answer.pop("is_fitted", False):
        how = ", fitted on the train rows"
        del answer[CODE]  # by which figures come again, as those of a fit need not
    return [*found, answer | {"name": reference, "told": f"your reference {reference}{how}", "folder": str(into)}]


def add_problems(rivals: list[dict[str, Any]], answer: dict[str, Any]) -> None:
    """Put into the clean room's answer what each rival is in words, and why one has no figures."""
    told = {one["name"]: {key: one[key] for key in ("told", CODE) if key in one} for one in rivals}
    for split in answer["splits"].values():
        problems = {one["name"]: {"problem": one["problem"]} for one in rivals if "problem" in one}
        found = problems | split.get("rivals", {})
        if found:
            split["rivals"] = {
                name: {**told[name], **{key: value for key, value in one.items() if key != "kept"}}
                for name, one in found.items()
            }
