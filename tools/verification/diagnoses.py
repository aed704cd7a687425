"""Every diagnosis, derived again from its sealed run and compared with the ledger."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import trainwright
from trainwright.tools.gates.beside_rivals import beside_rivals
from trainwright.tools.gates.cures import CONTROL, ENDED, runs_of_cure
from trainwright.tools.ledger.seals import changed_files
from trainwright.tools.owner.grant import Grant
from trainwright.tools.owner.grants import DECISION, grant_of
from trainwright.tools.owner.requests import REQUEST, request_id
from trainwright.tools.training_monitor import Goal, assess, diagnostics_digests
from trainwright.tools.training_monitor.outdone import Shown
from trainwright.tools.training_monitor.pairs import Pair
from trainwright.tools.verification.findings import Case, Finding, Found, Where, derived_again, found
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


# The owner's answers beside the requests that they answer: an answer to nothing, or to something else, was forged.

Asked = tuple[str | None, Grant | None]


def verify_answers(case: Case) -> Found:
    """Compare every answer of the owner with the request before it: the same project, the same grant, answered once."""
    asked: dict[str, Asked] = {}
    answered: set[str] = set()
    problems = []
    for entry, body in case.everything:  # deleted projects' too: a forged grant would delete the traces of itself
        if entry.kind == REQUEST:
            asked[request_id(entry)] = (entry.project, grant_of(body))
        elif entry.kind == DECISION:
            name = str(body.get("request"))
            problems += _difference(entry, name, asked.get(name), grant_of(body), is_second=name in answered)
            answered.add(name)
    return len(asked), found("ledger", problems)


def _difference(
    entry: LedgerEntry, name: str, asked: Asked | None, grant: Grant | None, *, is_second: bool
) -> list[str]:
    what = f"ledger entry {entry.sequence}: an answer of the owner"
    if asked is None or grant is None or asked[1] is None:
        return [f"{what} answers no request ({name[:40]})"]
    if asked != (entry.project, grant):
        text = (
            f"{name} requests {asked[1]} in project {asked[0]}, and it answers for {grant} in project {entry.project}"
        )
        return [f"{what} answers no request: {text}"]
    return [f"{what} is the second to {name}"] if is_second else []


# Every ended trial of fixes, derived again from its sealed runs and compared with the ledger.


def verify_cures(case: Case) -> Found:
    """Evaluate the pairs of every ended trial again."""
    begun = {body.get("cure_id"): body for _, body in case.of("cure") if body.get("fixes")}
    ended = [(entry, body) for entry, body in case.of("cure") if body.get("state") == ENDED]
    return derived_again(ended, "trial of fixes", partial(_differences, case, begun))


def _differences(
    case: Case, all_begun: dict[Any, dict[str, Any]], entry: LedgerEntry, ended: dict[str, Any]
) -> list[str]:
    begun = all_begun[ended["cure_id"]]
    project = str(entry.project)
    facts = case.project(project)
    runs = runs_of_cure(facts, begun["cure_id"])
    seals = {run: facts.seals[run].digests for run in runs.values()}
    directories = {fix: case.workspace.run_directory(project, run) for fix, run in runs.items()}
    if any(changed_files(directories[fix], seals[run], case.inspection) for fix, run in runs.items()):
        return []  # named with the run, whose record of then is gone
    goal = Goal.model_validate(case.goal_before(entry))
    pair = Pair(directories[CONTROL], begun["alert"], goal)
    fixes = {fix["id"]: fix for fix in begun["fixes"]}
    by = "" if ended["documents"] == diagnostics_digests() else " (the diagnostic documents have changed since)"
    found = []
    for recorded in ended["outcomes"]:
        fix, directory = fixes[recorded["fix"]], directories.get(recorded["fix"])
        if pair.shown is not None and directory is None:  # a value that does not go with the others: no run was made
            derived = {**recorded, "cured": None, "run": ""}
        else:
            outcome = pair.outcome(directory, fix) if pair.shown and directory else pair.not_shown(fix, begun["steps"])
            derived = outcome.model_dump(mode="json")
        if json.loads(canonical_json(derived)) != recorded:
            found.append(f"{recorded['fix']} cured: recorded {recorded}, derived {derived}{by}")
    return found
