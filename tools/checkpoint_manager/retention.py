"""Retention policy: the weights that a project may do without, and the checkpoints that no plan may offer."""

from __future__ import annotations

import json
import math
from typing import Any, NamedTuple

from sqlalchemy import select

from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.run_evidence import RunEvidence
from trainwright.tools.ledger.seals import is_tombstone_of
from trainwright.tools.workspace.records import ACTIVE, latest_config
from trainwright.tools.workspace.settings import RetentionPolicy
from trainwright.tools.workspace.tables import Project, Study
from trainwright.trainer.checkpoints.index import (
    WEIGHTS,
    CheckpointRecord,
    has_weights,
    list_checkpoints,
    read_manifest,
)
from trainwright.trainer.run import RunKind, RunState

RESUMABLE = frozenset({RunState.STOPPED, RunState.INTERRUPTED, RunState.FAILED})
NEVER_OFFERED = frozenset({"best", "last"})
"""Tags of the checkpoints that stay, in a run that something depends on."""


class Offer(NamedTuple):
    """One checkpoint whose weights may be deleted."""

    run_id: str
    kind: str
    record: CheckpointRecord
    why: str

    @property
    def weight_bytes(self) -> int:
        """Size of the files that would be deleted."""
        return weight_bytes(self.record)


class Plan(NamedTuple):
    """Weights that pruning would delete, the least useful first, and the bytes of all weights present."""

    offers: list[Offer]
    present_bytes: int


def weight_bytes(record: CheckpointRecord) -> int:
    """Return the size of a checkpoint's weights and optimizer state on the disk."""
    manifest = read_manifest(record.path) or {"files": {}}
    return sum(int(manifest["files"][name]["bytes"]) for name in WEIGHTS if name in manifest["files"])


def plan(evidence: Evidence, policy: RetentionPolicy) -> Plan:
    """Return the checkpoints that the policy lets go. Raises TrainwrightError on damaged records of runs."""
    runs = [run for run_id in evidence.facts.started if (run := evidence.run(run_id)) is not None]
    needed, busy = runs_in_use(evidence), _busy(evidence, runs) | _named(evidence, runs)
    best = _best_run(evidence, runs)
    offers: list[Offer] = []
    present = 0
    for run in runs:
        records = [record for record in list_checkpoints(run.directory) if has_weights(record.path)]
        present += sum(map(weight_bytes, records))
        if run.id in busy:
            continue
        kept = _kept(evidence, run, records, policy) | _spared(run, needed, best, records)
        why = _why(run, needed)
        gone = [record for record in records if record.name not in kept]
        offers += [Offer(run.id, run.row.kind, record, why) for record in gone]
    offers.sort(key=lambda offer: (offer.run_id in needed, offer.kind != RunKind.TRIAL))
    return Plan(_within(offers, present, policy.budget_bytes), present)


def runs_in_use(evidence: Evidence) -> set[str]:
    """Return the runs that gates, releases, registered models and the present configuration depend on."""
    bodies = [body for _, body in evidence.entries("gate") if body["outcome"] != "refused"]
    newest = {body["phase"]: body for body in bodies}
    counting = [*newest.values(), *(body for body in bodies if body["phase"] == "finalization")]
    found = {run for body in counting for run in [*body["rested_on"].get("runs", []), body["rested_on"]["smoke_run"]]}
    models = [body for _, body in evidence.entries("model_registered")]
    found |= {str(run) for body in models for run in (body["run_id"], body.get("lineage", {}).get("run"))}
    present = (evidence.smoke, evidence.baseline, evidence.final, evidence.replay, evidence.export)
    return found | {run.id for run in present if run is not None}


def pruned_in_use(evidence: Evidence) -> list[str]:
    """Return a sentence for every tombstone of a checkpoint that pruning never offers: only a forger writes one."""
    problems = []
    for run_id in sorted(runs_in_use(evidence) & evidence.facts.pruned.keys()):
        run = evidence.run(run_id)
        stones = evidence.facts.pruned[run_id]
        records = list_checkpoints(run.directory) if run is not None else []
        problems += [
            f"run {run_id}: the ledger says that {record.name} was pruned, which a gate depends on"
            for record in records
            if is_tombstone_of(stones.get(record.name), record) and NEVER_OFFERED & set(record.tags)
        ]
    return problems


def _busy(evidence: Evidence, runs: list[RunEvidence]) -> set[str]:
    """Return runs that are at work or may be resumed, what they repeat or export, and those of studies under way."""
    found: set[str] = set()
    for run in runs:
        study = evidence.session.get(Study, run.row.study) if run.row.study else None
        is_current = run.row.base_config_digest == evidence.config_digest and run.row.study is None
        resumable = run.status.state in RESUMABLE and is_current
        if run.sealed is None or resumable or (study is not None and study.state in ACTIVE):
            found |= {run.id, *filter(None, [run.row.source_run])}
    return found


def _named(evidence: Evidence, runs: list[RunEvidence]) -> set[str]:
    """Return runs whose files a project's present configuration names: a teacher, or weights to begin from."""
    names = evidence.session.scalars(select(Project.name))
    values = [json.dumps(latest_config(evidence.session, name).values) for name in names]
    return {run.id for run in runs if any(run.id in text for text in values)}


def _best_run(evidence: Evidence, runs: list[RunEvidence]) -> str | None:
    """Return the run with the best validation value of the goal's metric, whatever its kind."""
    sign = -1.0 if evidence.project.goal["direction"] == "maximize" else 1.0
    values = {run.id: run.best_value(evidence.goal_metric) for run in runs if run.is_complete}
    finite = {run_id: sign * value for run_id, value in values.items() if value is not None and math.isfinite(value)}
    return min(finite, key=lambda run_id: finite[run_id], default=None)


def _spared(run: RunEvidence, needed: set[str], best: str | None, records: list[CheckpointRecord]) -> set[str]:
    tags = NEVER_OFFERED if run.id in needed else frozenset({"best"} if run.id == best else ())
    return {record.name for record in records if tags & set(record.tags)}


def _kept(evidence: Evidence, run: RunEvidence, records: list[CheckpointRecord], policy: RetentionPolicy) -> set[str]:
    names = [record.name for record in records]
    every = policy.keep_every_n_epochs
    kept = set(names[len(names) - policy.keep_last :]) if policy.keep_last else set()
    kept |= {record.name for record in records if every and record.epoch > 0 and record.epoch % every == 0}
    return kept | set(_by_value(evidence, run, records)[: policy.keep_best])


def _by_value(evidence: Evidence, run: RunEvidence, records: list[CheckpointRecord]) -> list[str]:
    """Return the names of the checkpoints that have a value of the goal's metric, the best first."""
    sign = -1.0 if evidence.project.goal["direction"] == "maximize" else 1.0
    measured = ((event.data.get("step"), event.data.get("validation") or {}) for event in run.directory.events("epoch"))
    values = {
        step: sign * float(found[evidence.goal_metric]) for step, found in measured if evidence.goal_metric in found
    }
    known = [record for record in records if math.isfinite(values.get(record.step, math.nan))]
    return [record.name for record in sorted(known, key=lambda record: (values[record.step], record.step))]


def _why(run: RunEvidence, needed: set[str]) -> str:
    if run.id in needed:
        return "neither best nor last"
    return "trial" if run.row.study else "superseded"


def _within(offers: list[Offer], present_bytes: int, budget_bytes: int | None) -> list[Offer]:
    """Return the first offers that bring the weights under the budget; all without one."""
    if budget_bytes is None:
        return offers
    taken: list[Offer] = []
    for offer in offers:
        if present_bytes <= budget_bytes:
            break
        present_bytes -= offer.weight_bytes
        taken.append(offer)
    return taken


def tombstone(offer: Offer) -> dict[str, Any]:
    """Return the ledger's record of a checkpoint whose weights are deleted: digest and size of every file."""
    manifest = read_manifest(offer.record.path) or {"files": {}}
    files = {name: manifest["files"][name] for name in WEIGHTS if name in manifest["files"]}
    own = {"run_id": offer.run_id, "name": offer.record.name, "step": offer.record.step}
    return {**own, "digest": offer.record.digest, "files": files, "why": offer.why}
