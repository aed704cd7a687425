"""The statement (in-toto v1, predicate SLSA provenance v1): files, their inputs, and the decisions."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel

import trainwright
from trainwright.tools.gates.phase_status import accepted_decisions
from trainwright.tools.workspace.tables import LedgerEntry
from trainwright.trainer.base.canonical import digest_bytes
from trainwright.trainer.base.errors import IntegrityError
from trainwright.trainer.run import RunStatus
from trainwright.trainer.run.evidence import Code, Data, Environment, Part

if TYPE_CHECKING:
    from trainwright.tools.gates.evidence import Evidence
    from trainwright.tools.gates.run_evidence import RunEvidence

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
