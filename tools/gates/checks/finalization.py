"""Finalization: the final run, repeated identically, exported and checked, tested once."""

from __future__ import annotations

import math
from typing import Any

from trainwright.tools.answers import NextCall
from trainwright.tools.gates.bounds import baseline_value, beside_of, without_baseline
from trainwright.tools.gates.call_history import after_a_difference, compared, others_that_differed
from trainwright.tools.gates.checklist import CheckLine
from trainwright.tools.gates.checks.independent import LOOK_AT
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.finals import accepted_result, is_reused, overlay_of_run
from trainwright.tools.gates.outcomes import Outcome, check, failed, not_applicable, passed_if, passed_with_exemption
from trainwright.tools.gates.shown import MIN_EPISODES, certified_figure, is_beyond
from trainwright.tools.gates.since_release import no_better
from trainwright.tools.owner.grants import operations
from trainwright.trainer.checkpoints.index import list_checkpoints
from trainwright.trainer.run import RunKind
from trainwright.trainer.run.results import AdapterExport

MAX_NAMED = 3
WIDEST_CHANCE = 5.0
"""Times the share that a run may be worse by: half of a wider interval would excuse any difference."""
LONGER = "start_training(project={!r}, kind='final', template='production')"


@check("finalization.replay_identical")
def replay_identical(evidence: Evidence, line: CheckLine) -> Outcome:
    """A second training with the same configuration and seed gave the same weights, tensor by tensor."""
    required = f"a replay with identical weights; with an exempted operation within {line.threshold:.0%} of their norm"
    if evidence.final is None:
        return failed("no final run", required, evidence.start(RunKind.FINAL))
    why = "retrain and compare"
    if is_reused(evidence):
        why = f"the baseline is the final run: {why}; or train longer first: {LONGER.format(evidence.name)}"
    again = evidence.call("verify_reproducibility", why, run_id=evidence.final.id)
    if evidence.replay is None:
        return failed("no replay", required, again)
    if not evidence.replay.is_complete:
        return failed(f"replay is {evidence.replay.status.state.value}", required, evidence.replay.next_call())
    found = compared(evidence.final, evidence.replay)
    measured = found.measured
    if differed := others_that_differed(evidence):
        replays = "replay" if len(differed) == 1 else "replays"
        measured += f"; {len(differed)} other {replays} of it DIFFERED: {', '.join(differed[:MAX_NAMED])}"
    exempted = operations(evidence.grants)
    share = found.relative_difference
    is_near = share is not None and share <= (line.threshold or 0.0)
    if not found.is_identical and exempted and is_near and not evidence.replay.differences:
        return passed_with_exemption(f"{measured}; exempted by the owner: {', '.join(exempted)}", required)
    remedy = after_a_difference(evidence, evidence.final, evidence.replay)
    return passed_if(found.is_identical, measured, required, remedy)


@check("finalization.export_verified")
def export_verified(evidence: Evidence, line: CheckLine) -> Outcome:
    """The exported files hold the final run's best checkpoint, and ONNX gives the model's outputs."""
    required = "safetensors identical to the best checkpoint; programs within the configured tolerance"
    missing = _export_missing(evidence, required)
    if missing is not None:
        return missing
    assert evidence.export is not None  # noqa: S101 - shown by _export_missing
    assert evidence.final is not None  # noqa: S101 - shown by _export_missing
    if changed := evidence.served_changes(evidence.export):
        told = f"{', '.join(changed)} changed since the export, which ships {'it' if len(changed) == 1 else 'them'}"
        return failed(told, required, _export_again(evidence))
    found = evidence.export.exported
    best = {record.digest for record in list_checkpoints(evidence.final.directory) if "best" in record.tags}
    onnx = found.onnx
    is_same = found.checkpoint_digest in best and found.safetensors.reloaded_identical is True
    is_apart = any(not program.passed for program in (onnx, *found.programs.values()) if program is not None)
    is_whole = found.adapter is None or found.adapter.is_sound
    sound = is_same and is_whole and not is_apart and not evidence.export.differences
    parity = f"ONNX differs by {onnx.max_abs_difference:.1e} over {onnx.rows_compared} rows" if onnx else "no ONNX"
    adapter = [] if found.adapter is None else [_told(found.adapter)]
    others = [f"{name} by {program.max_abs_difference:.1e}" for name, program in found.programs.items()]
    measured = "; ".join([parity, *others, *adapter, *evidence.export.differences[:2]])
    return passed_if(sound, measured, required, _without_onnx(evidence) if is_apart else _export_again(evidence))


def _told(adapter: AdapterExport) -> str:
    """Return what was compared of an adapter, in a few words."""
    alone = f"{adapter.kind} adapter alone {'read back' if adapter.reloaded_identical else 'NOT read back'}"
    merged = adapter.merged
    if merged is None or merged.max_abs_difference is None:
        return alone
    return f"{alone}, merged differs by {merged.max_abs_difference:.1e} over {merged.rows_compared} rows"


@check("finalization.test_evaluated")
def test_evaluated(evidence: Evidence, line: CheckLine) -> Outcome:
    """The server's own evaluation gave the test metrics, on the split fixed in planning."""
    required = "test metrics on the test split of the planning gate"
    missing = _export_missing(evidence, required)
    if missing is not None:
        return missing
    assert evidence.export is not None  # noqa: S101 - shown by _export_missing
    found = evidence.export.exported.test
    planned = evidence.smoke.data.test if evidence.smoke is not None else None
    if not planned:
        return not_applicable("the data has no test split", required)
    metrics = ", ".join(f"{key} {value:.4f}" for key, value in evidence.export.tested_metrics().items())
    is_met = found.fingerprint == planned.fingerprint and bool(metrics)
    return passed_if(is_met, f"{metrics or 'none'} on {found.size} samples", required, _export_again(evidence))


@check("finalization.goal_reached")
def goal_reached(evidence: Evidence, line: CheckLine) -> Outcome:
    """Whether the final run reaches the goal is reported in the model card either way."""
    if evidence.final is None:
        return failed("no final run", evidence.goal_text, evidence.start(RunKind.FINAL))
    value = evidence.final_value(evidence.goal_metric)
    remedy = evidence.call("project_status", "the model card will say that the goal was not reached")
    tested = evidence.export.tested_metrics() if evidence.export else None
    suffix = f"; test {tested[evidence.goal_metric]:.6g}" if tested and evidence.goal_metric in tested else ""
    measured = f"validation {evidence.goal_metric} {'not measured' if value is None else f'{value:.6g}'}{suffix}"
    return passed_if(evidence.reaches_goal(value), measured, evidence.goal_text, remedy)


@check("finalization.drift_bounded")
def drift_bounded(evidence: Evidence, line: CheckLine) -> Outcome:
    """The final run reaches the accepted configuration's value, within the allowed drift (PIPE-3)."""
    metric, allowed = evidence.goal_metric, _allowed_drift(evidence, line)
    source, reference = accepted_result(evidence)
    required = f"worse than the {source} by at most {100 * allowed:g} %"
    if evidence.final is None or evidence.baseline is None:
        return failed("no final run to compare with a baseline", required, evidence.start(RunKind.FINAL))
    value = evidence.final_value(metric)
    if value is None or reference is None:
        return failed(f"{metric} was not recorded by both runs", required, evidence.start(RunKind.FINAL))
    found = drift(value, reference, str(evidence.project.goal["direction"]))
    measured = f"validation {metric} {value:.6g}, {source} {reference:.6g}: {_drifted(found)}"
    remedy = _after_drift(evidence, [evidence.baseline.id, evidence.final.id])
    if found > allowed and (figure := _other_episodes(evidence, reference)):
        needed = _episodes_needed(figure, allowed * abs(reference))
        if needed <= figure["rows"]:
            found, measured = 0.0, f"{measured}, within the interval of its episodes"
        else:
            measured += f"; {figure['of']} are too few to tell it from chance"
            remedy = _with_episodes(evidence, needed)
    gate = evidence.config.evaluation_gate
    if gate is None or gate.baseline is None or found > allowed:
        return passed_if(found <= allowed, measured, required, remedy)
    beside, text = _beside_baseline(evidence, gate.baseline, value)
    required += f", and than {gate.baseline} likewise"
    return passed_if(beside <= allowed, f"{measured}; {text}", required, _after_baseline(evidence, gate.baseline))


def _other_episodes(evidence: Evidence, reference: float) -> dict[str, Any]:
    """Return the final model's figure of episodes that a reference's are no better than; else an empty one."""
    runs = (evidence.export, evidence.final)
    figure = next((one for run in runs if (one := certified_figure(run, "validation", evidence.goal_metric))), {})
    if figure.get("unit") != "episodes" or is_beyond(evidence.goal, {"value": reference}, figure):
        return {}
    return figure if figure["rows"] < MIN_EPISODES or "interval" in figure else {}


def _episodes_needed(figure: dict[str, Any], allowed: float) -> int:
    """Return how many episodes narrow an interval until it cannot excuse any difference; it shrinks as their root."""
    low, high = figure.get("interval", (0.0, 0.0))
    times = (high - low) / 2 / (WIDEST_CHANCE * allowed) if allowed else 0.0
    return max(math.ceil(times**2 * int(figure["rows"])), MIN_EPISODES)


def _with_episodes(evidence: Evidence, count: int) -> NextCall:
    changes = [
        one if isinstance(one, str) else one.model_dump() | ({"episodes": count} if hasattr(one, "episodes") else {})
        for one in evidence.config.metrics
    ]
    why = "more episodes tell a worse model from other seeds; every gate anew"
    return evidence.call("configure", why, changes={"metrics": changes})


def _drifted(found: float) -> str:
    return f"{100 * abs(found):.2f} % {'worse' if found > 0 else 'better'}"


def _beside_baseline(evidence: Evidence, name: str, value: float) -> tuple[float, str]:
    """Return the drift from the baseline that the evaluation gate names (infinite: unknown), and it in words."""
    reference, record = baseline_value(evidence, evidence.goal_metric), beside_of(evidence)
    if reference is None:
        return math.inf, f"{name}: {record.get('problem') or 'no certified figure of it'}"
    found = drift(value, reference, str(evidence.project.goal["direction"]))
    where = "on the same rows" if record.get("same_rows") else f"on its own rows ({record.get('why')})"
    return found, f"{name} {reference:.6g} {where}: {_drifted(found)}"


def _after_baseline(evidence: Evidence, name: str) -> NextCall:
    """Name the call that shows what the baseline did otherwise: compare_runs, of one project."""
    record, gate = beside_of(evidence), evidence.config.evaluation_gate
    if gate is not None and record.get("problem"):
        why = f"nothing is known of {name}: without it (every gate anew), or with another one"
        return evidence.call("configure", why, changes=without_baseline(gate))
    why = f"what {name} did otherwise; then tune, or train longer. A looser evaluation_gate is every gate anew"
    if record.get("project") == evidence.name and evidence.final is not None:
        return NextCall(tool="compare_runs", arguments={"run_ids": [record["run_id"], evidence.final.id]}, why=why)
    return evidence.call("project_status", why)


def _allowed_drift(evidence: Evidence, line: CheckLine) -> float:
    """Return the project's bound where its configuration sets one, else the checklist's."""
    own = evidence.config.evaluation_gate.max_drift if evidence.config.evaluation_gate is not None else None
    return own if own is not None else line.threshold or 0.0


def _after_drift(evidence: Evidence, ids: list[str]) -> NextCall:
    """Name the call: drop an overlay; configure the chosen values; where they are configured, compare the runs."""
    if evidence.final is not None and overlay_of_run(evidence, evidence.final):
        why = "without the overlay, as the gates accepted it; or with another: changes={…}"
        return evidence.call("start_training", why, kind=RunKind.FINAL.value)
    chosen = evidence.confirmation.get("best_parameters")
    if chosen and evidence.final is not None and evidence.final.row.config_digest != evidence.config_digest:
        why = f"compare_runs(run_ids={ids}) shows what differs; every gate anew, with a baseline of what was chosen"
        return evidence.call("configure", why, changes=chosen)
    if len({*ids}) == 1:  # what drifted is the exported program, from the run that it is of
        return evidence.call("start_training", LOOK_AT, kind=RunKind.SMOKE.value)
    why = "one configuration and seed, two results: find what differs, machine and packages included"
    return NextCall(tool="compare_runs", arguments={"run_ids": ids}, why=why)


def drift(value: float, reference: float, direction: str) -> float:
    """Return by which share of the reference a value is worse than it; negative: better. NaN is infinitely worse."""
    worse_by = reference - value if direction == "maximize" else value - reference
    if math.isnan(worse_by):
        return math.inf
    if worse_by == 0:
        return 0.0
    return round(worse_by / abs(reference), 12) if reference else math.copysign(math.inf, worse_by)


def _export_missing(evidence: Evidence, required: str) -> Outcome | None:
    if evidence.final is None:
        return failed("no final run", required, evidence.start(RunKind.FINAL))
    if evidence.export is None:
        return failed("no export", required, _export_again(evidence))
    if not evidence.export.is_complete:
        state = evidence.export.status.state.value
        return failed(f"export is {state}", required, evidence.export.next_call())
    return None


def _without_onnx(evidence: Evidence) -> NextCall:
    """Name the change under which the weights are exported: the same export would differ again."""
    why = "the export alone is repeated; or fix what ONNX computes otherwise, which is every gate anew"
    return evidence.call("configure", why, changes={"deployment.formats": ["safetensors"]})


def _export_again(evidence: Evidence) -> NextCall:
    if evidence.export is None:
        doubt = no_better(evidence)
        why = f"{doubt}. Work on before it; or all the same: " if doubt else ""
        return evidence.call("export_model", f"{why}export the best checkpoint and evaluate the test split")
    why = "export the best checkpoint and evaluate the test split: another look at it, which every report will tell"
    return evidence.call("export_model", why)
