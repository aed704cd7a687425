"""Drafting a phase's artifacts when its gate passes; `gates.publication` moves them into the project folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainwright.tools.gates.artifacts import digests_of, new_drafts
from trainwright.tools.gates.checks.diagnostics import diagnosis
from trainwright.tools.gates.phases import Phase
from trainwright.tools.reports.final_model import assemble_final_model
from trainwright.tools.reports.phase_reports import (
    baseline_results,
    final_config,
    reproducibility_manifest,
    training_config,
    tuning_results,
)
from trainwright.trainer.run import write_report

if TYPE_CHECKING:
    from trainwright.tools.gates.decide import GateReport
    from trainwright.tools.gates.evidence import Evidence


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
