"""Evidence carried over a change that may not matter, where a short replay shows that it does not (PHASE-8).

A patch version of a package, a module that moved, a newer Trainwright: the first steps of the recorded baseline are
trained again under the present surroundings. Where every recorded loss, gradient norm and rate is the same bit for
bit, the ledger names the replay, and planning's evidence is compared with that replay from then on.
"""

from __future__ import annotations

from typing import Any

from trainwright.tools.answers import NextCall
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.phase_status import PhaseStatus
from trainwright.tools.gates.phases import Phase
from trainwright.tools.gates.releases import is_short_replay, other_than_planned
from trainwright.tools.gates.run_evidence import RunEvidence
from trainwright.tools.gates.staleness import opened_since
from trainwright.tools.ledger import record
from trainwright.tools.ledger.events import CarriedOver
from trainwright.trainer.run import RunKind

STEPS = 50
"""Optimizer steps of the replay; all of them, where the baseline has fewer."""
SERIES = ("train/loss", "train/gradient_norm", "train/learning_rate")
MAY_NOT_MATTER = ("environment: ", "engine: ")


def may_be_carried(evidence: Evidence, where: PhaseStatus) -> bool:
    """Return whether all that makes planning stale could be shown to have no effect by a short replay."""
    if where.phase is not Phase.PLANNING or not (reasons := where.gate(Phase.PLANNING).reasons):
        return False
    return all(map(_may_not_matter, reasons)) and _baseline(evidence) is not None


def carry_over_call(evidence: Evidence) -> NextCall | None:
    """Name the short replay that may carry the plan's evidence over to the present; None where none can, or did not.

    A replay that differed under these very surroundings is not proposed again.
    """
    smoke, source = evidence.smoke, _baseline(evidence)
    if smoke is None or source is None or not any(body["phase"] == "planning" for _, body in evidence.decisions):
        return None
    changes = [*evidence.surroundings(smoke), *opened_since(evidence, smoke)]
    tried = [
        run
        for run in _short_replays(evidence, source)
        if run.is_complete
        and (run.directory.specification().max_steps or 0) >= steps_of(source)
        and not evidence.surroundings(run)
    ]
    if not changes or tried or not all(map(_may_not_matter, changes)):
        return None
    why = f"{'; '.join(changes[:2])}: if its first steps come out bit for bit, nothing is trained anew"
    return evidence.call("verify_reproducibility", why, run_id=source.id, steps=steps_of(source))


def told_steps(evidence: Evidence, where: PhaseStatus, source_id: str, asked: int) -> tuple[int, str]:
    """Return how many steps a short replay of a run repeats, and what they are good for.

    Args:
        asked: the caller's number: fewer than carry a stale plan over would show nothing.
    """
    source = _baseline(evidence) if may_be_carried(evidence, where) else None
    if source is not None and source.id == source_id:
        needed = steps_of(source)
        return max(asked, needed), f"steps {asked} -> {needed}: so many carry the plan over" if asked < needed else ""
    why = "no passed gate is stale"
    if source is not None:
        why = f"the plan is carried over by the first steps of {source.id}"
    elif (reasons := where.gate(where.phase).reasons) or where.is_finished:
        why = f"what changed is measured anew ({'; '.join(reasons[:2])})" if reasons else "the project is finished"
    elif (run := evidence.run(source_id)) is not None and (other := other_than_planned(evidence, run)):
        why = f"{source_id} is of an earlier plan ({', '.join(other[:2])}), and is made anew whatever this shows"
    return asked, f"the first {asked} steps are compared, which opens no gate: {why}"


def steps_of(source: RunEvidence) -> int:
    """Return how many of a run's steps a short replay repeats."""
    return min(STEPS, source.summary.steps or STEPS)


def record_carry_over(evidence: Evidence, replay: RunEvidence) -> bool:
    """Record, in the transaction that seals a short replay, that it carries the plan over; return whether it does."""
    smoke, source = evidence.smoke, evidence.run(replay.row.source_run or "")
    planned = [at for at, body in evidence.decisions if body["phase"] == "planning" and body["outcome"] != "refused"]
    if smoke is None or source is None or not planned:
        return False
    changes = evidence.surroundings(smoke)
    carries = changes and all(map(_may_not_matter, changes)) and not shortcomings(evidence, smoke, source, replay)
    if not carries:
        return False
    carried = CarriedOver(
        replay=replay.id, source=source.id, smoke_run=smoke.id, planning=planned[-1], steps=steps_of(source),
        changes=changes,
    )  # fmt: skip
    record(evidence.session, evidence.name, carried)
    return True


def shortcomings(evidence: Evidence, smoke: RunEvidence, source: RunEvidence, replay: RunEvidence) -> list[str]:
    """Return why a replay does not show that the plan's evidence holds under its surroundings; none: it does."""
    found = []
    for run in (source, replay):
        found += run.differences if run.is_complete else [f"run {run.id} is not complete"]
    if found:
        return found
    if source.row.kind != RunKind.BASELINE or replay.row.source_run != source.id:
        found.append(f"run {replay.id} repeats no baseline")
    if other_than_planned(evidence, source):
        found.append(f"run {source.id} was not made under the plan")
    if replay.data.fingerprint != smoke.data.fingerprint:
        found.append("the data is another")
    if _all_meanings(replay) != _all_meanings(smoke):
        found.append("the code means something else")
    if replay.reproducibility.settings != source.reproducibility.settings:
        found.append("the deterministic settings differ")
    return found + _different_series(source, replay)


def _different_series(source: RunEvidence, replay: RunEvidence) -> list[str]:
    steps = steps_of(source)
    found = []
    for key in SERIES:
        theirs, ours = (
            [(point.step, repr(point.value)) for point in run.directory.metrics().series(key) if point.step <= steps]
            for run in (source, replay)
        )
        if theirs != ours or (key == SERIES[0] and len(ours) < steps):  # a user's train step records no norms
            found.append(f"{key} does not come out the same over {steps} steps")
    return found


def _baseline(evidence: Evidence) -> RunEvidence | None:
    """Return the baseline whose beginning is repeated: complete, unchanged, and made under the plan."""
    run = evidence.baseline
    if run is None or evidence.smoke is None or not run.is_complete or run.differences:
        return None
    return None if other_than_planned(evidence, run) else run


def _short_replays(evidence: Evidence, source: RunEvidence) -> list[RunEvidence]:
    started = evidence.facts.started.items()
    ids = [run_id for run_id, start in started if (start.kind, start.source_run) == (RunKind.REPLAY, source.id)]
    return [run for run_id in ids if (run := evidence.run(run_id)) is not None and is_short_replay(run)]


def _may_not_matter(change: str) -> bool:
    return change.startswith(MAY_NOT_MATTER) or (change.startswith("code: ") and change.endswith(" was removed"))


def _all_meanings(run: RunEvidence) -> list[Any]:
    return sorted((run.code.meanings or run.code.files).values())
