"""Releases and carried-over evidence, derived again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from trainwright.tools.gates.artifacts import WHOLE
from trainwright.tools.gates.carrying import shortcomings
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.historical import PastEvidence
from trainwright.tools.gates.phase_status import accepted_decisions
from trainwright.tools.gates.phases import Phase
from trainwright.tools.gates.releases import BEGUN, CARRIED, KEPT, Release, releases
from trainwright.tools.gates.staleness import changes_around
from trainwright.tools.provenance import open_envelope
from trainwright.tools.provenance.attesting import FILE, digest_set, sha256_of
from trainwright.tools.verification.findings import Case, Finding, Found, found
from trainwright.tools.workspace.tables import Project
from trainwright.trainer.base.errors import TrainwrightError

if TYPE_CHECKING:
    from trainwright.tools.provenance import Opened
    from trainwright.tools.workspace.tables import LedgerEntry


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


def kept_decisions(case: Case, project: str | None) -> set[int]:
    """Return the finalization decisions of the releases that a later one has replaced."""
    return {release.sequence for release in _releases(case, project)[:-1]}


def kept_files(case: Case) -> list[tuple[str, str, str]]:
    """Return (project, name in its folder, digest) of every file of an earlier release, its statements included."""
    files = []
    for project in sorted({str(entry.project) for entry, _ in case.of(BEGUN)}):
        for release in _releases(case, project)[:-1]:
            named = {name: digest for name, digest in release.files.items() if name.startswith(f"{WHOLE[0]}/")}
            for _, body in _of(case, "attestation", project):
                named |= dict(body["artifacts"]) if body["finalization"] == release.sequence else {}
            files += [(project, f"{KEPT}/{release.number}/{name}", digest) for name, digest in named.items()]
    return files


def _releases(case: Case, project: str | None) -> list[Release]:
    gates = [(entry.sequence, body) for entry, body in _of(case, "gate", project)]
    return releases(gates, [entry.sequence for entry, _ in _of(case, BEGUN, project)])


def _of(case: Case, kind: str, project: str | None) -> list[tuple[LedgerEntry, dict[str, Any]]]:
    return [(entry, body) for entry, body in case.of(kind) if entry.project == project]


# The final model's provenance, compared with the files that it names and the ledger that it points to.


def verify_provenance(case: Case) -> Found:
    """Compare the newest statement of every project; one of an earlier final model is reported as no difference."""
    newest = {str(entry.project): body for entry, body in case.of("attestation")}
    findings: list[Finding] = []
    for project, body in newest.items():
        what = f"project {project}: {FILE}"
        path = case.workspace.project_folder(project) / FILE
        if not path.is_file():
            continue  # named among the artifacts
        if body["finalization"] != _finalized(case, project):
            findings.append(Finding(where="provenance", what=f"{what} speaks of an earlier final model", counts=False))
            continue
        try:
            problems = _problems(case, project, open_envelope(path.read_bytes()))
        except (TrainwrightError, KeyError, TypeError, ValueError, AttributeError) as error:
            problems = [f"cannot be read: {error}"]
        findings += [Finding(where="provenance", what=f"{what} {problem}") for problem in problems]
    return len(newest), findings


def _finalized(case: Case, project: str) -> int | None:
    """Return the sequence of the newest accepted finalization."""
    gates = [(entry, body) for entry, body in case.of("gate") if entry.project == project]
    passed = [e.sequence for e, body in gates if body["phase"] == "finalization" and body["outcome"] != "refused"]
    return passed[-1] if passed else None


def _problems(case: Case, project: str, opened: Opened) -> list[str]:
    folder = case.workspace.project_folder(project)
    named = {one["name"]: one["digest"]["sha256"] for one in opened.statement["subject"]}
    present = sha256_of(folder, sorted((folder / "final_model").rglob("*")))
    differing = sorted(name for name in named.keys() | present.keys() if named.get(name) != present.get(name))
    problems = [f"names {name} with another digest, or one of them is gone" for name in differing]
    recorded = {entry.sequence: digest_set(entry.digest) for entry in case.entries}
    for one in opened.statement["predicate"]["runDetails"]["byproducts"]:
        problems += _byproduct(one, recorded)
    if case.public is not None and not opened.is_signed_by(case.public):
        problems.append(f"is not signed by key {case.public.id}")
    return problems


def _byproduct(one: dict[str, Any], recorded: dict[int, dict[str, str]]) -> list[str]:
    sequence = one["annotations"]["sequence"]
    same = recorded.get(sequence) == one["digest"]
    return [] if same else [f"points to ledger entry {sequence} ({one['name']}), which is another now"]
