"""Journal of a project's experiments, by the ledger: what was tried, against what, with which verdict."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from trainwright.tools.answers import NextCall
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.studies import every_study
from trainwright.tools.hyperparameter_tuner.experiments.verdict import CRASHED, KEPT
from trainwright.tools.ledger import Look
from trainwright.tools.training_orchestrator.snapshots import code_of, folder_of_snapshot, snapshot_folder
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.tables import Study
from trainwright.trainer.base.errors import NotFoundError

DOCUMENT = "phases/04_optimization/experiments.md"
PLANNED = "planned"
"""Name of the state that planning and baseline accepted."""
MAX_LINES = 12
"""Of a journal in an answer."""


@dataclass(frozen=True)
class Experiment:
    """One experiment, or the planned state that the first ones are compared with."""

    name: str
    study: str
    idea: str
    code: str
    """Digest of the snapshot."""
    changes: dict[str, Any]
    against: str = ""
    against_code: str = ""
    against_changes: dict[str, Any] = field(default_factory=dict)
    confirms: bool = False
    lines: tuple[int, int] = (0, 0)
    state: str = ""
    verdict: str = ""
    conclusion: str = ""
    base_config_digest: str = ""
    key: str | None = None
    results: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of_plan(cls, code: str) -> Self:
        """Return the state that planning and baseline accepted."""
        return cls(PLANNED, "", "the accepted baseline", code, {})

    def told(self) -> str:
        """Say in one line what was tried, and with which verdict."""
        return f"{self.name}, {self.idea}, against {self.against}: {self.conclusion or self.state}"


def experiments_of(evidence: Evidence) -> list[Experiment]:
    """Return the project's experiments in order of their start."""
    found = []
    for study, body in every_study(evidence, "ablation").items():
        if (own := (body.get("search") or {}).get("experiment")) is None:
            continue
        results = body.get("results") or {}
        found.append(Experiment(
            name=f"experiment-{own['number']}", study=study, idea=own["idea"], code=own["code"],
            changes=own["changes"], against=own["against"], against_code=own["against_code"],
            against_changes=own["against_changes"],
            confirms=own.get("confirms", False), lines=tuple(own.get("lines", (0, 0))), state=body["state"],
            verdict=results.get("verdict", ""),
            conclusion=results.get("conclusion", ""), base_config_digest=body.get("base_config_digest", ""),
            key=body.get("idempotency_key"), results=results,
        ))  # fmt: skip
    return found


def incumbent_of(evidence: Evidence, base: str) -> Experiment | None:
    """Return the newest kept experiment of the chain on a configuration; None: what planning accepted holds.

    Args:
        base: the configuration's digest.
    """
    own = [one for one in experiments_of(evidence) if one.base_config_digest == base]
    return chain_of(own)[-1] if chain_of(own) else None


def chain_of(experiments: Sequence[Experiment]) -> list[Experiment]:
    """Return the kept experiments each of which was held against the one before, the first against the plan.

    One that was kept against an older state is a branch: it does not take the chain's place.
    """
    chain: list[Experiment] = []
    for one in experiments:
        if one.verdict == KEPT and not one.confirms and one.against == (chain[-1].name if chain else PLANNED):
            chain.append(one)
    return chain


def next_idea(workspace: Workspace, study: Study) -> NextCall:
    """Return where the next idea begins, and after one that was kept how to end."""
    with workspace.snapshot() as session:
        evidence = Evidence(session, workspace, study.project, inspection=Look())
        own = next(one for one in experiments_of(evidence) if one.study == study.id)
        holds = incumbent_of(evidence, own.base_config_digest)
        first = next(one for one in experiments_of(evidence) if one.base_config_digest == own.base_config_digest)
    name = holds.name if holds is not None else PLANNED
    folder = folder_of_snapshot(workspace, study.project, holds.code if holds is not None else first.against_code)
    why = f"the next idea goes on from {name}, whose code lies in {folder}"
    if own.verdict == CRASHED:
        why = f"correct the code and start it again; or {why}"
    elif own.confirms:
        why = f"bring its code and changes through the gates; or {why}"
    elif own.verdict == KEPT and own.name != name:
        why = f"it is a branch beside {name}: combine the two; {why}"
    elif own.verdict == KEPT:
        why += "; or end: measure the chain once by confirm, and bring its code and changes through the gates"
    return NextCall(tool="read_document", arguments={"path": f"{DOCUMENT}#the-end"}, why=why)


def changed_lines(evidence: Evidence, one: str, other: str) -> tuple[int, int, str]:
    """Return lines added and removed between two snapshots, and the unified diff; nothing where one is gone."""
    try:
        folders = [snapshot_folder(evidence.workspace, evidence.name, digest) for digest in (one, other)]
    except NotFoundError:
        return 0, 0, ""
    before, after = map(code_of, folders)
    lines = [
        line
        for name in sorted(before.keys() | after.keys())
        for line in difflib.unified_diff(
            before.get(name, "").splitlines(), after.get(name, "").splitlines(), name, name, lineterm="", n=1
        )
    ]
    counted = [line for line in lines if not line.startswith(("+++", "---"))]
    return sum(line[0] == "+" for line in counted), sum(line[0] == "-" for line in counted), "\n".join(lines)
