"""Every verdict, derived again from the evidence and compared with the ledger."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import trainwright
from trainwright.tools.gates.checklist import CheckLine, checklist_digest, load_checklist
from trainwright.tools.gates.decide import (
    as_recorded,
    dependencies_of,
    evaluate_line,
    outcome_of,
    settled,
)
from trainwright.tools.gates.historical import MovedOnError, PastEvidence
from trainwright.tools.gates.outcomes import CHECKS, CheckResult
from trainwright.tools.gates.phases import Phase
from trainwright.tools.verification.findings import Case, Finding, Found, Where
from trainwright.tools.verification.signatures import is_signed
from trainwright.tools.workspace.tables import LedgerEntry
from trainwright.trainer.base.errors import TrainwrightError
from trainwright.trainer.base.text import cut

SETTLED = {
    "final_values": "the final configuration", "ending": "how far the project came", "release": "the release",
}  # fmt: skip
COMPARED = ("status", "measured", "required", "counts")
_short = partial(cut, longest=160)
FIGURE = re.compile(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?")


def verify_verdicts(case: Case) -> Found:
    """Compute the checks of every gate decision again, accepted ones and refused ones."""
    findings: list[Finding] = []
    for entry, body in case.of("gate"):
        try:
            findings += _Verdict(case, entry, body).findings()
        except (TrainwrightError, MovedOnError, KeyError, ValueError, TypeError, AttributeError) as error:
            what = f"the decision of ledger entry {entry.sequence} cannot be derived again: {error}"
            findings.append(Finding(where="verdict", what=what))
    return len(case.of("gate")), findings


class _Verdict:
    """One decision beside its derivation.

    An accepted decision must be derived again to the letter. Where another version of Trainwright made it, its wording
    may differ; but whoever can rewrite a decision can also rewrite its version. So wording alone, with the same
    statuses and no other figure, is reported as a difference of versions, which gains a forger nothing; other figures
    are explained only where the entry's signature vouches for the version. A refused decision opened nothing, and its
    evidence may rightly have changed since: checks that passed must pass still, and the rest is reported.
    """

    def __init__(self, case: Case, entry: LedgerEntry, body: dict[str, Any]) -> None:
        self.case, self.entry, self.body = case, entry, body
        self.phase = Phase(body["phase"])
        self.is_accepted = body["outcome"] != "refused"
        self.under: dict[str, Any] = body.get("circumstances", {})
        self.same_version = self.under.get("version") == trainwright.__version__
        self.to_the_letter = self.same_version or not is_signed(entry, case.public)
        self.what = f"project {entry.project}: decision on {self.phase} (ledger {entry.sequence})"
        self.evidence = self._evidence(self.under)
        self.lines = self.evidence.lines(self.phase)
        """The checklist's lines as they were enforced."""

    def findings(self) -> list[Finding]:
        """Return every difference between record and derivation."""
        recorded = {check["id"]: check for check in self.body["checks"]}
        derived = self._derived(self.evidence, self.lines)
        found = [
            finding for name, check in derived.items() for finding in self._compared(name, recorded.get(name), check)
        ]
        found += [
            self._finding(f"{name} is recorded, and no line of the checklist asks for it")
            for name in recorded
            if name not in {line.id for line in self.lines}
        ]
        unknown = [line.id for line in self.lines if line.id not in CHECKS]
        found += [self._finding(f"{name} is no check any more", counts=self.is_accepted) for name in unknown]
        if self.is_accepted:
            found += self._foundations(list(derived.values()))
        return found + self._checklist()

    def _evidence(self, circumstances: dict[str, Any]) -> PastEvidence:
        body = {**self.body, "circumstances": circumstances}
        return PastEvidence(self.case.session, self.case.workspace, self.entry, body, self.case.inspection)

    def _derived(self, evidence: PastEvidence, lines: list[CheckLine]) -> dict[str, CheckResult]:
        results = {}
        for line in lines:
            if line.id not in CHECKS:  # another version's; `findings` names it
                continue
            try:
                results[line.id] = evaluate_line(evidence, line)
            except MovedOnError as error:
                if self.is_accepted:  # it can only depend on runs that had ended
                    raise TrainwrightError(f"run {error} went on after it", remedy="") from error
        return results

    def _compared(self, name: str, recorded: dict[str, Any] | None, check: CheckResult) -> list[Finding]:
        if recorded is None:
            return [self._finding(f"{name} of its checklist is not recorded")]
        now = as_recorded(check)
        differing = [key for key in COMPARED if recorded.get(key) != now[key]]
        if not differing:
            return []
        text = "; ".join(f"{key} recorded {_short(recorded.get(key))}, derived {_short(now[key])}" for key in differing)
        is_status = "status" in differing
        if self.is_accepted and not self.same_version and not is_status and _same_figures(recorded, now):
            return [self._by_version(f"{name}: {text}")]
        if self.is_accepted:
            return [self._finding(f"{name}: {text}", counts=is_status or self.to_the_letter)]
        return [self._finding(f"{name}: {text}", counts=is_status and recorded.get("status") == "passed")]

    def _foundations(self, results: list[CheckResult]) -> list[Finding]:
        """Compare an accepted decision's outcome and the evidence that it depends on."""
        found = []
        if (outcome := outcome_of(self.evidence, self.phase, results)) != self.body["outcome"]:
            found.append(self._finding(f"outcome recorded {self.body['outcome']}, derived {outcome}"))
        now = dependencies_of(self.evidence, self.phase)
        recorded = self.body["rested_on"]
        for key in sorted(recorded.keys() | now.keys()):
            if recorded.get(key) == now.get(key):
                continue
            text = f"depends on {key}: recorded {_short(recorded.get(key))}, derived {_short(now.get(key))}"
            found.append(self._finding(text, counts=self.to_the_letter))
        wrong = [name for name, value in settled(self.evidence, self.phase).items() if self.body.get(name) != value]
        return found + [self._finding(f"{SETTLED[name]} does not follow from the evidence") for name in wrong]

    def _checklist(self) -> list[Finding]:
        """Name a checklist that has changed. One version has one; under another's, the present one must pass too."""
        if not self.is_accepted:
            return []
        if "lines" not in self.under:
            return [self._finding("it does not record the checklist it was made under", where="checklist")]
        what = f"{self.phase.document} has changed since, in its"
        if load_checklist(self.phase).checks == self.lines:
            same = checklist_digest(self.phase) == self.under.get("checklist")
            return [] if same else [self._finding(f"{what} prose", where="checklist", counts=False)]
        if self.same_version:
            return [self._finding(f"{what} checks", where="checklist")]
        missing = self._missing_now()
        text = f"the present ones are not met: {'; '.join(missing[:3])}" if missing else "the present ones are met too"
        counts = bool(missing) and self.to_the_letter
        return [self._finding(f"{what} checks; {text}", where="checklist", counts=counts)]

    def _missing_now(self) -> list[str]:
        """Return the checks of the present checklist that the historical evidence does not pass."""
        present = self._evidence({key: value for key, value in self.under.items() if key != "lines"})
        results = self._derived(present, present.lines(self.phase)).values()
        return [f"{result.id} ({_short(result.measured)})" for result in results if result.is_blocking()]

    def _by_version(self, what: str) -> Finding:
        """Return a difference that loosens nothing, where another version is said to have made the decision."""
        version = _short(self.under.get("version"))
        what = f"{self.what}: derived differently by this version; recorded by {version}, whose `verify` tells: {what}"
        return Finding(where="version", what=what, counts=False)

    def _finding(self, what: str, *, where: Where = "verdict", counts: bool = True) -> Finding:
        by = (
            f" (recorded as made by version {_short(self.under.get('version'))}, compared by {trainwright.__version__})"
        )
        return Finding(where=where, what=f"{self.what}: {what}{'' if self.same_version else by}", counts=counts)


def _same_figures(recorded: dict[str, Any], now: dict[str, Any]) -> bool:
    """Whether two results differ in wording alone: every recorded figure follows from the evidence.

    A measurement without its figures does not count: words in their place could say anything.
    """
    measured = [set(FIGURE.findall(str(side.get("measured")))) for side in (recorded, now)]
    required = [set(FIGURE.findall(str(side.get("required")))) for side in (recorded, now)]
    is_measured = bool(measured[0]) == bool(measured[1]) and measured[0] <= measured[1]
    return recorded.get("counts") == now["counts"] and is_measured and required[0] <= required[1] | measured[1]
