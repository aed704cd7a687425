"""Values of a run's page: its result, curves, alerts with their documents, predictions, data, environment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainwright.tools.documents import SKILL
from trainwright.tools.gates.beside_rivals import beside_rivals, run_reference
from trainwright.tools.gates.figures import beside
from trainwright.tools.reports.pages.charts import run_charts
from trainwright.tools.training_monitor.assessment import assess_record, fit_in_words
from trainwright.tools.training_monitor.documents import load_diagnostics
from trainwright.tools.training_monitor.record import RunRecord
from trainwright.tools.versions import version_of
from trainwright.tools.workspace.handles import handles
from trainwright.trainer.config import dump_yaml
from trainwright.trainer.run import Goal
from trainwright.trainer.run.evaluation import Evaluation

if TYPE_CHECKING:
    from trainwright.tools.gates.evidence import Evidence
    from trainwright.tools.gates.run_evidence import RunEvidence
    from trainwright.tools.training_monitor.assessment import Assessment

MOST_PAIRS = 12
MOST_COLUMNS = 20
MOST_CELLS = 6
LONGEST_DOCUMENT = 8000


def run_values(evidence: Evidence, run: RunEvidence) -> dict[str, Any]:
    """Return what the template of a run's page shows. Raises IntegrityError."""
    record = RunRecord(run.directory)
    with record.metrics.reading():
        rivals = beside_rivals(run.evaluation, evidence.project.goal, run_reference(run))
        assessment = assess_record(record, load_diagnostics(), Goal.model_validate(evidence.project.goal), rivals)
        charts = run_charts(record)
    version = version_of(evidence.data_versions, record.data.fingerprint)
    failure = record.status.failure
    return {
        "title": f"Run {handles(evidence.session, [run.id]).get(run.id, run.id)}",
        "subtitle": f"{run.row.kind} of project {evidence.name}, {record.status.state}: {run.id}",
        "result": _result(run, record, assessment),
        "failure": failure.model_dump() if failure is not None else None,
        "charts": charts,
        "alerts": [_alert(evidence.name, alert) for alert in assessment.alerts],
        "evaluation": _evaluation(record.part(Evaluation)),
        "data": [("version", str(version) if version else None), ("source", record.data.source),
                 ("split", record.data.split), ("preprocessing", record.data.preprocessing_digest)],
        "splits": [(name, split.size, split.fingerprint) for name, split in record.data.splits.items()],
        "environment": _environment_of(record),
        "packages": sorted(record.environment.packages.items()),
        "config": dump_yaml(record.config.model_dump(mode="json", exclude_none=True)),
    }  # fmt: skip


def _result(run: RunEvidence, record: RunRecord, assessment: Assessment) -> list[tuple[str, Any]]:
    best, summary = beside(run.certified().get(assessment.metric or ""), assessment.best_value), record.summary
    value = best.get("value", assessment.best_value)
    return [
        ("recommendation", f"{assessment.recommendation} ({fit_in_words(assessment.fit)})"),
        ("because", "; ".join(assessment.reasons)),
        (f"validation {assessment.metric}", None if value is None else f"{value:.6g} at epoch {assessment.best_epoch}"),
        ("reported by the training process", best.get("reported")),
        ("beside guessing", assessment.beside_guessing),
        ("beside rivals", "; ".join(assessment.beside_rivals) or None),
        ("epochs", assessment.epochs),
        ("optimizer steps", record.status.step),
        ("seconds of training", f"{summary.train_seconds:.1f}" if summary else None),
        ("samples per second", f"{summary.samples_per_second:.5g}" if summary and summary.samples_per_second else None),
        ("stopped because", record.status.stop_reason),
        ("seed", record.config.seed),
        ("configuration", run.row.config_digest),
    ]


def _alert(project: str, alert: Any) -> dict[str, Any]:
    path = SKILL / alert.document
    text = path.read_text(encoding="utf-8").split("\n---\n", 1)[-1].strip() if path.is_file() else ""
    return {
        **{name: getattr(alert, name) for name in ("title", "severity", "step", "message", "document")},
        "fixes": [fix.call(project) or fix.text for fix in alert.fixes],
        "text": text[:LONGEST_DOCUMENT],
    }


def _evaluation(found: Evaluation) -> dict[str, Any] | None:
    if found.predictions is None:
        return None
    counts = found.confusion or []
    pairs = sorted(
        ((found.class_name(down), found.class_name(across), count, f"{count / max(sum(row), 1):.0%}")
         for down, row in enumerate(counts) for across, count in enumerate(row) if count and down != across),
        key=lambda one: -one[2],
    )  # fmt: skip
    importance, times = found.importance, found.latency_ms or {}
    columns = list(dict.fromkeys(name for row in found.worst for name in row.inputs))[:MOST_CELLS]
    return {
        "rows": found.rows,
        "size": found.size,
        "epoch": found.epoch,
        "loss": found.loss,
        "latency": ", ".join(f"{name.replace('_', ' ')} {value:g} ms" for name, value in times.items()),
        "pairs": pairs[:MOST_PAIRS],
        "score": importance.score if importance else None,
        "importance": [(one.column, one.worsening, one.interval_text) for one in importance.columns[:MOST_COLUMNS]]
        if importance
        else [],
        "worst_head": ["row", "loss", "label", "predicted", *columns],
        "worst": [(row.row if row.source_row is None else row.source_row, row.loss, row.target, row.prediction,
                   *(row.inputs.get(name) for name in columns)) for row in found.worst],
    }  # fmt: skip


def _environment_of(record: RunRecord) -> list[tuple[str, Any]]:
    found = record.environment
    git = found.git
    commit = f"{git.commit}{' (changed files)' if git.dirty else ''}" if git is not None and git.commit else None
    return [
        ("Python", found.python),
        ("platform", found.platform),
        ("torch", found.packages.get("torch")),
        ("device", record.resolved.device),
        ("commit", commit),
        ("code", record.code.digest),
        ("engine", f"{record.code.engine_version} {record.code.engine_digest}" if record.code.engine_digest else None),
        ("container", found.container_image),
    ]
