"""Ranges whose ends a probe has found: `{"type": "float", "from": "range_test"}` becomes a range with low and high.

The ends are written into the study's search when it starts, and the probe's id beside it; a study that goes on, or is
asked for again, has those and measures nothing anew.
"""

from __future__ import annotations

import json
from typing import Any

from trainwright.tools.answers import NextCall
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.releases import holds_now
from trainwright.tools.gates.run_evidence import RunEvidence
from trainwright.tools.gates.study_check import BATCH_SIZE_FINDER, RANGE_TEST, found_range
from trainwright.tools.ledger import seal_differences
from trainwright.trainer.base.errors import ConfigurationError, ConflictError
from trainwright.trainer.run import RunKind
from trainwright.trainer.run.results import Probe

TYPES = {RANGE_TEST: ("float",), BATCH_SIZE_FINDER: ("categorical", "int")}
"""Types of range that each test can give, its usual one first."""
BATCH_SIZE = "loader.batch_size"
FROM = "from"
KEPT = ("when", "points")
"""Keys of a range that a test leaves as they are given."""
DOCUMENT = "phases/04_optimization/workflow.md"


def with_found_bounds(
    evidence: Evidence, search: dict[str, Any] | None
) -> tuple[dict[str, Any] | None, dict[str, Any], list[str]]:
    """Return the search with the ends that probes found, {key: {from, probe}} of those, and notes that name them.

    Raises:
        ConfigurationError: a test that does not exist, or that measures nothing of that key.
        ConflictError: no probe of this configuration, data and packages, or one that found no ends.
    """
    given = (search or {}).get("space")
    space: dict[str, Any] = given if isinstance(given, dict) else {}
    asked = {key: range_ for key, range_ in space.items() if isinstance(range_, dict) and FROM in range_}
    if search is None or not asked:
        return search, {}, []
    for key, range_ in asked.items():
        _check(evidence, search, key, range_)
    used = _used_before(evidence)
    probes = _probes(evidence)
    found: dict[str, Any] = {}
    bounds: dict[str, Any] = {}
    notes: list[str] = []
    for key, range_ in asked.items():
        probe = _probe_for(evidence, probes, used.get((key, range_[FROM])))
        type_ = range_.get("type") or TYPES[range_[FROM]][0]
        ends, why = found_range(probe.part(Probe), range_[FROM], type_, evidence.config.loader.batch_size)
        if why:
            raise _nothing_found(key, probe, why)
        kept = {name: range_[name] for name in KEPT if name in range_}
        found[key], bounds[key] = {**ends, **kept}, {FROM: range_[FROM], "probe": probe.id}
        shown = json.dumps({name: value for name, value in ends.items() if name not in {"type", "log"}})
        notes.append(f"{key}: {shown}, found by {probe.id}")
    return {**search, "space": {**space, **found}}, bounds, notes


def _check(evidence: Evidence, search: dict[str, Any], key: str, range_: dict[str, Any]) -> None:
    """Refuse what no test gives; the remedy is the same search with what it can give."""
    rate = evidence.config.optimizer.rate()
    keys = {RANGE_TEST: rate[0] if rate is not None else None, BATCH_SIZE_FINDER: BATCH_SIZE}
    source = range_[FROM]
    if not isinstance(source, str) or source not in keys:
        text = f"`{key}`: there is no test {source!r} that finds bounds; there are {', '.join(keys)}."
        source = next((name for name, own in keys.items() if own == key), BATCH_SIZE_FINDER)
    elif keys[source] is None:
        text, source = "Only the user's optimizer knows the learning rate; no range test sets it.", BATCH_SIZE_FINDER
    elif keys[source] != key:
        text = f"`{key}`: {source} finds bounds of `{keys[source]}` alone."
    elif range_.get("type", TYPES[source][0]) not in TYPES[source]:
        text = f"`{key}`: {source} gives a range of type {' or '.join(TYPES[source])}, not {range_['type']!r}."
    elif more := sorted(range_.keys() - {FROM, "type", *KEPT}):
        text = f"`{key}`: {source} finds the ends; leave {', '.join(more)} out, or give all of them and no `from`."
    else:
        return
    rest = {name: other for name, other in search["space"].items() if name != key}
    right = {**search, "space": {**rest, str(keys[source]): {"type": TYPES[source][0], FROM: source}}}
    raise ConfigurationError(
        text,
        remedy=f"start_tuning(project={evidence.name!r}, search={json.dumps(right)}).",
        document=DOCUMENT,
        details={"amend": {"search": right}},
    )


def _used_before(evidence: Evidence) -> dict[tuple[str, str], str]:
    """Return by (key, test) the probe that the newest study of this configuration took its bounds from."""
    return {
        (key, bound[FROM]): bound["probe"]
        for _, body in evidence.entries("study")
        if body.get("base_config_digest") == evidence.config_digest
        for key, bound in (body.get("bounds") or {}).items()
    }


def _probes(evidence: Evidence) -> list[RunEvidence]:
    """Return the completed, unchanged probes of this configuration on the present code, data and packages, in order."""
    found = []
    for run_id, start in evidence.facts.started.items():
        run = evidence.run(run_id) if start.kind == RunKind.PROBE else None
        seal = evidence.facts.seals.get(run_id)
        if run is None or seal is None or start.config_digest != evidence.config_digest or not run.is_complete:
            continue
        is_whole = not seal_differences(run.directory, seal.digests, evidence.inspection, seal.problem)
        if is_whole and holds_now(evidence, run):
            found.append(run)
    return found


def _probe_for(evidence: Evidence, probes: list[RunEvidence], used: str | None) -> RunEvidence:
    """Return the probe that an earlier study took, or the newest."""
    named = [probe for probe in probes if probe.id == used]
    if named or probes:
        return (named or probes)[-1]
    call = _probing(evidence, "it measures learning rates and batch sizes; then start the same search")
    raise ConflictError(
        "No probe has measured this configuration on its present code, data and packages: there are no bounds to take.",
        remedy=str(call),
        document=DOCUMENT,
        details={"next": call.model_dump(mode="json")},
    )


def _nothing_found(key: str, probe: RunEvidence, why: str) -> ConflictError:
    return ConflictError(
        f"{probe.id} gives no bounds of `{key}`: {why}.",
        remedy=f"Make the same call without `{key}`, or give its ends: {{'type': …, 'low': …, 'high': …}}.",
        document=DOCUMENT,
        details={"run": probe.id},
    )


def _probing(evidence: Evidence, why: str) -> NextCall:
    return evidence.call("start_training", why, kind="probe", wait_seconds=50)
