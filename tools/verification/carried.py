"""Evidence that was carried over, derived again from the replays that are said to show it."""

from __future__ import annotations

from trainwright.tools.gates.carrying import shortcomings
from trainwright.tools.gates.historical import PastEvidence
from trainwright.tools.gates.releases import CARRIED
from trainwright.tools.verification.findings import Case, Found, found


def verify_carried(case: Case) -> Found:
    """Compare the first steps of every such replay with its source's again."""
    carried = case.of(CARRIED)
    problems = []
    for entry, body in carried:
        past = PastEvidence(case.session, case.workspace, entry, {"phase": ""}, case.inspection)
        smoke, source, replay = (past.run(str(body.get(name))) for name in ("smoke_run", "source", "replay"))
        if smoke is None or source is None or replay is None:
            told = ["a run that it names is gone"]
        else:
            told = shortcomings(past, smoke, source, replay)
        problems += [f"ledger entry {entry.sequence}: the replay does not carry the plan over: {one}" for one in told]
    return len(carried), found("verdict", problems)
