"""Final model (`final_model/`): assembled among the drafts, moved to its place once the decision is recorded."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

from trainwright.tools.gates.artifacts import digests_of
from trainwright.tools.gates.exits import ending
from trainwright.tools.gates.phases import Phase
from trainwright.tools.gates.test_set_access import SplitAccess, accesses_by_others, project_accesses
from trainwright.tools.provenance.model_signature import ModelKey
from trainwright.tools.reports.certified import best_known
from trainwright.tools.reports.model_card import Checkable, model_card, reported_by_export
from trainwright.tools.reports.phase_reports import manifest_of, requirements_file
from trainwright.tools.reports.shipped_evaluation import ship_evaluation
from trainwright.tools.versions import card_of, version_of
from trainwright.trainer.base.errors import IntegrityError, StorageError
from trainwright.trainer.base.secret_scan import masked
from trainwright.trainer.run.results import Export, TestSetAccess

if TYPE_CHECKING:
    from pathlib import Path

    from trainwright.tools.gates.decide import GateReport
    from trainwright.tools.gates.evidence import Evidence
    from trainwright.tools.gates.run_evidence import RunEvidence

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
        metrics = json.dumps(_metrics(evidence, evidence.export.exported, looks), indent=2, sort_keys=True) + "\n"
        (building / METRICS).write_text(masked(metrics, keeps_random=True), encoding="utf-8")
        (building / MANIFEST).write_text(masked(manifest_of(evidence.final)), encoding="utf-8")
        packages = requirements_file(evidence.final.environment, evidence.final.imported)
        (building / REQUIREMENTS).write_text(masked(packages), encoding="utf-8")
        (building / DATA_CARD).write_text(masked(_data_card(evidence)), encoding="utf-8")
        shipped = ship_evaluation(evidence, building)
        key = ModelKey(evidence.workspace.signer)
        key.write_public(building)
        files = {name: ((building / name).stat().st_size, digest) for name, digest in digests_of(building).items()}
        card = model_card(evidence, report, looks, files, Checkable(shipped, is_owners_key=key.is_owners))
        (building / CARD).write_text(masked(card), encoding="utf-8")
        key.sign(building)
    except OSError as error:
        raise StorageError(
            f"final_model/ could not be written: {error.strerror or error}.",
            remedy=f"Free disk space, then pass_gate(project={evidence.name!r}, phase='finalization') again.",
        ) from error


def _data_card(evidence: Evidence) -> str:
    """Return the card of the data that the final run saw, with what is new since the version before."""
    assert evidence.final is not None  # noqa: S101 - the gate's checks have shown it
    version = version_of(evidence.data_versions, evidence.final.data.fingerprint)
    if version is None:  # its smoke run was made by an earlier version of the product
        return f"# Data of {evidence.name}\n\nNo sealed smoke run saw these data.\n"
    return card_of(evidence.workspace, evidence.facts, evidence.name, evidence.data_versions, version)


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
    """Return every evaluation of the final run's test split; none where the data has no such split."""
    assert evidence.final is not None  # noqa: S101 - the gate's checks have shown it
    split = evidence.final.data.test
    if not split.size:
        return []
    seen = evidence.export.test_access if evidence.export else None
    return project_accesses(evidence) + accesses_by_others(evidence, seen or TestSetAccess(**split.as_dict()))


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
        "ending": ending(evidence, Phase.FINALIZATION),
        "test_looks": len(looks),
        "test_looked_at_by": [look._asdict() for look in looks],
        **splits,
        "latency_ms": found.latency_ms,
        "weights_digest": evidence.final.summary.weights_digest,
        "checkpoint_digest": found.checkpoint_digest,
    }
