"""Releases and carried-over evidence, derived again."""

from __future__ import annotations

from typing import Any

from sqlalchemy import select

from trainwright.tools.gates.artifacts import WHOLE
from trainwright.tools.gates.carry_over import shortcomings
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.historical import PastEvidence
from trainwright.tools.gates.phase_status import accepted_decisions
from trainwright.tools.gates.phases import Phase
from trainwright.tools.gates.releases import BEGUN, CARRIED, KEPT, Release, releases
from trainwright.tools.gates.staleness import changes_around
from trainwright.tools.verification.findings import Case, Finding, Found, found
from trainwright.tools.workspace.tables import LedgerEntry, Project


def verify_carried(case: Case) -> Found:
    """Compare the first steps of every such replay with its source's again."""
    carried = case.of(CARRIED)
    problems = []
    for entry, body in carried:
        past = PastEvidence(case.session, case.workspace, entry, {"phase": ""}, case.inspection)
        smoke, source, replay = (past.run(str(body.get(name))) for name in ("smoke_run", "source", "replay"))
        if smoke is None or source is None or replay is None:
            faults = ["a run that it names is gone"]
        else:
            faults = shortcomings(past, smoke, source, replay)
        problems += [f"ledger entry {entry.sequence}: the replay does not carry the plan over: {one}" for one in faults]
    return len(carried), found("verdict", problems)


def verify_releases(case: Case) -> Found:
    """Compare every beginning of a release with the decisions before it: only after a finished one is there a next."""
    begun = case.of(BEGUN)
    problems = []
    for entry, body in begun:
        number = sum(other.project == entry.project and other.sequence <= entry.sequence for other, _ in begun)
        sealed = [release.sequence for release in _releases(case, entry.project) if release.number == number]
        if sealed != [body.get("after")] or body.get("release") != number + 1:
            text = f"release {number + 1} of {entry.project} was begun, and release {number} was not finished before it"
            problems.append(f"ledger entry {entry.sequence}: {text}")
    return len(begun), found("ledger", problems)


def verify_since(case: Case) -> Found:
    """Report changes around finished projects, as remarks: they stay finished."""
    finished, findings = 0, []
    for project in case.session.scalars(select(Project.name).order_by(Project.name)):
        evidence = Evidence(case.session, case.workspace, project, inspection=case.inspection)
        planned = accepted_decisions(evidence).get(Phase.PLANNING)
        if planned is None or not evidence.releases or evidence.releases[-1].number != len(evidence.begun) + 1:
            continue
        finished += 1
        if changes := changes_around(evidence, planned[1]["rested_on"]):
            text = f"project {project} stays finished ({evidence.releases[-1]}); since then: {'; '.join(changes)}"
            findings.append(Finding(where="release", what=text, counts=False))
    return finished, findings


def kept_files(case: Case) -> list[tuple[str, str, str]]:
    """Return (project, name in its folder, digest) of every file of an earlier release."""
    files = []
    for project in sorted({str(entry.project) for entry, _ in case.of(BEGUN)}):
        for release in _releases(case, project)[:-1]:
            named = {name: digest for name, digest in release.files.items() if name.startswith(f"{WHOLE[0]}/")}
            files += [(project, f"{KEPT}/{release.number}/{name}", digest) for name, digest in named.items()]
    return files


def _releases(case: Case, project: str | None) -> list[Release]:
    gates = [(entry.sequence, body) for entry, body in _of(case, "gate", project)]
    return releases(gates, [entry.sequence for entry, _ in _of(case, BEGUN, project)])


def _of(case: Case, kind: str, project: str | None) -> list[tuple[LedgerEntry, dict[str, Any]]]:
    return [(entry, body) for entry, body in case.of(kind) if entry.project == project]
