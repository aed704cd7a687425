"""Every change of a goal beside what stood before it: it is raised, or no result counted yet."""

from __future__ import annotations

from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.results import first_result
from trainwright.tools.ledger.events import GoalChanged
from trainwright.tools.verification.findings import Case, Found, found
from trainwright.trainer.config.goal import is_raised


def verify_goals(case: Case) -> Found:
    """Compare every change of a goal with the goal and the runs before it."""
    changes, problems = case.of(GoalChanged.name), []
    for entry, body in changes:
        past = Evidence(
            case.session, case.workspace, str(entry.project), before=entry.sequence, inspection=case.inspection
        )
        what = f"project {past.name}: change of the goal (ledger {entry.sequence})"
        if body.get("before") != past.goal:
            problems.append(f"{what}: the goal before it is recorded as {body.get('before')}, and was {past.goal}")
        elif not is_raised(past.goal, body["goal"]) and (result := first_result(past)) is not None:
            problems.append(f"{what}: it eases the goal, and {result} was a result")
    return len(changes), found("ledger", problems)
