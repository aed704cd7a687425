"""The final model's provenance, compared with the files that it names and the ledger that it points to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainwright.tools.provenance import open_envelope
from trainwright.tools.provenance.attesting import FILE, digest_set, sha256_of
from trainwright.tools.verification.findings import Case, Finding, Found
from trainwright.trainer.base.errors import TrainwrightError

if TYPE_CHECKING:
    from trainwright.tools.provenance import Opened


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
