"""Bounds that a project sets beside its goal (PIPE-3): fixed at planning, evaluated at finalization."""

from __future__ import annotations

from trainwright.tools.answers import NextCall
from trainwright.tools.evaluation.slices import slice_orders
from trainwright.tools.gates.bounds import OF_TARGET, TEST, Bound, bounds_of, without_baseline
from trainwright.tools.gates.checklist import CheckLine
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.exits import is_accepted
from trainwright.tools.gates.offers import floor_of
from trainwright.tools.gates.outcomes import (
    Outcome,
    check,
    failed,
    not_applicable,
    passed,
    passed_if,
    passed_with_exemption,
)
from trainwright.tools.gates.run_evidence import RunEvidence
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.clean_room.names import WORST
from trainwright.trainer.run import RunKind
from trainwright.trainer.run.artifacts import FixedRows

MAX_NAMED = 6


@check("planning.bounds_measured")
def bounds_measured(evidence: Evidence, line: CheckLine) -> Outcome:
    """The bounded metrics are computed, and slices and baseline are there, so that the last gate can evaluate them."""
    gate = evidence.config.evaluation_gate
    names = sorted({name.removeprefix(TEST) for name in gate.metrics()}) if gate is not None else []
    if gate is None or not (names or gate.baseline or gate.groups):
        return not_applicable("the configuration bounds no metric", line.text)
    if evidence.smoke is None:
        return failed("no smoke run of this configuration", line.text, evidence.start(RunKind.SMOKE))
    if not evidence.smoke.is_complete:  # what it would have computed is not known
        return failed("no completed smoke run", line.text, evidence.smoke.next_call())
    problems = evidence.smoke.summary.problems
    computed = evidence.smoke.summary.best_metrics.keys() - problems.keys()
    each = evidence.smoke.data.target_names or []
    of_targets = {f"{name.removeprefix(WORST)}{OF_TARGET}{one}" for name in computed for one in each}
    missing = [name for name in names if name not in computed | of_targets]
    named = ", ".join(f"{name} ({problems[name]})" if name in problems else name for name in missing)
    if problem := _slices_problem(evidence, evidence.smoke) or _baseline_problem(evidence):
        return failed(problem[0], line.text, evidence.call("configure", problem[1], changes=problem[2]))
    parts = [f"computed: {', '.join(names)}"] if names else []
    parts += [f"beside {gate.baseline}"] if gate.baseline else []
    parts += [f"told for each {', '.join(gate.groups)}"] if gate.groups else []
    measured = f"not computed: {named}" if missing else "; ".join(parts)
    given = {"minimum": gate.minimum, "maximum": gate.maximum, "least_gain": gate.least_gain}
    unmeasured = [(side, name) for side, own in given.items() for name in own if name.removeprefix(TEST) in missing]
    changes = {f"evaluation_gate.{side}.{name}": None for side, name in unmeasured}  # null removes
    others = ", ".join(sorted(computed) + ["each of one target: " + ", ".join(sorted(of_targets))] * bool(of_targets))
    why = f"bound what is computed ({others}), or add the metric to `metrics`"
    return passed_if(not missing, measured, line.text, evidence.call("configure", why, changes=changes))


def _slices_problem(evidence: Evidence, smoke: RunEvidence) -> tuple[str, str, dict[str, None]] | None:
    """Return why slices cannot be evaluated, the remedy, and the keys to remove; None where they can."""
    gate = evidence.config.evaluation_gate
    if gate is None or not (gate.slices or gate.groups or any(OF_TARGET in name for name in gate.metrics())):
        return None
    without: dict[str, None] = {"evaluation_gate.slices": None, "evaluation_gate.groups": None}
    rows = smoke.part(FixedRows)
    if not rows or rows.problem:
        what = f"slices and single targets need rows that planning fixed: {rows.problem or 'none'}"
        return what, rows.remedy or "remove them", without
    try:
        slice_orders(evidence.config, smoke.data)
    except ConfigurationError as error:
        return error.message, error.remedy, without
    return None


def _baseline_problem(evidence: Evidence) -> tuple[str, str, dict[str, None]] | None:
    found, gate = evidence.named_baseline, evidence.config.evaluation_gate
    if gate is None or not found.get("problem"):
        return None
    why = "name another: a completed baseline, final or export run, or a registered model; or, so, none"
    return f"baseline {gate.baseline}: {found['problem']}", why, without_baseline(gate)


@check("finalization.bounds_kept")
def bounds_kept(evidence: Evidence, line: CheckLine) -> Outcome:
    """The final model keeps the project's bounds, on all rows and in each slice, or the owner accepts its values."""
    gate = evidence.config.evaluation_gate
    if gate is None or not gate.metrics():
        return not_applicable("the configuration bounds no metric", line.text)
    if evidence.final is None:
        return failed("no final run", line.text, evidence.start(RunKind.FINAL))
    if evidence.export is None or not evidence.export.is_complete:
        why = "the bounds are evaluated on the exported model"
        return failed("no export", line.text, evidence.call("export_model", why))
    bounds = bounds_of(evidence)
    broken = [bound.name for bound in bounds if not bound.holds]
    counting = [bound for bound in bounds if bound.counts]
    required, measured = _named(counting, "{0.name} {0.sign} {0.bound:g}"), _named(counting, "{0.name} {0.shown}")
    if few := [bound for bound in bounds if not bound.counts]:
        measured += f"; not judged, of fewer than {gate.least_group_rows} rows: {_named(few, '{0.name} {0.shown}')}"
    if not broken:
        return passed(measured, required)
    reached = evidence.final_value(evidence.goal_metric)
    if is_accepted(evidence, reached):
        return passed_with_exemption(f"{measured}; accepted by the owner below {', '.join(broken)}", required)
    return failed(measured, required, _ask(evidence, reached, broken))


def _named(bounds: list[Bound], form: str) -> str:
    """Return the bounds in words, the broken ones first."""
    listed = sorted(bounds, key=lambda bound: bound.holds)
    more = f" and {len(listed) - MAX_NAMED} more" if len(listed) > MAX_NAMED else ""
    return ", ".join(form.format(bound) for bound in listed[:MAX_NAMED]) + more


def _ask(evidence: Evidence, reached: float | None, broken: list[str]) -> NextCall:
    """Name the request of the owner, of the value on the split whose bounds are broken."""
    split = "validation"
    if evidence.export is not None and any(TEST in name for name in broken):
        split, reached = "test", evidence.export.tested_metrics().get(evidence.goal_metric, reached)
    longer = f"train longer: start_training(project={evidence.name!r}, kind='final', template='production')"
    if reached is None:
        return evidence.call("project_status", f"the goal's metric was not measured; {longer}")
    why = f"only the owner may accept the {split} {evidence.goal_metric}, below its bounds; or {longer}"
    return evidence.call("configure", why, ask_owner={"accept": floor_of(evidence, reached)})
