"""Studies of a project by its ledger: each one's entries merged, and their results in words."""

from __future__ import annotations

from typing import Any

from trainwright.tools.gates.improvement import told_separated
from trainwright.tools.gates.records import Records

ACTIVE = frozenset({"running", "confirming"})
MAX_CHARACTERS = 160


def every_study(evidence: Records, kind: str = "study") -> dict[str, dict[str, Any]]:
    """Return the project's searches, or ablation studies, by id in order: each one's ledger entries merged."""
    found: dict[str, dict[str, Any]] = {}
    for _, body in evidence.entries(kind):
        first = found.setdefault(body["study_id"], body)
        found[body["study_id"]] = first | body | {"base_config_digest": first.get("base_config_digest")}
    return found


def ablation_studies(evidence: Records) -> dict[str, dict[str, Any]]:
    """Return the project's ablation studies by id in order, without experiments: each one's ledger entries merged."""
    every = every_study(evidence, "ablation").items()
    return {name: body for name, body in every if "experiment" not in (body.get("search") or {})}


def studies_of(evidence: Records) -> dict[str, dict[str, Any]]:
    """Return the studies on the present configuration, as `every_study` does."""
    digest = evidence.config_digest
    return {name: body for name, body in every_study(evidence).items() if body["base_config_digest"] == digest}


def studies_under_way(evidence: Records) -> list[str]:
    """Return the ids of the configuration's studies that have not ended."""
    return [name for name, body in studies_of(evidence).items() if body["state"] in ACTIVE]


def ended_studies(evidence: Records) -> list[str]:
    """Return one line for every study on the configuration that has ended, in order."""
    return studies_told(studies_of(evidence))


def studies_told(studies: dict[str, dict[str, Any]]) -> list[str]:
    """Return one line for each study that has ended."""
    return [study_told(name, body) for name, body in studies.items() if body["state"] not in ACTIVE]


def study_in_words(state: str, confirmation: dict[str, Any]) -> str:
    """Return a study's state, and what its repetitions over seeds found where there are some."""
    if "improvement_mean" not in confirmation:
        return state
    low, high = confirmation["improvement_low"], confirmation["improvement_high"]
    word = "validated" if confirmation.get("validated") else "not validated"
    separated = told_separated(confirmation)
    return (
        f"{state}, gain {confirmation['improvement_mean']:+.4g} ({100 * confirmation['confidence']:.4g} % interval "
        f"{low:+.4g} to {high:+.4g} over {len(confirmation['seeds'])} seeds, baseline's spread "
        f"{confirmation['baseline_spread']:.4g}), {word}{f', though {separated}' if separated else ''}"
    )


def study_told(name: str, body: dict[str, Any]) -> str:
    """Return one line on a study: its result, or why it ended without one."""
    failure, told = body.get("failure") or {}, study_in_words(body["state"], body.get("confirmation") or {})
    cause = f": {failure['message']}"[:MAX_CHARACTERS] if failure.get("message") and told == body["state"] else ""
    return f"{name} {told}{cause}"
