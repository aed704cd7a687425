"""Bounds that a project sets beside its goal (PIPE-3): fixed at planning, evaluated at finalization."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainwright.tools.gates.exits import is_accepted
from trainwright.tools.gates.outcomes import (
    Outcome,
    check,
    failed,
    not_applicable,
    passed,
    passed_if,
    passed_with_exemption,
)
from trainwright.tools.gates.searches import floor_of
from trainwright.trainer.run import RunKind

if TYPE_CHECKING:
    from trainwright.tools.answers import NextCall
    from trainwright.tools.gates.checklist import CheckLine
    from trainwright.tools.gates.evidence import Evidence

TEST = "test/"


@check("planning.bounds_measured")
def bounds_measured(evidence: Evidence, line: CheckLine) -> Outcome:
    """The bounded metrics are computed, so that the last gate can evaluate them."""
    names = sorted({name.removeprefix(TEST) for name, _, _ in _bounds(evidence)})
    if not names:
        return not_applicable("the configuration bounds no metric", line.text)
    if evidence.smoke is None:
        return failed("no smoke run of this configuration", line.text, evidence.start(RunKind.SMOKE))
    computed = evidence.smoke.summary.best_metrics
    missing = [name for name in names if name not in computed]
    measured = f"not computed: {', '.join(missing)}" if missing else f"computed: {', '.join(names)}"
    bounds = evidence.config.evaluation_gate
    sides = {"minimum": bounds.minimum, "maximum": bounds.maximum} if bounds is not None else {}
    unmeasured = [(side, name) for side, given in sides.items() for name in given if name.removeprefix(TEST) in missing]
    changes = {f"evaluation_gate.{side}.{name}": None for side, name in unmeasured}  # null removes
    why = f"bound what is computed ({', '.join(sorted(computed))}), or add the metric to `metrics`"
    return passed_if(not missing, measured, line.text, evidence.call("configure", why, changes=changes))


@check("finalization.bounds_kept")
def bounds_kept(evidence: Evidence, line: CheckLine) -> Outcome:
    """The final model keeps the project's bounds, or the owner accepts its values."""
    bounds = _bounds(evidence)
    required = ", ".join(f"{name} {sign} {bound:g}" for name, sign, bound in bounds)
    if not bounds:
        return not_applicable("the configuration bounds no metric", line.text)
    if evidence.final is None:
        return failed("no final run", required, evidence.start(RunKind.FINAL))
    if evidence.export is None or not evidence.export.is_complete:
        why = "the bounds are evaluated on the exported model"
        return failed("no export", required, evidence.call("export_model", why))
    values = {name: _value(evidence, name) for name, _, _ in bounds}
    broken = [name for name, sign, bound in bounds if not _holds(values[name], sign, bound)]
    measured = ", ".join(f"{name} {'not measured' if v is None else f'{v:.6g}'}" for name, v in values.items())
    if not broken:
        return passed(measured, required)
    reached = evidence.final_value(evidence.goal_metric)
    if is_accepted(evidence, reached):
        return passed_with_exemption(f"{measured}; accepted by the owner below {', '.join(broken)}", required)
    return failed(measured, required, _ask(evidence, reached))


def _ask(evidence: Evidence, reached: float | None) -> NextCall:
    longer = f"train longer: start_training(project={evidence.name!r}, kind='final', template='production')"
    if reached is None:
        return evidence.call("project_status", f"the goal's metric was not measured; {longer}")
    why = f"only the owner may accept less than the project's own bounds; or {longer}"
    return evidence.call("configure", why, ask_owner={"accept": floor_of(evidence, reached)})


def _bounds(evidence: Evidence) -> list[tuple[str, str, float]]:
    """Return (metric, sign, bound) of the configuration's evaluation gate."""
    section = evidence.config.evaluation_gate
    if section is None:
        return []
    least = [(name, ">=", bound) for name, bound in section.minimum.items()]
    return least + [(name, "<=", bound) for name, bound in section.maximum.items()]


def _holds(value: float | None, sign: str, bound: float) -> bool:
    return value is not None and (value >= bound if sign == ">=" else value <= bound)


def _value(evidence: Evidence, name: str) -> float | None:
    """Return a metric of the final model on validation; with `test/` before it, of the export's test-set access."""
    if not name.startswith(TEST):
        return evidence.final_value(name)
    tested = evidence.export.tested_metrics() if evidence.export is not None else {}
    return tested.get(name.removeprefix(TEST))
