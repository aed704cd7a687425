"""`training_config.yaml` and `reproducibility_manifest.md`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainwright.tools.documents.rendering import render
from trainwright.tools.reports.markdown import shared_values, written_at
from trainwright.tools.reports.requirements import requirement_lines
from trainwright.trainer.config import dump_yaml

if TYPE_CHECKING:
    from trainwright.tools.gates.decide import GateReport
    from trainwright.tools.gates.evidence import Evidence
    from trainwright.tools.gates.run_evidence import RunEvidence


def training_config(evidence: Evidence) -> str:
    """Return the locked configuration, every default written out."""
    head = f"# Project {evidence.name}, configuration version {evidence.version.number}, {evidence.config_digest}\n"
    return head + dump_yaml(evidence.config.model_dump(mode="json", exclude_none=True))


def reproducibility_manifest(evidence: Evidence, report: GateReport) -> str:
    """Return the measurements of the smoke run's worker: seeds, determinism, environment, data, code."""
    assert evidence.smoke is not None  # noqa: S101 - the gate's checks have shown it
    values = {**shared_values(evidence, report), "config_digest": evidence.config_digest}
    return manifest_of(evidence.smoke, **values)


def manifest_of(run: RunEvidence, **values: Any) -> str:
    """Return the manifest of any run; `values` are those of its gate, if there is one."""
    return render(
        "reports/reproducibility_manifest.md.j2",
        **{"written": written_at(), **values},
        run=run,
        randomness=run.reproducibility,
        environment=run.environment,
        requirements=requirement_lines(run.environment),
        data=run.data,
        code=run.code,
    )
