"""The model card: the model, its results, its training, and what is not known about it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from trainwright.tools.documents.rendering import render
from trainwright.tools.evaluation.told_apart import shown_by
from trainwright.tools.gates import cures
from trainwright.tools.gates.attempts import attempts, chosen_of, configurations, gain_over_first
from trainwright.tools.gates.beside_rivals import rivals_text
from trainwright.tools.gates.bounds import is_smaller_better
from trainwright.tools.gates.caveats import caveats
from trainwright.tools.gates.decide import GateReport
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.exits import reached, takes_best, verdict
from trainwright.tools.gates.final_words import importance_of
from trainwright.tools.gates.finals import overlay_of_run
from trainwright.tools.gates.folds import folds_text
from trainwright.tools.gates.ideas import experiments_of
from trainwright.tools.gates.leak_prices import told_leaks
from trainwright.tools.gates.phases import Phase
from trainwright.tools.gates.repeats import repeats_text
from trainwright.tools.gates.run_evidence import RunEvidence
from trainwright.tools.gates.scope import scope_changes
from trainwright.tools.gates.searches import unmet_wish
from trainwright.tools.gates.shown import certified_figure
from trainwright.tools.gates.studies import ablation_studies, every_study, studies_told
from trainwright.tools.gates.test_set_access import SplitAccess
from trainwright.tools.launchers.worker_wall import told
from trainwright.tools.ledger.events import RunEvaluated
from trainwright.tools.reports.certified import Reported, best_known, evaluated, table
from trainwright.tools.reports.looked_at import configurations_beside, looked_at_values
from trainwright.tools.reports.markdown import metric_label, reference_line, shared_values
from trainwright.tools.reports.opened import opened
from trainwright.tools.reports.slices import slices_values
from trainwright.tools.training_monitor import Alert
from trainwright.tools.training_monitor.diagnosis import diagnose
from trainwright.tools.training_monitor.documents import load_diagnostics
from trainwright.tools.training_monitor.outdone import ALIKE, BETTER, WORSE
from trainwright.tools.versions import version_of
from trainwright.tools.workspace.model_signature import COMMAND
from trainwright.trainer.base.text import one_line
from trainwright.trainer.config import flatten
from trainwright.trainer.prediction.assembly import use_of
from trainwright.trainer.run import RunKind
from trainwright.trainer.run.evidence import Data
from trainwright.trainer.run.results import Export
from trainwright.trainer.run.validation import Validation, Verdict

if TYPE_CHECKING:
    from trainwright.tools.reports.final_model import Shipped
    from trainwright.tools.reports.pictures import Picture

MAX_ROWS = 30
MAX_CHARACTERS = 90
"""Of the line of use in the head."""
MAX_INPUTS = 10
FOLDERS = ("evaluation/", "pictures/", "rows/")
"""Below the model's folder, named without their files."""
UNCERTIFIED = " (reported by the training process)"
INPUTS = {
    "csv": "tabular",
    "jsonl": "tabular",
    "parquet": "tabular",
    "arrow": "tabular",
    "orc": "tabular",
    "excel": "tabular",
    "images": "image",
}
OF_ARRAYS = {"npz", "digits"}
"""Sources whose samples are arrays as the user has them."""
OF_SOURCES = {
    "text": "text-generation",
    "chat": "text-generation",
    "token_classification": "token-classification",
    "question_answering": "question-answering",
    "multiple_choice": "multiple-choice",
    "seq2seq": "text2text-generation",
}
"""The Hub's name of the task that rows of a source are for."""
TASKS = {
    "tabular-classification", "tabular-regression", "text-classification", "image-classification",
    "time-series-forecasting",
}  # fmt: skip
"""The Hub's names of tasks, made of the kind of input and of target."""


class Checkable(NamedTuple):
    """What a reader of the card can check."""

    shipped: Shipped | None
    """The evaluation that the folder carries."""
    is_owners_key: bool
    """Whether the owner's key signs the folder, or one made for it."""
    pictures: list[Picture]
    """Of validation rows, in the folder."""


def model_card(
    evidence: Evidence,
    report: GateReport,
    looks: list[SplitAccess],
    files: dict[str, tuple[int, str]],
    checkable: Checkable,
) -> str:
    """Return the card as Markdown under the Hub's YAML head, numbers from the export's own evaluation.

    Args:
        looks: every test-set access.
        files: (bytes, digest) of the files beside the card.
        checkable: what readers can check themselves.
    """
    assert evidence.export is not None  # noqa: S101 - the gate's checks have shown it
    assert evidence.final is not None  # noqa: S101 - the gate's checks have shown it
    final, found = evidence.final, evidence.export.exported
    folder = evidence.export.directory.artifacts / "final_model"
    schema = folder / "schema.json"
    prediction = json.loads(schema.read_text(encoding="utf-8")) if "predict.py" in files else {}
    reported = reported_by_export(found)
    label = partial(metric_label, resolved=final.resolved)
    columns, rows = table(evidence.export, reported, label)
    served = json.loads((folder / "resolved.json").read_text(encoding="utf-8"))
    text = render(
        "reports/model_card.md.j2",
        **shared_values(evidence, report),
        verdict=verdict(evidence, Phase.FINALIZATION),
        caveats=caveats(evidence),
        rivals=rivals_text(evidence),
        open_alerts=cures.accepted_open(evidence),
        warnings=open_warnings(evidence, final),
        of_data=data_warnings(evidence),
        intent=evidence.project.intent or "No intent was given.",
        reference=reference_line(evidence, reached(evidence, Phase.FINALIZATION)),
        looks=looks,
        test=found.test,
        evaluated=evaluated(evidence.export, evidence.goal_metric, reported, report.checks),
        columns=columns,
        rows=rows,
        resolved=final.resolved,
        data=final.data,
        data_version=version_of(evidence.data_versions, final.data.fingerprint),
        final=final,
        overlay=flatten(overlay_of_run(evidence, final)),
        scope_changes=scope_changes(evidence),
        gain=evidence.improvement[0],
        gain_over_first=gain_over_first(evidence),
        replay=replayed(evidence, report),
        wall=_wall(evidence, final.id),
        tried=_tried(evidence),
        repeats=repeats_text(evidence),
        folds=folds_text(evidence, final.directory.specification().config, with_next=False),
        leaks=told_leaks(evidence),
        files={name: of for name, of in files.items() if not name.startswith(FOLDERS)},
        adapter=found.adapter,
        onnx=found.onnx,
        variants=variant_lines(evidence.export.evaluation, evidence.goal),
        skew=found.skew,
        unproven=found.unproven,
        programs=[(name, opened(name, served), parity) for name, parity in found.programs.items()],
        loaded=found.loaded,
        prediction=prediction,
        command=_command(prediction),
        lacking=[name for name in prediction.get("needs", "").split() if name in final.environment.overlay],
        environment=str(evidence.config.environment),
        is_raw=prediction.get("kind") not in {None, "array"} or final.data.source in OF_ARRAYS,
        served=served,
        checkable=checkable,
        signature_command=COMMAND,
        configurations=configurations_beside(evidence) if takes_best(evidence) else [],
        **looked_at_values(evidence, final, with_test=True),
        **slices_values(evidence.export),
        importance=_importance(evidence),
        chosen=chosen_of(evidence),
    )
    head = _head(evidence.export, final.data, label, evidence.name, prediction.get("widget", []))
    return f"---\n{head}\n---\n\n{text}"


def _wall(evidence: Evidence, final: str) -> str:
    """Return which wall the ledger has round the final run's worker, and round how many of the others none."""
    facts = evidence.facts
    walls = {run_id: latest.wall for run_id in facts.started if (latest := facts.attempt(run_id)) is not None}
    bare = sum("landlock" not in one for run_id, one in walls.items() if run_id != final)
    return told(walls[final]) + (f"; none round {bare} of the {len(walls) - 1} other runs" if bare else "")


def _importance(evidence: Evidence) -> dict[str, Any] | None:
    """Return the inputs with the largest effect, and the names of the others; None without any."""
    found = importance_of(evidence)
    if found is None or not found.columns:
        return None
    others = [one.column for one in found.columns[MAX_INPUTS:]]
    return {**found.model_dump(include={"score", "left_out"}), "rows_text": found.rows_text,
            "splits": found.splits if len(found.splits) > 1 else [], "alone": found.alone,
            "largest": found.columns[:MAX_INPUTS], "others": others[:MAX_ROWS]}  # fmt: skip


def reported_by_export(found: Export) -> Reported:
    """Return what the exporting process reported, by split."""
    splits = {"test": found.test.metrics, "validation": found.validation.metrics}
    return {split: dict(metrics) for split, metrics in splits.items() if metrics}


def _head(export: RunEvidence, data: Data, label: Callable[[str], str], name: str, widget: list[dict[str, Any]]) -> str:
    """Return the card's metadata for the Hub, as YAML: library, task, example, results, certified where they are."""
    from huggingface_hub import EvalResult, ModelCardData

    found = export.exported
    fingerprints = {"test": found.test.fingerprint, "validation": found.validation.fingerprint}
    kind = "text" if data.text else INPUTS.get(str(data.source))
    task = f"{kind}-{'classification' if data.class_names else 'regression'}"
    task = "time-series-forecasting" if data.understood.get("series") else task
    task = OF_SOURCES.get(str(data.source)) or (task if task in TASKS else "other")
    results = [
        EvalResult(
            task_type=task,
            dataset_type=str(data.source),
            dataset_name=name,
            dataset_split=split,
            dataset_args={"fingerprint": fingerprints[split]},
            metric_type=one_line(metric),
            metric_name=one_line(label(metric)) + ("" if metric in export.certified(split) else UNCERTIFIED),
            metric_value=value,
            metric_args=_known_by(certified_figure(export, split, metric)),
        )
        for split, metrics in best_known(export, reported_by_export(found)).items()
        for metric, value in metrics.items()
        if math.isfinite(value)
    ]
    card = ModelCardData(
        model_name=name,
        library_name="transformers" if found.library else "pytorch",
        pipeline_tag=None if task == "other" else task,
        tags=["trainwright", *(["onnx"] if found.onnx else [])],
        eval_results=results or None,
        widget=widget or None,
    )
    return str(card.to_yaml())


def _known_by(figure: dict[str, Any]) -> dict[str, Any] | None:
    """Return on how many rows, or other units, a figure is, and its interval, as the Hub's metadata have it."""
    if not figure:
        return None
    interval = {"interval_95": figure["interval"]} if "interval" in figure else {}
    return {figure.get("unit", "rows"): figure["rows"], **interval}


def replayed(evidence: Evidence, report: GateReport) -> str:
    """Describe the gate's comparison and its result, exemption included: it may have passed with other weights.

    And how often the final run was killed before: its weights are those of a run that never was.
    """
    found = [check for check in report.checks if check.id == "finalization.replay_identical"]
    text = "".join(f": {check.status.replace('_', ' ')}, {check.measured}" for check in found)
    times = evidence.final.status.attempt - 1 if evidence.final is not None else 0
    resumed = f"; the final run was interrupted {times} time{'s' * (times > 1)} and resumed" if times else ""
    return f"{evidence.replay.id}{text}{resumed}" if evidence.replay else "none"


def _command(prediction: dict[str, Any]) -> str:
    """Return the line that answers one input, short enough for the head; empty where there is no predict.py."""
    line = str(prediction["use"][-2]) if prediction else ""
    return line if len(line) <= MAX_CHARACTERS else use_of(prediction["kind"])


def _tried(evidence: Evidence) -> dict[str, Any]:
    """Return everything among which the configuration could be chosen by its validation values."""
    found, started = attempts(evidence), evidence.facts.started.values()
    return {
        "count": len(found),
        "attempts": found[-MAX_ROWS:],
        "last": MAX_ROWS if len(found) > MAX_ROWS else None,
        "configurations": configurations(evidence),
        "studies": studies_told(every_study(evidence)),
        "asked": "" if (asked := unmet_wish(evidence)) is None else asked.words,
        "trials": sum(start.kind == RunKind.TRIAL and start.study is not None for start in started),
        "ablations": len(ablation_studies(evidence)),
        "ideas": [one.told() for one in experiments_of(evidence)][-MAX_ROWS:],
        "experiments": len(experiments_of(evidence)),
        "ablated": sum(start.kind == RunKind.ABLATION and start.study is not None for start in started),
        "metric": evidence.goal_metric,
    }


# Section of the model card on alerts that the released run still shows, and what was tried against each.

NONE_TRIED = "nothing"
TOLD_APART = {"leaks", "label_errors"}
"""Families of findings in the data: in a section of their own, and an alert of the run."""


def open_warnings(evidence: Evidence, final: RunEvidence) -> list[dict[str, Any]]:
    """Return the warnings and critical alerts of the final run: id, value, rule, document and what was tried.

    Raises IntegrityError.
    """
    return [
        {
            "id": alert.id,
            "severity": alert.severity,
            "measured": "not finite" if alert.measured is None else f"{alert.measured:.4g}",
            "unit": alert.unit,
            "rule": _rule(alert),
            "document": alert.document,
            "tried": "; ".join(str(one) for one in cures.on_baseline(evidence, alert.id)) or NONE_TRIED,
        }
        for alert in diagnose(final.directory)
        if alert.severity != "info"
    ]


def data_warnings(evidence: Evidence) -> list[Verdict]:
    """Return planning's warnings on the data that no expectation settles, without those that are told elsewhere."""
    found = evidence.smoke.part(Validation).report.worst_first() if evidence.smoke is not None else []
    return [one for one in found if one.severity != "info" and one.family not in TOLD_APART]


def _rule(alert: Alert) -> str:
    """Return the condition of the document that raised an alert: `generalisation_gap above 0.15`."""
    triggers = [trigger for one in load_diagnostics() if one.id == alert.id for trigger in one.triggers]
    comparison = next((each.comparison for each in triggers if each.signal == alert.signal), "past")
    return f"{alert.signal} {comparison.replace('_', ' ')} {alert.threshold:g}"


# Lines of the model card on smaller variants of the program: size and figure beside the program's own.

NAMES = ("the program", "the variant")
WORDS = {BETTER: "it is worse", WORSE: "it is better", ALIKE: ALIKE}
"""Of a variant, by what the program is beside it."""


def variant_lines(evaluated: RunEvaluated | None, goal: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each variant; none where nothing was evaluated.

    Args:
        goal: {metric, direction}.
    """
    record = evaluated.splits.get("validation", {}) if evaluated is not None and not evaluated.problem else {}
    return [f"{file}: {_told(one, record, goal)}." for file, one in record.get("variants", {}).items()]


def _told(one: dict[str, Any], record: dict[str, Any], goal: Mapping[str, Any]) -> str:
    size = f"{one['share']:.2g} of the size ({one['bytes']:,} bytes)" if "share" in one else "not there"
    shared = [name for name in one.get("metrics", {}) if name in record["metrics"]]
    if not shared:
        return f"{size}; no figure: {str(one.get('problem', 'no metric is computed of it')).rstrip('.')}"
    metric = goal["metric"] if goal["metric"] in shared else shared[0]
    is_goals = metric == goal["metric"]
    is_minimized = goal["direction"] == "minimize" if is_goals else is_smaller_better(metric)
    shown = shown_by(one["paired"], metric, NAMES, is_minimized=is_minimized)
    ends = shown.interval
    between = f" (95 % interval of the difference {ends[0]:.3g} to {ends[1]:.3g})" if ends else ""
    singly = ", one row in a call, as its scales depend on the rows of a call" if one.get("batch") == 1 else ""
    return (
        f"{size}, {metric} {one['metrics'][metric]:.4g} against {record['metrics'][metric]:.4g} on the same "
        f"{one['rows']} validation rows{singly}: {shown.told(WORDS)}{between}"
    )
