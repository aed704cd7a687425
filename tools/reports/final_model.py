"""Final model (`final_model/`): assembled among the drafts, moved to its place once the decision is recorded."""

from __future__ import annotations

import json
import os
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from trainwright.tools.evaluation import Sealed
from trainwright.tools.evaluation.evaluate import order_of
from trainwright.tools.evaluation.own_metrics import OWN
from trainwright.tools.evaluation.process import CODE
from trainwright.tools.gates.artifacts import digests_of, new_drafts
from trainwright.tools.gates.beside_rivals import rivals_text
from trainwright.tools.gates.checks.diagnostics import diagnosis
from trainwright.tools.gates.decide import GateReport
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.exits import ending
from trainwright.tools.gates.phases import Phase
from trainwright.tools.gates.run_evidence import RunEvidence
from trainwright.tools.gates.since_release import released_data
from trainwright.tools.gates.test_set_access import (
    SplitAccess,
    accesses_by_others,
    informative,
    project_accesses,
)
from trainwright.tools.ledger.events import RunEvaluated
from trainwright.tools.reports.certified import best_known
from trainwright.tools.reports.model_card import Checkable, model_card, reported_by_export
from trainwright.tools.reports.phase_reports import (
    baseline_results,
    final_config,
    manifest_of,
    reproducibility_manifest,
    requirements_file,
    training_config,
    tuning_results,
)
from trainwright.tools.reports.pictures import draw_pictures
from trainwright.tools.versions import card_of, version_of
from trainwright.tools.workspace.model_signature import ModelKey
from trainwright.trainer.base.errors import IntegrityError, StorageError
from trainwright.trainer.base.paths import files_among
from trainwright.trainer.base.secret_scan import masked, masked_values
from trainwright.trainer.clean_room.episodes import seeds_of
from trainwright.trainer.clean_room.shipped import figures
from trainwright.trainer.run import write_report
from trainwright.trainer.run.artifacts import ROWS, Program
from trainwright.trainer.run.results import Export, TestSetAccess

FOLDER = "final_model"
CARD, METRICS, MANIFEST = "README.md", "metrics.json", "reproducibility_manifest.md"
REQUIREMENTS, DATA_CARD = "requirements.txt", "data_card.md"


def assemble_final_model(evidence: Evidence, report: GateReport, drafts: Path) -> None:
    """Build the folder among the drafts, from the export run and the recorded evidence.

    Raises:
        IntegrityError: the export's files are not those that were sealed.
        StorageError: the disk is full or the folder cannot be written; the former folder stays.
    """
    assert evidence.export is not None  # noqa: S101 - the gate's checks have shown it
    assert evidence.final is not None  # noqa: S101 - the gate's checks have shown it
    building = drafts / FOLDER
    try:
        shutil.copytree(evidence.export.directory.artifacts / FOLDER, building)
        _require_exported(evidence.export, building)
        looks = test_looks(evidence)
        metrics = masked_values(_metrics(evidence, evidence.export.exported, looks))
        (building / METRICS).write_text(json.dumps(metrics, indent=2, sort_keys=True) + "\n", encoding="utf-8")
        (building / MANIFEST).write_text(masked(manifest_of(evidence.final)), encoding="utf-8")
        schema = building / "schema.json"
        needs = str(json.loads(schema.read_text(encoding="utf-8")).get("needs", "")) if schema.is_file() else ""
        packages = requirements_file(evidence.final.environment, evidence.final.imported, needs)
        (building / REQUIREMENTS).write_text(masked(packages), encoding="utf-8")
        (building / DATA_CARD).write_text(masked(_data_card(evidence)), encoding="utf-8")
        shipped = ship_evaluation(evidence, building)
        shares = evidence.config.deployment.share_rows
        pictures = draw_pictures(evidence.final.directory, evidence.name, building, shares_rows=shares)
        key = ModelKey(evidence.workspace.signer)
        key.write_public(building)
        files = {name: ((building / name).stat().st_size, digest) for name, digest in digests_of(building).items()}
        card = model_card(evidence, report, looks, files, Checkable(shipped, key.is_owners, pictures))
        (building / CARD).write_text(masked(card), encoding="utf-8")
        key.sign(building)
    except OSError as error:
        raise StorageError(
            f"final_model/ could not be written: {error.strerror or error}.",
            remedy=f"Free disk space, then pass_gate(project={evidence.name!r}, phase='finalization') again.",
        ) from error


def _data_card(evidence: Evidence) -> str:
    """Return the card of the data that the final run saw, with what is new since the last release's."""
    assert evidence.final is not None  # noqa: S101 - the gate's checks have shown it
    version = version_of(evidence.data_versions, evidence.final.data.fingerprint)
    assert version is not None  # noqa: S101 - finalization's checks have shown that the final run saw planning's data
    workspace, facts, versions = evidence.workspace, evidence.facts, evidence.data_versions
    return card_of(workspace, facts, evidence.name, versions, version, released=released_data(evidence))


def _require_exported(export: RunEvidence, copied: Path) -> None:
    """Compare the copy with the export's seal: a file could have been swapped since the checks."""
    digests = {f"artifacts/{FOLDER}/{name}": digest for name, digest in digests_of(copied).items()}
    swapped = [name for name, digest in digests.items() if (export.sealed or {}).get(name) != digest]
    if swapped:
        raise IntegrityError(
            f"{swapped[0]} of run {export.id} was changed after it was sealed.",
            remedy=f"Export again: export_model(project='{export.row.project}').",
        )


def test_looks(evidence: Evidence) -> list[SplitAccess]:
    """Return the evaluations of the final run's test split that say something new; none without such a split."""
    assert evidence.final is not None  # noqa: S101 - the gate's checks have shown it
    split = evidence.final.data.test
    if not split.size:
        return []
    seen = evidence.export.test_access if evidence.export else None
    others = accesses_by_others(evidence, seen or TestSetAccess(**split.as_dict()))
    return informative(evidence, project_accesses(evidence) + others)


def _metrics(evidence: Evidence, found: Export, looks: list[SplitAccess]) -> dict[str, object]:
    assert evidence.final is not None  # noqa: S101 - shown by the caller
    assert evidence.export is not None  # noqa: S101 - shown by the caller
    reported = reported_by_export(found)
    known, certified = best_known(evidence.export, reported), evidence.export.certified
    splits = {
        split: {**record.as_dict(), "metrics": known.get(split), "reported": reported.get(split),
                "certified": sorted(certified(split))}
        for split, record in (("test", found.test), ("validation", found.validation))
    }  # fmt: skip
    return {
        "project": evidence.name,
        "run": evidence.final.id,
        "goal": evidence.project.goal,
        "sealed_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "ending": ending(evidence, Phase.FINALIZATION),
        "test_looks": len(looks),
        "test_looked_at_by": [look._asdict() for look in looks],
        **splits,
        "latency_ms": found.latency_ms,
        "weights_digest": evidence.final.summary.weights_digest,
        "checkpoint_digest": found.checkpoint_digest,
    }


# Drafting a phase's artifacts when its gate passes; `gates.publication` moves them into the project folder.


def draft_artifacts(evidence: Evidence, report: GateReport) -> dict[str, str]:
    """Draft the artifacts of a gate that is about to pass; return their digests by name in the project folder.

    Raises:
        StorageError: the disk is full; the gate is not passed.
    """
    if report.phase is Phase.DIAGNOSTICS:  # written by diagnose_run, and checked to be unchanged
        return dict((diagnosis(evidence) or {}).get("artifacts", {}))
    drafts = new_drafts(evidence.session, evidence.folder)
    if report.phase is Phase.FINALIZATION:
        assemble_final_model(evidence, report, drafts)
        return digests_of(drafts)
    if report.phase is Phase.PLANNING:
        texts = {
            "training_config.yaml": training_config(evidence),
            "reproducibility_manifest.md": reproducibility_manifest(evidence, report),
        }
    elif report.phase is Phase.BASELINE:
        texts = {"baseline_results.md": baseline_results(evidence, report)}
    else:
        texts = {"tuning_results.md": tuning_results(evidence, report), "final_config.yaml": final_config(evidence)}
    for name, text in texts.items():
        write_report(drafts / name, text, keeps_random=name.endswith(".yaml"))
    return digests_of(drafts)


# Evaluation that a final model carries: `evaluate.py`, the clean room's code, the order and the certified numbers.
#
# Whoever holds the folder and the rows computes the card's numbers again, with numpy and ONNX Runtime alone.

SCRIPT, RECORD, CODE_FOLDER = "evaluate.py", "evaluation.json", "evaluation"
MAX_SHARED_BYTES = 256 << 20
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
    kept = {name: value for name, value in order.items() if name not in {"libraries", "python"}}
    own = {split: one.get(OWN, []) for split, one in found.splits.items()}
    told = {split: figures(one) for split, one in found.splits.items()}
    return {
        "order": {**kept, "program": program, "rows": {"record": order["rows"]["record"]}},
        "certified": {
            split: {name: value for name, value in values.items() if name not in own[split]}
            for split, values in told.items()
        },
        "by_your_function": {split: {one: told[split][one] for one in names} for split, names in own.items() if names},
        "episodes": {split: _with_seeds(one["episodes"]) for split, one in found.splits.items() if one.get("episodes")},
        "rivals": {split: one["rivals"] for split, one in found.splits.items() if one.get("rivals")},
        "not_computed": {split: one.get("not_computed", {}) for split, one in found.splits.items()},
        "evaluator": found.evaluator,
        "rows": rows,
    }


def _with_seeds(episodes: dict[str, dict[str, int]]) -> dict[str, dict[str, Any]]:
    """Return the episodes by metric with the seeds that follow from the drawn number: anybody may play them again."""
    return {name: {**one, "seeds": seeds_of(one["drawn"], one["count"])} for name, one in episodes.items()}


def _without_rows(rows: Path, *, is_shared: bool) -> str:
    """Return why the rows are not in the model's folder; empty where they are."""
    if not is_shared:
        return "they are the user's data, and deployment.share_rows is false"
    if not rows.is_dir():
        return "planning fixed none"
    size = sum(path.stat().st_size for path in files_among(rows.rglob("*")))
    return f"they take {size:,} bytes, more than {MAX_SHARED_BYTES:,}" if size > MAX_SHARED_BYTES else ""
