"""The model card: what the model is, how well it does, how it was made, and what is not known about it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from trainwright.tools.gates import cures
from trainwright.tools.gates.attempts import attempts, configurations
from trainwright.tools.gates.exits import reached, verdict
from trainwright.tools.gates.finals import overlay_of_run
from trainwright.tools.gates.phases import Phase
from trainwright.tools.reports.markdown import checks_section, metric_label, table, written_at
from trainwright.tools.reports.reference import reference_line
from trainwright.trainer.config import flatten
from trainwright.trainer.run import RunKind

if TYPE_CHECKING:
    from pathlib import Path

    from trainwright.tools.gates.decide import GateReport
    from trainwright.tools.gates.evidence import Evidence
    from trainwright.tools.gates.test_set_access import Look

MOST_ROWS = 30
ONNX_NUMBERS = {"float": "float32", "double": "float64"}
"""The file's names of types to NumPy's, where they differ."""


def model_card(evidence: Evidence, report: GateReport, looks: list[Look], files: dict[str, tuple[int, str]]) -> str:
    """Return the card as Markdown, numbers from the export's own evaluation.

    Args:
        looks: every evaluation of the test split.
        files: (bytes, digest) of the files beside the card.
    """
    assert evidence.export is not None  # noqa: S101 - the gate's checks have shown it
    assert evidence.final is not None  # noqa: S101 - the gate's checks have shown it
    found = evidence.export.exported.as_dict()
    resolved = evidence.final.resolved.as_dict()
    parts = [
        f"# {evidence.name}",
        f"**{verdict(evidence, Phase.FINALIZATION)}.**",
        *_open_alerts(evidence),
        written_at(),
        _quoted(evidence.project.intent or "No intent was given."),
        *filter(None, [reference_line(evidence, reached(evidence, Phase.FINALIZATION))]),
        _results(found, looks, resolved),
        _origin(evidence, report),
        _tried(evidence),
        _use(evidence, found, files),
        _limits(evidence),
        checks_section(evidence, report),
    ]
    return "\n\n".join(parts) + "\n"


def _open_alerts(evidence: Evidence) -> list[str]:
    """Say which critical alerts are open by the owner's word; nothing where there is none."""
    accepted = cures.accepted_open(evidence)
    return [f"**Open alert, accepted by the owner: {', '.join(accepted)}.**"] if accepted else []


def _quoted(text: str) -> str:
    """Quote what the agent wrote, so that none of it reads as a line of the card."""
    return "\n".join(f"> {line}".rstrip() for line in text.splitlines())


def _results(found: dict[str, Any], looks: list[Look], resolved: dict[str, Any]) -> str:
    test, validation = (found.get("test") or {}), (found.get("validation") or {})
    metrics = {**validation.get("metrics", {}), **test.get("metrics", {})}
    rows = [
        (metric_label(name, resolved), test.get("metrics", {}).get(name), validation.get("metrics", {}).get(name))
        for name in metrics
    ]
    return "\n\n".join(
        [
            f"## Results\n\n{_looked(looks, int(test.get('size') or 0))}",
            table(("metric", "test", "validation"), rows),
        ]
    )


def _looked(looks: list[Look], size: int) -> str:
    """Say how often the test split was evaluated, and by what."""
    if not looks:
        return "The data has no test split: every number is from samples that choices were made on."
    if len(looks) == 1:
        return f"The test split ({size} samples) was looked at once, by {looks[0].run}."
    named = ", ".join(map(_named, looks))
    return (
        f"The test split ({size} samples) was **looked at {len(looks)} times**: {named}. What was changed after the "
        "first look may have been chosen by it: the number leans high."
    )


def _named(look: Look) -> str:
    part = f", {look.shared} of its samples" if look.shared is not None else ""
    return f"{look.run} (exports {look.of}, project {look.project}{part})"


def _origin(evidence: Evidence, report: GateReport) -> str:
    final = evidence.final
    assert final is not None  # noqa: S101 - shown by the caller
    data, resolved = final.data.as_dict(), final.resolved.as_dict()
    confirmation, _ = evidence.improvement
    overlay = overlay_of_run(evidence, final)
    gain = (
        f"{confirmation['improvement_mean']:+.4f} "
        f"[{confirmation['improvement_low']:+.4f}, {confirmation['improvement_high']:+.4f}]"
        if confirmation.get("validated")
        else "none claimed"
    )
    confidence = f" ({100 * confirmation['confidence']:.4g} % interval over seeds)" if confirmation else ""
    rows = [
        ("model", f"{resolved.get('model_class')}, {resolved.get('parameters')} parameters"),
        ("data", f"{data.get('source')}, fingerprint {data.get('fingerprint')}"),
        ("final run", f"{final.id}, seed {final.row.seed}"),
        *([("laid over the accepted configuration", _listed(overlay))] if overlay else []),
        (f"improvement over the baseline{confidence}", gain),
        ("replay", _replayed(evidence, report)),
        ("weights digest", final.summary.weights_digest),
        ("training time", f"{final.summary.train_seconds:.1f} s"),
    ]
    return "## How it was made\n\n" + table(("what", "value"), rows)


def _listed(overlay: dict[str, Any]) -> str:
    return ", ".join(f"{key} = {value}" for key, value in flatten(overlay).items())


def _replayed(evidence: Evidence, report: GateReport) -> str:
    """Say what the gate compared and found, exemption included: it may have passed with other weights."""
    found = [check for check in report.checks if check.id == "finalization.replay_identical"]
    told = "".join(f": {check.status.replace('_', ' ')}, {check.measured}" for check in found)
    return f"{evidence.replay.id}{told}" if evidence.replay else "none"


def _tried(evidence: Evidence) -> str:
    """Return everything among which the configuration could be chosen by its validation values."""
    found, studies = attempts(evidence), {body["study_id"] for _, body in evidence.entries("study")}
    trials = sum(start.kind == RunKind.TRIAL and start.study is not None for start in evidence.facts.started.values())
    rows = [(each.run, each.kind, each.configuration, each.seed, each.value, each.state) for each in found[-MOST_ROWS:]]
    counted = [
        f"{configurations(evidence)} configurations", f"{len(found)} baselines, ablations and final runs",
        f"{len(studies)} studies with {trials} runs of trials",
    ]  # fmt: skip
    head = ("run", "kind", "configuration", "seed", f"validation {evidence.goal_metric}", "state")
    omitted = f" The last {MOST_ROWS} of them:" if len(found) > MOST_ROWS else ""
    return f"## What was tried\n\n{', '.join(counted)}.{omitted}\n\n{table(head, rows)}"


def _use(evidence: Evidence, found: dict[str, Any], files: dict[str, tuple[int, str]]) -> str:
    rows = [(name, *file) for name, file in files.items()]
    parts = ["## Files and use", table(("file", "bytes", "digest"), rows)]
    if found.get("onnx"):
        parts.append(_onnx_use(evidence, found["onnx"]))
    return "\n\n".join(parts)


def _onnx_use(evidence: Evidence, onnx: dict[str, Any]) -> str:
    record = json.loads((_served(evidence) / "resolved.json").read_text(encoding="utf-8"))
    inputs, shapes = onnx.get("inputs") or {}, onnx.get("shapes") or {}
    lines = [f"Input {_signature(name, kind, shapes)}." for name, kind in inputs.items()]
    lines += [f"Output `{name}`: shape {_shape(shapes[name])}." for name in shapes if name not in inputs]
    if record.get("target_scaling"):
        lines.append("The output is in the target's own units: its scaling is inside model.onnx.")
    if record.get("feature_names"):
        lines.append(f"Columns, in this order: {', '.join(record['feature_names'])}.")
    if record.get("onnx_includes_preprocessing"):
        is_image = evidence.final is not None and evidence.final.data.as_dict().get("source") == "images"
        given = "pixels divided by 255, channels first" if is_image else "raw values"
        lines.append(f"Give {given}: standardisation is inside model.onnx (for model.safetensors see resolved.json).")
    if record.get("class_names"):
        lines.append(f"Outputs, one score a class: {', '.join(record['class_names'])}.")
    code = (
        "```python\nimport onnxruntime\n\n"
        'session = onnxruntime.InferenceSession("model.onnx")\n'
        f"output = session.run(None, {{{', '.join(f'{json.dumps(name)}: {name}' for name in inputs)}}})[0]\n```"
    )
    return "\n\n".join(["\n".join(lines), code])


def _signature(name: str, kind: str, shapes: dict[str, list[Any]]) -> str:
    """Return an input as the exported file has it: name, type of number, shape."""
    number = kind.removeprefix("tensor(").removesuffix(")")
    shape = f", shape {_shape(shapes[name])}" if name in shapes else ""
    return f"`{name}`: {ONNX_NUMBERS.get(number, number)}{shape}"


def _shape(shape: list[Any]) -> str:
    return f"({', '.join(map(str, shape))})"


def _served(evidence: Evidence) -> Path:
    assert evidence.export is not None  # noqa: S101 - shown by the caller
    return evidence.export.directory.artifacts / "final_model"


def _limits(evidence: Evidence) -> str:
    lines = [
        "## What is not known",
        "- Performance on data drawn differently from the recorded splits was not measured.",
        "- Fairness across groups was not measured.",
        "- The best of several attempts was chosen on the validation split, so validation numbers lean high."
        if evidence.study or len(attempts(evidence)) > 1
        else "- Early stopping and the best checkpoint were chosen on the validation split, so its numbers lean high.",
    ]
    return "\n".join([lines[0], "", *lines[1:]])
