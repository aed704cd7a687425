"""Ideas that a project tried as experiments, by its ledger: the chain of kept ones, and what comes after the newest."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from trainwright.tools.answers import NextCall
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.phase_status import phase_status_of
from trainwright.tools.gates.phases import Phase
from trainwright.tools.gates.studies import ACTIVE, every_study
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.workspace import checked_name
from trainwright.trainer.base.canonical import digest_bytes
from trainwright.trainer.config.search_words import asked_ideas
from trainwright.trainer.run import RunKind

DOCUMENT = "phases/04_optimization/experiments.md"
PLANNED = "planned"
"""Name of the state that planning and baseline accepted."""
KEPT, DISCARDED, UNDECIDED, CRASHED = "kept", "discarded", "undecided", "crashed"
FOLDER, MANIFEST = "snapshots", ".snapshot.json"
"""Of a project's states of code, and in each the digests of its files."""
MAX_IN_VAIN = 5
"""Newest ideas none of which was kept, after which the chain is measured."""
MIN_REPEATS, USUAL_REPEATS = 3, 8
"""Seeds of a chain's measurement."""
MAX_FILES = 4
"""Named in a reason."""


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


def accepted_code(evidence: Evidence) -> str | None:
    """Return the snapshot that the present configuration's baseline was trained with; None where there is none."""
    return evidence.baseline.directory.specification().code_state if evidence.baseline is not None else None


def folder_of_snapshot(workspace: Workspace, project: str, digest: str) -> Path:
    """Return where a snapshot is kept, whether it is there or not."""
    return workspace.project_folder(project) / FOLDER / checked_name(digest.rpartition(":")[2][:32])


def digests_of_snapshot(folder: Path) -> dict[str, str]:
    """Return the digest of each copied file by its path, as it was taken."""
    found: dict[str, str] = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    return found


def with_code(evidence: Evidence, digest: str) -> Evidence:
    """Return the evidence with its gates held to a snapshot of the code, and not to the folder's."""
    folder = folder_of_snapshot(evidence.workspace, evidence.name, digest)
    return Evidence(
        evidence.session, evidence.workspace, evidence.name,
        inspection=evidence.inspection, code_root=folder, code_state=digest,
    )  # fmt: skip


def research_call(evidence: Evidence, phase: Phase) -> NextCall | None:
    """Return the call of a research loop: of one under way, or of one that the intent asks for; else None.

    A loop is under way where something was kept, where the folder holds another code than the accepted one, which is
    the next idea then, or where the intent asks for ideas. It ends with its chain's measurement, after five ideas in
    vain without a chain, and where something newer was measured or configured. It waits for the diagnosis, and for
    gates that are stale for another reason than the folder's code.

    Args:
        phase: the project's.
    """
    every, asked = experiments_of(evidence), asked_ideas(evidence.project.intent)
    own = [one for one in every if one.base_config_digest == evidence.config_digest]
    if not every and asked and phase is Phase.OPTIMIZATION:
        idea = f"start_tuning(project={evidence.name!r}, search={{'experiment': {{'idea': '…'}}}})"
        why = f"the intent asks for ideas ({asked!r}): edit the code, or name `changes`, then {idea}, one at a time"
        return _read("the-verdict", why)
    if own and own[-1].state in ACTIVE:
        watched = {"study_id": own[-1].study, "wait_seconds": 50}
        return NextCall(tool="tuning_status", arguments=watched, why=f"{own[-1].name} is under way")
    if not own or phase is Phase.DIAGNOSTICS or _is_left(evidence, own[-1]) or not _may_go_on(evidence):
        return None
    return _going_on(evidence, own, is_wanted=bool(asked) or phase is Phase.PLANNING)


def _going_on(evidence: Evidence, own: Sequence[Experiment], *, is_wanted: bool) -> NextCall | None:
    """Return what comes after the newest experiment: another idea, the chain's measurement, its use; or nothing."""
    chain = chain_of(own, Experiment.of_plan(str(accepted_code(evidence))))
    if (measured := _measured(own, chain)) is not None:
        return _bringing(evidence, measured) if measured.verdict == KEPT else None
    judged = [one for one in own if one.verdict not in {"", CRASHED} and not one.confirms]
    is_in_vain = len(judged) >= MAX_IN_VAIN and all(one.verdict != KEPT for one in judged[-MAX_IN_VAIN:])
    if len(chain) > 1 and is_in_vain:
        return _measuring(evidence, chain[-1])
    if len(chain) == 1 and (is_in_vain or not is_wanted):
        return None
    return _read("the-end", _onward(evidence, own[-1], chain[-1]))


def _may_go_on(evidence: Evidence) -> bool:
    """Whether the gates hold for the accepted code, so that a further experiment is permitted."""
    accepted = accepted_code(evidence)
    if accepted is None or not folder_of_snapshot(evidence.workspace, evidence.name, accepted).is_dir():
        return False
    held = phase_status_of(with_code(evidence, accepted))
    return all(held.gate(phase).status != "stale" for phase in (Phase.PLANNING, Phase.BASELINE))


def _measured(own: Sequence[Experiment], chain: Sequence[Experiment]) -> Experiment | None:
    """Return the newest measurement of a chain's last state against the plan; None where there is none."""
    first, last = chain[0], chain[-1]
    wanted = (last.code, last.changes, first.code, first.changes)
    measured = (one for one in own if one.confirms and one.verdict)
    states = [one for one in measured if (one.code, one.changes, one.against_code, one.against_changes) == wanted]
    return states[-1] if states else None


def _measuring(evidence: Evidence, last: Experiment) -> NextCall:
    """Return the call that measures a chain, with as many seeds as the limits leave."""
    why = f"none of the last {MAX_IN_VAIN} ideas was kept: measure the chain once on new seeds. Or another idea"
    repeats = evidence.trials_left // 2
    if repeats < MIN_REPEATS:
        left = (
            f"{evidence.trials_left} trials are left of the limits, and the chain's measurement takes {2 * MIN_REPEATS}"
        )
        return _read("the-end", f"{why}. {left}: the owner may allow more")
    whole = _whole(last) | ({} if repeats >= USUAL_REPEATS else {"max_repeats": repeats})
    return evidence.call("start_tuning", why, search={"experiment": whole, "width": 2})


def _whole(last: Experiment) -> dict[str, Any]:
    return {"idea": "the whole chain", "code": last.name, "against": PLANNED, "confirm": True}


def _onward(evidence: Evidence, own: Experiment, holds: Experiment) -> str:
    folder = folder_of_snapshot(evidence.workspace, evidence.name, holds.code)
    why = f"the next idea goes on from {holds.name}, whose code lies in {folder}"
    if holds.name != PLANNED:
        why += f"; or end: measure the chain once, search={{'experiment': {_whole(holds)!r}}}"
    if own.verdict == CRASHED:
        return f"correct the code and start it again; or {why}"
    if own.verdict == KEPT and own.name != holds.name:
        return f"it was kept against {own.against}, and {holds.name} is the incumbent: try it on top of that; {why}"
    return why


def _bringing(evidence: Evidence, own: Experiment) -> NextCall:
    """Return what brings a chain that holds into the project: its files first, then the call with its changes."""
    folder, root = folder_of_snapshot(evidence.workspace, evidence.name, own.code), evidence.code_root
    why = "the chain holds on new seeds: this brings it through the gates"
    call = evidence.call("start_training", why, kind=RunKind.SMOKE.value)
    if own.changes:
        call = evidence.call("configure", why, changes=own.changes, reason=f"{own.name}: {own.idea}"[:200])
    kept = digests_of_snapshot(folder) if folder.is_dir() else {}
    evidence.inspection.sources.note(*(root / name for name in kept))
    other = [name for name, digest in kept.items() if not _has(root / name, digest)]
    if not other:
        return call
    listed = ", ".join(other[:MAX_FILES]) + (", …" if len(other) > MAX_FILES else "")
    return _read("the-end", f"the chain holds on new seeds: copy {listed} from {folder} into {root}; then {call}")


def _has(path: Path, digest: str) -> bool:
    return path.is_file() and digest_bytes(path.read_bytes()) == digest


def _is_left(evidence: Evidence, newest: Experiment) -> bool:
    """Whether something was measured or configured since the newest experiment began."""
    began = next(sequence for sequence, body in evidence.entries("ablation") if body["study_id"] == newest.study)
    runs = [sequence for sequence, body in evidence.entries("run_started") if body["kind"] != RunKind.ABLATION.value]
    gates = [sequence for sequence, body in evidence.decisions if body["outcome"] != "refused"]
    changes = [sequence for kind in ("config_version", "study") for sequence, _ in evidence.entries(kind)]
    return any(sequence > began for sequence in (*runs, *gates, *changes))


def _read(section: str, why: str) -> NextCall:
    return NextCall(tool="read_document", arguments={"path": f"{DOCUMENT}#{section}"}, why=why)
