"""Writing the final model's provenance into the project folder, recorded in the ledger."""

from __future__ import annotations

import hashlib
import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

from blake3 import blake3
from pydantic import BaseModel
from sqlalchemy import select

import trainwright
from trainwright.tools import ledger
from trainwright.tools.gates.artifacts import digests_of, new_drafts, publish
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.phase_status import accepted_decisions, phase_status_of
from trainwright.tools.gates.phases import Phase
from trainwright.tools.ledger.events import ModelAttested
from trainwright.tools.provenance.envelope import sealed
from trainwright.tools.workspace.records import get_project
from trainwright.tools.workspace.tables import LedgerEntry
from trainwright.trainer.base.canonical import CHUNK_BYTES, digest_bytes, sha256_of_file
from trainwright.trainer.base.errors import ConflictError, IntegrityError
from trainwright.trainer.base.paths import files_among
from trainwright.trainer.run import RunStatus, write_atomically
from trainwright.trainer.run.evidence import Code, Data, Environment, Part

if TYPE_CHECKING:
    from pathlib import Path

    from sqlalchemy.orm import Session

    from trainwright.tools.gates.run_evidence import RunEvidence
    from trainwright.tools.workspace import Workspace

FILE = "final_model.intoto.json"
MODEL = "final_model"
"""Folder of the files that are attested."""


class Attested(BaseModel):
    """The provenance of a final model."""

    path: str
    """The in-toto statement, in the project folder."""
    files: int
    """How many files of the final model they name."""
    key: str | None
    """Id of the key that signed the statement."""


def attest(workspace: Workspace, project: str) -> Attested:
    """Write the provenance of a project whose gates have all passed. Passing the last gate does so by itself.

    Raises:
        NotFoundError: no such project.
        ConflictError: it has no final model, or a gate is not passed and fresh.
        IntegrityError: a file was swapped since the gates were checked.
        StorageError: the files cannot be written.
    """
    with workspace.session() as session:
        finalization, artifacts = _finished(session, workspace, project)
    return _write(workspace, project, finalization, artifacts)


def _write(workspace: Workspace, project: str, finalization: int, artifacts: dict[str, str]) -> Attested:
    """Write the in-toto statement of a final model, recorded in the ledger.

    Args:
        finalization: ledger sequence of the model's decision; all gates were found to be fresh.
        artifacts: digest of each file that it names.

    Raises:
        ConflictError: finalization was decided again meanwhile.
        IntegrityError: a file is not the one that it names, or the final run's record is not the sealed one.
        StorageError: the files cannot be written.
    """
    folder = workspace.project_folder(project)
    subjects = _subjects(folder, artifacts)  # takes too long to hold the lock
    with workspace.session() as session:
        evidence = Evidence(session, workspace, project)
        final, decision = evidence.final, accepted_decisions(evidence).get(Phase.FINALIZATION)
        if final is None or decision is None or decision[0] != finalization:
            raise _unfinished(project, "finalization, which was decided anew")
        head = session.scalars(select(LedgerEntry).order_by(LedgerEntry.sequence.desc()).limit(1)).one()
        document = statement(evidence, final, subjects, head)
        drafts = new_drafts(session, folder)
        write_atomically(drafts / FILE, sealed(document, workspace.signer))
        key = workspace.signer.public.id if workspace.signer else None
        attested = ModelAttested(finalization=finalization, artifacts=digests_of(drafts), key=key)
        ledger.record(session, project, attested)
    with workspace.session() as session:
        publish(session, project, folder)
    return Attested(path=str(folder / FILE), files=len(subjects), key=key)


def _finished(session: Session, workspace: Workspace, project: str) -> tuple[int, dict[str, str]]:
    """Return the ledger sequence of the project's last gate, where all are fresh, and the files that it names."""
    get_project(session, project)
    evidence = Evidence(session, workspace, project)
    where = phase_status_of(evidence)
    finalization = accepted_decisions(evidence).get(Phase.FINALIZATION)
    if not where.is_finished or finalization is None:
        raise _unfinished(project, where.phase.value)
    return finalization[0], finalization[1]["artifacts"]


def _unfinished(project: str, phase: str) -> ConflictError:
    return ConflictError(
        f"Project {project} is in {phase}: there is no final model that all gates stand for.",
        remedy=f"project_status(project={project!r}) says what is missing; attest it when it is finished.",
    )


def _subjects(folder: Path, artifacts: dict[str, str]) -> dict[str, str]:
    """Return the sha256 (hex) of every file of the final model, by its name in the project folder.

    Each is compared in the same read with what finalization recorded: one that was swapped since is never attested.
    """
    found, wrong = {}, {name for name in artifacts if name.startswith(f"{MODEL}/")}
    for path in sorted(files_among((folder / MODEL).rglob("*"))):
        name, sha256, digest = str(path.relative_to(folder)), hashlib.sha256(), blake3()
        with path.open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                sha256.update(chunk)
                digest.update(chunk)
        found[name] = sha256.hexdigest()
        (wrong.discard if artifacts.get(name) == f"blake3:{digest.hexdigest()}" else wrong.add)(name)
    if wrong:
        raise IntegrityError(
            f"Not what finalization recorded: {', '.join(sorted(wrong)[:3])}.",
            remedy="Put the files back, or pass the finalization gate again, which writes them anew; then attest.",
        )
    return found


def sha256_of(folder: Path, paths: list[Path]) -> dict[str, str]:
    """Return the sha256 (hex) of every file among the paths, by its name in the folder, read in pieces."""
    return {str(path.relative_to(folder)): sha256_of_file(path) for path in files_among(paths)}


# The statement (in-toto v1, predicate SLSA provenance v1): files, their inputs, and the decisions.

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "https://slsa.dev/provenance/v1"
BUILD_TYPE = "urn:trainwright:training:1"
BUILDER = "urn:trainwright:server"
log = logging.getLogger("trainwright")
Record = TypeVar("Record", bound=BaseModel)


def statement(evidence: Evidence, final: RunEvidence, subjects: dict[str, str], head: LedgerEntry) -> dict[str, Any]:
    """Return the provenance of a finished project's final model.

    Args:
        subjects: sha256 (64 hex digits) of every file of the final model, by its name in the project folder.
        head: the ledger's last entry.

    Raises:
        IntegrityError: the run's record is not the one that was sealed.
    """
    return {
        "_type": STATEMENT_TYPE,
        "subject": [{"name": name, "digest": {"sha256": digest}} for name, digest in sorted(subjects.items())],
        "predicateType": PREDICATE_TYPE,
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": {"project": evidence.name, "goal": evidence.project.goal},
                "internalParameters": {
                    "configuration": evidence.final_values,
                    "seed": final.facts.started[final.id].seed,
                },
                "resolvedDependencies": _dependencies(final),
            },
            "runDetails": {
                "builder": {"id": BUILDER, "version": {"trainwright": trainwright.__version__}},
                "metadata": {"invocationId": final.id, **_times(final)},
                "byproducts": _byproducts(evidence, head),
            },
        },
    }


def digest_set(digest: str) -> dict[str, str]:
    """Return `blake3:…` as in-toto writes digests."""
    algorithm, _, value = digest.partition(":")
    return {algorithm: value}


def _dependencies(final: RunEvidence) -> list[dict[str, Any]]:
    environment = _sealed(final, Environment)
    data, code = _sealed(final, Data), _sealed(final, Code)
    found = [
        {"name": "configuration", "digest": digest_set(final.facts.started[final.id].config_digest)},
        {
            "name": "environment",
            "digest": digest_set(str(environment.packages_digest)),
            "annotations": {"python": environment.python, "packages": environment.packages},
        },
    ]
    for part, digest, files in (("data", data.fingerprint, data.files), ("code", code.digest, code.files)):
        found += [{"name": part, "digest": digest_set(digest)}] if digest else []
        found += [{"name": f"{part}/{name}", "digest": digest_set(own)} for name, own in sorted(files.items())]
    if git := environment.git:
        annotations = {"uncommitted_changes": bool(git.dirty)}
        found.append({"name": "git", "digest": {"gitCommit": git.commit}, "annotations": annotations})
    return found


def _sealed(final: RunEvidence, kind: type[Record]) -> Record:
    """Return a file of the run's record, compared in the same read with its seal. Raises IntegrityError."""
    name = f"artifacts/{kind.file}.json" if issubclass(kind, Part) else "status.json"
    try:
        data = (final.directory.path / name).read_bytes()
        if digest_bytes(data) == (final.sealed or {}).get(name):
            return kind.model_validate_json(data)
    except (OSError, ValueError) as error:
        log.warning("%s of run %s: %s", name, final.id, error)
    raise IntegrityError(
        f"{name} of run {final.id} is not what was sealed.",
        remedy=f"Put it back; project_status(project={final.row.project!r}) names what was changed.",
    )


def _times(final: RunEvidence) -> dict[str, str]:
    status = _sealed(final, RunStatus)
    ended = {"startedOn": status.started_at, "finishedOn": status.heartbeat_at}
    return {name: datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds") for name, at in ended.items() if at}


def _byproducts(evidence: Evidence, head: LedgerEntry) -> list[dict[str, Any]]:
    found = [{"name": "ledger", "digest": digest_set(head.digest), "annotations": {"sequence": head.sequence}}]
    for phase, (sequence, body) in accepted_decisions(evidence).items():
        entry = evidence.session.get_one(LedgerEntry, sequence)
        notes = {"sequence": sequence, "outcome": body["outcome"], "time": entry.time}
        found.append({"name": f"gate/{phase}", "digest": digest_set(entry.digest), "annotations": notes})
    return found
