"""Permits: the only way to a launch. A permit says which decisions allow the run."""

from __future__ import annotations

import time
from typing import Any

from trainwright.tools.gates.carry_over import may_be_carried
from trainwright.tools.gates.decide import evaluate
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.next_call import opening
from trainwright.tools.gates.phase_status import PhaseStatus, accepted_decisions, phase_status_of
from trainwright.tools.gates.phases import PERMITTED, Phase, phase_that_permits
from trainwright.tools.gates.planned_code import parts_of
from trainwright.tools.gates.records import RunRecords
from trainwright.tools.gates.releases import witnesses
from trainwright.tools.gates.searches import proposed_search, reopening_call
from trainwright.tools.workspace.records import latest_config
from trainwright.trainer.base.errors import GateRefusedError
from trainwright.trainer.config import TrainingConfig
from trainwright.trainer.run import RunKind
from trainwright.trainer.run.environment import digest_of_versions
from trainwright.trainer.run.validation import Validation


def permit(evidence: Evidence, kind: RunKind, *, is_short: bool = False) -> dict[str, Any]:
    """Return the permit for a run of this kind, as it is written into `run.json`.

    Args:
        is_short: of a replay, that it repeats the beginning alone: it may show that a stale plan is still valid.

    Raises:
        GateRefusedError: the present phase does not permit this kind; says which checks are missing.
    """
    where, name = phase_status_of(evidence), evidence.name
    looks = kind in {RunKind.FINAL, RunKind.EXPORT}
    if where.is_finished and (looks or kind not in PERMITTED[where.phase]):
        why = "look at the test split again" if looks else "belong to an earlier phase"
        asked = {"changes": {"search": proposed_search(evidence)}} if kind is RunKind.TRIAL else {}
        call = evidence.call("configure", "begins the next release", **asked, begin_release=True)
        raise GateRefusedError(
            f"All gates of {name} have passed ({where.release}); a further {kind.value} run would {why}.",
            remedy=f"Use final_model/, or work on: {call} begins the next release.",
            document="phases/05_finalization/workflow.md",
            details={"next": call.model_dump(mode="json")},
        )
    carries = is_short and may_be_carried(evidence, where)
    if kind not in PERMITTED[where.phase] and not carries:
        raise _refusal(evidence, where, kind)
    decisions = accepted_decisions(evidence)
    rests_on = {
        phase.value: sequence for phase, (sequence, _) in decisions.items() if phase.number < where.phase.number
    }
    allowed = {"phase": where.phase.value, "kind": kind.value, "decisions": rests_on, "time": time.time()}
    return allowed | ({"is_short": True} if is_short else {})


def base_values(evidence: Evidence, kind: RunKind) -> dict[str, Any]:
    """Return the configuration that a run of this kind starts from: for `final`, the optimization gate's choice."""
    if kind is RunKind.FINAL and evidence.final_values is not None:
        return evidence.final_values
    return dict(latest_config(evidence.session, evidence.name).values)


def expected_digests(evidence: Evidence) -> dict[str, str]:
    """Return the digests that planning fixed (`data`, `code`, `environment`); empty before the gate has passed."""
    rested_on = _planning(evidence)
    fixed = {name: rested_on[name] for name in ("data", "code", "environment") if rested_on.get(name)}
    smoke = _witness(evidence, rested_on)
    if smoke is not None and (meaning := smoke.code.meaning):
        fixed["code"] = meaning
    if smoke is not None and smoke.imported:
        fixed["environment"] = digest_of_versions(smoke.environment.packages, smoke.imported)
    return fixed


def planned_code(evidence: Evidence, config: TrainingConfig) -> dict[str, list[str]]:
    """Return meaning and digest of each file that planning fixed, for a run that names other parts than the project."""
    smoke = _witness(evidence, _planning(evidence))
    if smoke is None or parts_of(config) == parts_of(evidence.config):
        return {}
    return {name: sorted(forms) for name, forms in smoke.code.forms().items()}


def expected_packages(evidence: Evidence) -> list[str]:
    """Return the packages whose versions planning fixed: those that its smoke run imported; empty: all."""
    smoke = _witness(evidence, _planning(evidence))
    return smoke.imported if smoke is not None else []


def validated_by(evidence: Evidence) -> str | None:
    """Return the smoke run that validated the data which planning fixed; None before."""
    smoke = evidence.run(_planning(evidence).get("smoke_run", ""))
    return smoke.id if smoke is not None and smoke.part(Validation).report.checks else None


def data_of(evidence: Evidence) -> str | None:
    """Return planning's smoke run, which fetched the data that come from elsewhere; None before the gate has passed."""
    return _planning(evidence).get("smoke_run")


def _witness(evidence: Evidence, rested_on: dict[str, Any]) -> RunRecords | None:
    """Return the run with the digests that planning fixes: its smoke run, or the newest replay that carried it over."""
    smoke = evidence.run(rested_on.get("smoke_run", ""))
    return None if smoke is None else witnesses(evidence, smoke)[-1]


def settled_returns(evidence: Evidence) -> str | None:
    """Return how the smoke run found the model's output to be read; None before the planning gate."""
    smoke = evidence.run(_planning(evidence).get("smoke_run", ""))
    return smoke.resolved.returns if smoke else None


def _planning(evidence: Evidence) -> dict[str, Any]:
    decision = accepted_decisions(evidence).get(Phase.PLANNING)
    return dict(decision[1]["rested_on"]) if decision else {}


def _refusal(evidence: Evidence, where: PhaseStatus, kind: RunKind) -> GateRefusedError:
    report = evaluate(evidence, where.phase)
    needed, now = phase_that_permits(kind), where.phase.value
    missing = "; ".join(f"{result.id}: {result.measured}" for result in report.blocking[:4])
    mending = opening(evidence, where.phase, report.blocking) if report.blocking else None
    call = mending or evidence.call("pass_gate", "every check passes", phase=where.phase.value)
    if kind is RunKind.TRIAL and where.gate(Phase.OPTIMIZATION).status == "skipped" and evidence.export is None:
        call = reopening_call(evidence)
    return GateRefusedError(
        f"A run of kind {kind.value} needs the {needed.value} phase; the project is in {now}.{where.stale_text}"
        + (f" Not yet passed: {missing}." if missing else f" The {now} gate has not been passed yet."),
        remedy=str(call),
        document=where.phase.document,
        details={
            "phase": where.phase.value,
            "checks": [result.model_dump(mode="json") for result in report.blocking],
            "next": call.model_dump(mode="json"),
        },
    )
