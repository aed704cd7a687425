"""Facts about the run that a diagnosis reads, beside those of its project (`gates/decision.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainwright.tools.alerts import is_settled
from trainwright.tools.answers import NextCall
from trainwright.tools.gates.cures import cure
from trainwright.tools.gates.decision import About, Option
from trainwright.tools.gates.next_call import option_of
from trainwright.tools.gates.phase_status import phase_status_of
from trainwright.tools.gates.phases import PERMITTED
from trainwright.tools.gates.searches import studies_under_way
from trainwright.tools.gates.trying import options_against
from trainwright.tools.projects.trial_view import waiting_call
from trainwright.trainer.run import RunKind, RunState

if TYPE_CHECKING:
    from trainwright.tools.gates.evidence import Evidence
    from trainwright.tools.gates.run_evidence import RunEvidence
    from trainwright.tools.training_monitor.glance import Glance

CURED = frozenset({RunKind.SMOKE, RunKind.PROBE, RunKind.BASELINE})
"""Kinds of runs that show what the configuration does; the others repeat, vary or end the work on purpose."""


def about_run(evidence: Evidence, run: RunEvidence, seen: Glance) -> About:
    """Return what there is to do about a run: nothing where it meets the goal, or its configuration is another now."""
    state, own = run.status.state, {"project": evidence.name, "run_id": run.id}
    has_learned = state.is_ended and seen.assessment.goal_met is True
    open_now = [one for one in seen.assessment.alerts if one.severity != "info"]
    alerts = [one.model_dump(mode="json") for one in open_now if not is_settled(one, has_learned=has_learned)]
    waiting = waiting_call(evidence, run)
    if run.row.kind == RunKind.CURE:
        source = {"project": evidence.name, "run_id": run.row.source_run}
        waiting = NextCall(tool="diagnose_run", arguments=source, why="it tries a fix of that run")
    found = About(tried=waiting and Option(call=waiting))
    if not state.is_ended:
        why = f"{alerts[0]['id']}: what it trains from here on is lost" if alerts else "it has failed"
        stop = Option(call=NextCall(tool="stop_training", arguments=own, why=why))
        return found.model_copy(update={"lost": stop}) if seen.verdict == "stop" else found
    if state is RunState.INTERRUPTED and seen.verdict != "stop":
        return found.model_copy(update={"broken": option_of(evidence, run.next_call())})
    if seen.assessment.recommendation == "deploy" or not _is_curable(evidence, run):
        return found
    cures = options_against(evidence, run, alerts)
    if alerts and alerts[0]["severity"] == "critical":  # no key is left: the owner, or the code's author
        cures.append(option_of(evidence, cure(evidence, alerts[0])))
    return found.model_copy(update={"cures": cures})


def _is_curable(evidence: Evidence, run: RunEvidence) -> bool:
    is_present = evidence.has_valid_config and run.row.config_digest in evidence.config_digests
    where = phase_status_of(evidence)
    may_try = not where.is_finished and RunKind.CURE in PERMITTED[where.phase]
    return is_present and run.row.kind in CURED and may_try and not studies_under_way(evidence)
