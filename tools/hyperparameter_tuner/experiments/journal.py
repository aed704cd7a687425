"""Journal of a project's experiments, by the ledger: what was tried, against what, with which verdict."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from trainwright.tools.answers import NextCall
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.studies import every_study
from trainwright.tools.hyperparameter_tuner.experiments.verdict import CRASHED, KEPT
from trainwright.tools.ledger import Look
from trainwright.tools.training_orchestrator.snapshots import accepted_code, folder_of_snapshot
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.tables import Study

DOCUMENT = "phases/04_optimization/experiments.md"
PLANNED = "planned"
"""Name of the state that planning and baseline accepted."""
MAX_LINES = 3
"""Of the newest in an answer."""


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
    meanings: tuple[str, str] = ("", "")
    """Digests of what the incumbent's code and its own do, however they are written."""
    lines: tuple[int, int] = (0, 0)
    state: str = ""
    verdict: str = ""
    conclusion: str = ""
    base_config_digest: str = ""
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
            confirms=own["confirms"], lines=tuple(own["lines"]), meanings=tuple(own["meanings"]), state=body["state"],
            verdict=results.get("verdict", ""),
            conclusion=results.get("conclusion", ""), base_config_digest=body.get("base_config_digest", ""),
            results=results,
        ))  # fmt: skip
    return found


def incumbent_of(evidence: Evidence, base: str, accepted: str) -> Experiment:
    """Return the newest kept experiment of the chain that begins at the accepted code, or that code as planned.

    Args:
        base: digest of the configuration that the experiments vary.
        accepted: the snapshot that planning and baseline accepted.
    """
    own = [one for one in experiments_of(evidence) if one.base_config_digest == base]
    return chain_of(own, Experiment.of_plan(accepted))[-1]


def chain_of(experiments: Sequence[Experiment], planned: Experiment) -> list[Experiment]:
    """Return the plan, and the kept experiments each of which was held against the state before.

    One that was kept against another state is a branch, and does not take the chain's place; nor does one that was
    held against a plan of before.
    """
    chain = [planned]
    for one in experiments:
        before = (chain[-1].code, chain[-1].changes)
        if one.verdict == KEPT and not one.confirms and (one.against_code, one.against_changes) == before:
            chain.append(one)
    return chain


def next_idea(workspace: Workspace, study: Study) -> NextCall:
    """Return where the next idea begins, and after one that was kept how to end."""
    with workspace.snapshot() as session:
        evidence = Evidence(session, workspace, study.project, inspection=Look())
        own = next(one for one in experiments_of(evidence) if one.study == study.id)
        holds = incumbent_of(evidence, own.base_config_digest, accepted_code(evidence) or own.against_code)
    folder = folder_of_snapshot(workspace, study.project, holds.code)
    why = f"the next idea goes on from {holds.name}, whose code lies in {folder}"
    if own.verdict == CRASHED:
        why = f"correct the code and start it again; or {why}"
    elif own.confirms and own.verdict == KEPT:
        why = f"it holds: bring its code and changes through the gates; or {why}"
    elif own.confirms:
        why = f"it is not shown to hold on new seeds: release nothing for it; {why}"
    elif own.verdict == KEPT and own.name != holds.name:
        why = f"it is a branch beside {holds.name}: combine the two; {why}"
    elif own.verdict == KEPT:
        why += "; or end: measure the chain once by confirm, and bring its code and changes through the gates"
    return NextCall(tool="read_document", arguments={"path": f"{DOCUMENT}#the-end"}, why=why)


def changed_lines(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[int, int]:
    """Return how many lines were added and removed between two states of the code, {file: text}."""
    lines = [
        line
        for name in before.keys() | after.keys()
        if before.get(name) != after.get(name)
        for line in difflib.unified_diff(before.get(name, "").splitlines(), after.get(name, "").splitlines(), n=0)
        if not line.startswith(("+++", "---", "@@"))
    ]
    return sum(line[0] == "+" for line in lines), sum(line[0] == "-" for line in lines)
