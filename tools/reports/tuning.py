"""`tuning_results.md` and `final_config.yaml`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainwright.tools.gates.keeper import final_values
from trainwright.tools.reports.markdown import checks_section, written_at
from trainwright.trainer.config import config_digest, dump_yaml, parse_config

if TYPE_CHECKING:
    from trainwright.tools.gates.evidence import Evidence
    from trainwright.tools.gates.keeper import GateReport


def final_config(evidence: Evidence) -> str:
    """Return the configuration that the final run will train with, every default written out."""
    config = parse_config(final_values(evidence))
    head = f"# Project {evidence.name}: the configuration to finalize, {config_digest(config)}\n"
    return head + dump_yaml(config.model_dump(mode="json", exclude_none=True))


def tuning_results(evidence: Evidence, report: GateReport) -> str:
    """Return the study's report, or why the phase was skipped."""
    head = f"# Tuning results: {evidence.name}\n\n{written_at()}"
    if report.outcome == "skipped" or evidence.study is None:
        assert evidence.baseline is not None  # noqa: S101 - the gate's checks have shown it
        value = evidence.baseline.best_value(evidence.goal_metric)
        body = (
            f"Skipped: the baseline `{evidence.baseline.id}` reaches the goal "
            f"({evidence.goal_text}; measured {value:.6g}). Its configuration is finalized as it is."
        )
    else:
        from trainwright.tools.hyperparameter_tuner import tuning_report

        body = tuning_report(evidence.session, evidence.workspace, evidence.study)
    return "\n\n".join([head, body, checks_section(evidence, report)]) + "\n"
