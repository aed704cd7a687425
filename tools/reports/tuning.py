"""`tuning_results.md` and `final_config.yaml`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainwright.tools.documents.rendering import render
from trainwright.tools.gates.decide import final_values
from trainwright.tools.gates.exits import verdict
from trainwright.tools.gates.phases import Phase
from trainwright.tools.reports.markdown import shared_values
from trainwright.trainer.config import config_digest, dump_yaml, parse_config

if TYPE_CHECKING:
    from trainwright.tools.gates.decide import GateReport
    from trainwright.tools.gates.evidence import Evidence


def final_config(evidence: Evidence) -> str:
    """Return the configuration that the final run will train with, every default written out."""
    config = parse_config(final_values(evidence))
    head = f"# Project {evidence.name}: the configuration to finalize, {config_digest(config)}\n"
    return head + dump_yaml(config.model_dump(mode="json", exclude_none=True))


def tuning_results(evidence: Evidence, report: GateReport) -> str:
    """Return the project's result, why the phase ends, and the study's report."""
    study = ""
    if report.outcome != "skipped" and evidence.study is not None:
        from trainwright.tools.hyperparameter_tuner import tuning_report

        study = tuning_report(evidence.session, evidence.workspace, evidence.study)
    return render(
        "reports/tuning_results.md.j2",
        **shared_values(evidence, report),
        verdict=verdict(evidence, Phase.OPTIMIZATION),
        outcome=report.outcome,
        baseline=evidence.baseline,
        study=study,
    )
