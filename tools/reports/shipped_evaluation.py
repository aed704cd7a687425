"""Evaluation that a final model carries: `evaluate.py`, the clean room's code, the order and the certified numbers.

Whoever holds the folder and the rows computes the card's numbers again, with numpy and ONNX Runtime alone.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from trainwright.tools.evaluation import Sealed
from trainwright.tools.evaluation.evaluate import order_of
from trainwright.tools.evaluation.own_metrics import OWN
from trainwright.tools.evaluation.process import CODE
from trainwright.tools.gates.beside_rivals import rivals_text
from trainwright.trainer.base.paths import files_among
from trainwright.trainer.clean_room.shipped import figures
from trainwright.trainer.run.artifacts import ROWS, Program

if TYPE_CHECKING:
    from trainwright.tools.gates.evidence import Evidence
    from trainwright.tools.ledger.events import RunEvaluated

SCRIPT, RECORD, CODE_FOLDER = "evaluate.py", "evaluation.json", "evaluation"
MOST_SHARED_BYTES = 256 << 20
TEXT = '''\
"""Evaluation of this model on the rows that were fixed before it was trained; prints its numbers as one JSON line.

Needs numpy and onnxruntime (torch, where the model is model.pt2). The rows: `--rows FOLDER`, unless rows/ is here.
"""

import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
sys.dont_write_bytecode = True  # the folder stays as it was signed
sys.path.insert(0, str(FOLDER))

from evaluation.shipped import main  # noqa: E402

sys.exit(main(FOLDER, sys.argv[1:]))
'''


class Shipped(NamedTuple):
    """What a final model's folder carries for its evaluation."""

    command: str
    """That prints the numbers, from the project's folder."""
    without_rows: str
    """Why the rows are not there; empty where they are."""


def ship_evaluation(evidence: Evidence, folder: Path) -> Shipped | None:
    """Put rows that may be shared, and the evaluation, into the model's folder; None where nothing was certified.

    Raises:
        OSError: a file cannot be read or written.
    """
    export = evidence.export
    found = export.evaluation if export is not None else None
    rows_run = evidence.run(found.rows_run) if found is not None else None
    if export is None or found is None or rows_run is None:
        return None
    rows = Sealed(rows_run.directory, rows_run.sealed or {})
    source = rows.directory.artifacts
    without = _without_rows(source / ROWS, is_shared=evidence.config.deployment.share_rows)
    if not without:
        shutil.copytree(source / ROWS, folder / ROWS)
    if found.problem:
        return None
    run = Sealed(export.directory, export.sealed or {})
    order = order_of(export.directory.specification(), run, rows, run.part(Program))
    record = _record(order, found, os.path.relpath(source, evidence.folder / folder.name))
    record["compared"] = rivals_text(evidence)
    (folder / RECORD).write_text(json.dumps(record, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    (folder / SCRIPT).write_text(TEXT, encoding="utf-8")
    (folder / CODE_FOLDER).mkdir()
    for path in sorted(CODE.glob("*.py")):
        shutil.copyfile(path, folder / CODE_FOLDER / path.name)
    command = f"python {folder.name}/{SCRIPT}"
    place = os.path.relpath(source, evidence.folder)
    return Shipped(f"{command} --rows {place}" if without else command, without)


def _record(order: dict[str, Any], found: RunEvaluated, rows: str) -> dict[str, Any]:
    """Return the content of `evaluation.json`: the order without this machine's paths, and what it gave.

    What a function of the user's gave stands apart: its file is not in the folder, so nobody computes it again there.
    """
    program = {**order["program"], "path": Path(order["program"]["path"]).name}
    kept = {name: value for name, value in order.items() if name != "libraries"}
    own = {split: one.get(OWN, []) for split, one in found.splits.items()}
    told = {split: figures(one) for split, one in found.splits.items()}
    return {
        "order": {**kept, "program": program, "rows": {"record": order["rows"]["record"]}},
        "certified": {
            split: {name: value for name, value in values.items() if name not in own[split]}
            for split, values in told.items()
        },
        "by_your_function": {split: {one: told[split][one] for one in names} for split, names in own.items() if names},
        "episodes": {split: one["episodes"] for split, one in found.splits.items() if one.get("episodes")},
        "rivals": {split: one["rivals"] for split, one in found.splits.items() if one.get("rivals")},
        "not_computed": {split: one.get("not_computed", {}) for split, one in found.splits.items()},
        "evaluator": found.evaluator,
        "rows": rows,
    }


def _without_rows(rows: Path, *, is_shared: bool) -> str:
    """Return why the rows are not in the model's folder; empty where they are."""
    if not is_shared:
        return "they are the user's data, and deployment.share_rows is false"
    if not rows.is_dir():
        return "planning fixed none"
    size = sum(path.stat().st_size for path in files_among(rows.rglob("*")))
    return f"they take {size:,} bytes, more than {MOST_SHARED_BYTES:,}" if size > MOST_SHARED_BYTES else ""
