"""Scope of a configuration, and its changes after memory ran out: smaller work is no cure, and has to be stated.

What belongs to the scope stands in `diagnostics/out_of_memory.md`. Everything is derived from the ledger's versions and
sealed runs, so that an agent cannot leave it out.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any, NamedTuple

from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.run_evidence import RunEvidence
from trainwright.tools.training_monitor.documents import ScopeRule, load_diagnostics
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.config import flatten, parse_config
from trainwright.trainer.run import RunKind, RunState

OUT_OF_MEMORY = "out_of_memory"
DOCUMENT = "diagnostics/out_of_memory.md"
TRAINING = frozenset(kind.value for kind in set(RunKind) - {RunKind.EXPORT, RunKind.REPLAY, RunKind.CURE})
MAX_NAMED = 5


class ScopeChange(NamedTuple):
    """One value of the scope that was changed after a run had met the end of memory."""

    run: str
    what: str
    """The rule's text and key: `length of a text, data.args.max_length`."""
    before: Any
    after: Any
    reason: str

    def __str__(self) -> str:
        """In words."""
        why = f" ({self.reason})" if self.reason else " (worked out by that run)"
        return f"{self.what} {self.before!r} -> {self.after!r} after {self.run} ran out of memory{why}"


def scope_of(values: dict[str, Any]) -> dict[str, Any]:
    """Return a configuration's values that decide what is learned, by rule and key; of a product one value."""
    flat = flatten(parse_config(values).model_dump(mode="json"))
    rules = next(one.scope for one in load_diagnostics() if one.id == OUT_OF_MEMORY)
    named = {key for rule in rules for key in rule.keys}
    found: dict[str, Any] = {}
    for rule in rules:
        if rule.product:
            found[f"{rule.text}, {' x '.join(rule.keys)}"] = prod(flat.get(key) or 1 for key in rule.keys)
        else:
            found |= {f"{rule.text}, {key}": flat[key] for key in flat if _belongs(key, rule, named)}
    return found


def changed_scope(old: dict[str, Any], new: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Return the values of the scope that differ between two configurations, as (before, after)."""
    first, second = scope_of(old), scope_of(new)
    keys = [key for key in first | second if first.get(key) != second.get(key)]
    return {key: (first.get(key), second.get(key)) for key in keys}


def scope_changes(evidence: Evidence) -> list[ScopeChange]:
    """Return the scope's changes between a run out of memory and the next of its kind that completed.

    Values that are again what they were are left out.
    """
    found: dict[str, ScopeChange] = {}
    for run, old, version in _versions_after(evidence):
        for key, (before, after) in changed_scope(old, version["values"]).items():
            first = found.get(key, ScopeChange(run.id, key, before, after, ""))
            found[key] = first._replace(after=after, reason=version.get("reason", ""))
    now = scope_of(evidence.version.values)
    return [one._replace(after=now.get(key)) for key, one in found.items() if now.get(key) != one.before]


def require_reason(evidence: Evidence, new: dict[str, Any]) -> None:
    """Refuse a change of the scope without a reason while the newest run out of memory was followed by no better one.

    What the failed run worked out itself needs none.

    Args:
        new: the configuration's values with the change.

    Raises:
        ConfigurationError: smaller work is not stated as such.
    """
    run = out_of_memory(evidence)
    if run is None:
        return
    failure = run.status.failure
    proposed = failure.details.get("changes") or {} if failure is not None else {}
    changed = {
        key: pair
        for key, pair in changed_scope(evidence.version.values, new).items()
        if key.rpartition(", ")[2] not in proposed
    }
    if not changed:
        return
    told = "; ".join(f"{key} {before!r} -> {after!r}" for key, (before, after) in list(changed.items())[:MAX_NAMED])
    reason = f"{run.id} ran out of memory: {told}"
    raise ConfigurationError(
        f"{run.id} ran out of memory, and this would make it fit by training something else without saying so: {told}.",
        remedy=f"The same call with reason={reason!r}, which the planning gate and the model card show; or keep what "
        "is learned: a smaller batch accumulated more often, gradient checkpointing, bf16.",
        document=DOCUMENT,
        details={"amend": {"reason": reason}},
    )


def out_of_memory(evidence: Evidence) -> RunEvidence | None:
    """Return the newest run out of memory after which none of its kind has completed; None where there is none."""
    failed: dict[str, RunEvidence] = {}
    for _, kind, body in _events(evidence):
        if kind == "run_sealed":
            _take(evidence, body, failed)
    return next(reversed(failed.values()), None)


def _versions_after(evidence: Evidence) -> Iterator[tuple[RunEvidence, dict[str, Any], dict[str, Any]]]:
    """Give (run out of memory, values before, version kept) in the ledger's order."""
    failed: dict[str, RunEvidence] = {}
    values: dict[str, Any] | None = None
    for _, kind, body in _events(evidence):
        if kind == "run_sealed":
            _take(evidence, body, failed)
            continue
        if failed and values is not None:
            yield next(reversed(failed.values())), values, body
        values = body["values"]


def _events(evidence: Evidence) -> list[tuple[int, str, dict[str, Any]]]:
    found = [
        (number, kind, body) for kind in ("config_version", "run_sealed") for number, body in evidence.entries(kind)
    ]
    return sorted(found, key=lambda one: one[0])


def _take(evidence: Evidence, sealed: dict[str, Any], failed: dict[str, RunEvidence]) -> None:
    """Note a run out of memory under its kind, and forget it where one of the kind has completed since."""
    start = evidence.facts.started.get(sealed["run_id"])
    if start is None or start.study is not None or start.kind not in TRAINING:  # a study's values are its own
        return
    if sealed["state"] == RunState.COMPLETED:
        failed.pop(start.kind, None)
    elif sealed["state"] == RunState.FAILED and (run := evidence.run(start.run_id)) is not None:
        failure = run.status.failure
        if failure is not None and failure.category == OUT_OF_MEMORY:
            failed.pop(start.kind, None)
            failed[start.kind] = run


def _belongs(key: str, rule: ScopeRule, named: set[str]) -> bool:
    """Return whether a key is the rule's, or below one of its sections and named by no rule."""
    return key in rule.keys or (key not in named and any(key.startswith(f"{name}.") for name in rule.keys))
