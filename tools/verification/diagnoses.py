"""Every diagnosis, derived again from its sealed run and compared with the ledger."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import trainwright
from trainwright.tools.gates.beside_rivals import beside_rivals
from trainwright.tools.ledger.seals import changed_files
from trainwright.tools.training_monitor import Goal, assess, diagnostics_digests
from trainwright.tools.training_monitor.outdone import Shown
from trainwright.tools.verification.findings import Case, Finding, Found, Where
from trainwright.tools.verification.signatures import is_signed
from trainwright.tools.workspace.tables import LedgerEntry
from trainwright.trainer.base.canonical import canonical_json
from trainwright.trainer.base.errors import TrainwrightError
from trainwright.trainer.base.text import cut
from trainwright.trainer.run import RunDirectory

BY_OTHER_RUNS = "keys_without_effect"
"""A signal that depends on which other runs had ended; its alert is a warning, on which no verdict depends."""
_short = partial(cut, longest=160)


def verify_diagnoses(case: Case) -> Found:
    """Read the curves of every diagnosed run again, under the present diagnostic documents."""
    recorded = case.of("diagnosis")
    findings: list[Finding] = []
    for entry, body in recorded:
        diagnosis = _Diagnosis(case, entry, body)
        try:
            findings += diagnosis.findings()
        except (TrainwrightError, LookupError, ValueError, TypeError, AttributeError) as error:
            findings.append(diagnosis.finding(f"it cannot be derived again: {error}"))
    return len(recorded), findings


class _Diagnosis:
    """One diagnosis beside its derivation. As with verdicts, another version explains a difference only where the
    entry's signature vouches for it."""

    def __init__(self, case: Case, entry: LedgerEntry, body: dict[str, Any]) -> None:
        self.case, self.entry, self.body = case, entry, body
        self.version = body.get("version")
        self.explained = self.version != trainwright.__version__ and is_signed(entry, case.public)

    def findings(self) -> list[Finding]:
        """Return every difference between record and derivation."""
        project, run_id = str(self.entry.project), self.body["run_id"]
        facts = self.case.project(project)
        directory = self.case.workspace.run_directory(project, run_id)
        if (seal := facts.seals.get(run_id)) is None:
            return [self.finding("its run was never sealed")]
        if changed_files(directory, seal.digests, self.case.inspection):
            return []  # named with the run, whose record of then is gone
        goal = self.case.goal_before(self.entry)
        recorded, present = self.body["documents"], diagnostics_digests()
        if recorded != present:
            names = sorted(name for name in recorded.keys() | present.keys() if recorded.get(name) != present.get(name))
            text = f"the diagnostic documents have changed since: {', '.join(names)}"
            return [self.finding(text, where="checklist", counts=self._opened_a_gate())]
        found = self._compared(self._assessed(directory, goal))
        if found and not self._compared(self._assessed(directory, goal, is_by_interval=True)):
            text = "a rival was better by the interval alone, which was enough then; the rows that differ are too few"
            return [self.finding(text, where="version", counts=False)]
        return found

    def _assessed(self, run: RunDirectory, goal: dict[str, Any], *, is_by_interval: bool = False) -> dict[str, Any]:
        """Return the run's diagnosis under the present documents, in the ledger's form.

        Args:
            run: that was diagnosed.
            goal: the project's of then.
            is_by_interval: without the exact test of the rows that differ, as diagnoses were made before it.
        """
        evaluated = self.case.project(str(self.entry.project)).evaluations.get(self.body["run_id"])
        rivals = beside_rivals(evaluated, goal, run.specification().config.reference)
        if is_by_interval:
            rivals = [one.model_copy(update={"shown": Shown(side=one.shown.side)}) for one in rivals]
        assessment = assess(run, Goal.model_validate(goal), rivals=rivals)
        derived: dict[str, Any] = json.loads(canonical_json(assessment.as_recorded()))
        return derived

    def _compared(self, derived: dict[str, Any]) -> list[Finding]:
        then, now = self.body["assessment"], derived["assessment"]
        pairs = {key: (then.get(key), now.get(key)) for key in sorted(then.keys() | now.keys()) if key != "reasons"}
        alerts = [{alert["id"]: alert for alert in side["alerts"] if alert["signal"] != BY_OTHER_RUNS}
                  for side in (self.body, derived)]  # fmt: skip
        pairs |= {f"alert {key}": (alerts[0].get(key), alerts[1].get(key)) for key in alerts[0].keys() | alerts[1]}
        return [
            self.finding(f"{key}: recorded {_short(old)}, derived {_short(new)}")
            for key, (old, new) in pairs.items()
            if old != new
        ]

    def _opened_a_gate(self) -> bool:
        """Whether an accepted gate depended on this very diagnosis: it was the newest one of its run at that time."""
        project, run_id = self.entry.project, self.body["run_id"]
        is_newest = False
        for entry, body in self.case.bodies:
            if entry.project != project:
                continue
            if entry.kind == "diagnosis" and body.get("run_id") == run_id:
                is_newest = entry.sequence == self.entry.sequence
            rests = entry.kind == "gate" and run_id in body["rested_on"].get("runs", [])
            if is_newest and rests and body["phase"] == "diagnostics" and body["outcome"] != "refused":
                return True
        return False

    def finding(self, what: str, *, where: Where = "verdict", counts: bool = True) -> Finding:
        """Return a difference of this diagnosis."""
        run_id, same = self.body.get("run_id"), self.version == trainwright.__version__
        by = f" (recorded as made by version {_short(self.version)}, compared by {trainwright.__version__})"
        what = f"diagnosis of {_short(run_id)} (ledger {self.entry.sequence}): {what}{'' if same else by}"
        return Finding(where=where, what=f"project {self.entry.project}: {what}", counts=counts and not self.explained)
