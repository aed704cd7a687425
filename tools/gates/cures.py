"""Fixes that were tried against an alert, and their results: on later baselines, and in short paired runs.

A fix that was tried and did not clear its alert is not proposed again; without any left, the owner may accept it.
"""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from trainwright.tools.answers import NextCall
from trainwright.tools.gates.records import Records
from trainwright.tools.ledger import ProjectFacts
from trainwright.tools.ledger.events import CureChanged
from trainwright.tools.owner.grants import DECISION, accepted_alerts
from trainwright.tools.owner.requests import REQUEST
from trainwright.tools.training_monitor.pairs import PairOutcome
from trainwright.trainer.base.records import Frozen
from trainwright.trainer.config import flatten, parse_config
from trainwright.trainer.run import RunKind

NOTABLE = 0.1
"""Of the way to the goal: a fix that came so much nearer goes on, though its alert is still raised."""
ENOUGH_TRIED = 2
"""Fixes without a gain after which a diagnosis recommends to conclude."""
OF_MEMORY = frozenset({"out_of_memory", "model_too_large"})
"""Alerts whose fixes may make the work smaller, which takes a reason."""
RANK = {"critical": 0, "warning": 1, "info": 2}


class Tried(Frozen):
    """One fix of an alert that a later baseline was trained with, or a short run beside one without it."""

    fix: str
    changes: dict[str, Any]
    before: float | None
    """The alert's measured value without the fix; None where that was not finite."""
    after: float | None
    """Its measured value with the fix; None where that was not finite, or the alert was gone."""
    value_before: float | None
    """The run's selection metric, at its best epoch."""
    value_after: float | None
    cleared: bool
    """Whether the alert was gone, or less severe; in short runs also whether nothing else became worse."""
    in_pairs: bool = False
    gained: bool = False
    """Whether a later baseline came nearer to the goal by a tenth of what was missing."""
    lost: bool = False
    """Whether a later baseline was worse for it, by an alert that is no more than a warning."""
    why: str = ""

    def __str__(self) -> str:
        """In a few words: `clip_gradients (100 -> 90; best value 0.3 -> 0.2)`."""
        measured = "cleared" if self.cleared else f"{_number(self.before)} -> {_number(self.after)}"
        if self.in_pairs:
            measured = f"in short runs: {'cured' if self.cleared else 'not cured'}, {self.why}"
        what = "at the end" if self.in_pairs else "best value"
        return f"{self.fix} ({measured}; {what} {_number(self.value_before)} -> {_number(self.value_after)})"


def tried(evidence: Records, alert: str, *, new: dict[str, Any] | None = None) -> list[Tried]:
    """Return the alert's fixes that were tried on this project's baselines, in order, each with its latest outcome.

    Args:
        new: body of a diagnosis that is not in the ledger yet.
    """
    bodies = [body for _, body in evidence.entries("diagnosis")] + ([new] if new else [])
    diagnosed = list({body["run_id"]: body for body in bodies}.values())
    values = {body["run_id"]: _values(evidence, body["run_id"]) for body in diagnosed}
    found: dict[str, Tried] = {}
    for place, before in enumerate(diagnosed):
        raised = _alert(before, alert)
        for fix in raised["fixes"] if raised else []:
            one = _tried(evidence, fix, alert, [before, *diagnosed[place + 1 :]], values)
            if one is not None:
                found[fix["id"]] = one
    return list(found.values())


def _tried(
    evidence: Records, fix: dict[str, Any], alert: str, bodies: list[dict[str, Any]], values: dict[str, dict[str, Any]]
) -> Tried | None:
    """Return what became of a fix of the first diagnosis on a later baseline: with its values, else in its direction.

    A step in its direction counts where the run was worse for it: a further one is in vain.
    """
    before, *later = bodies
    own, wanted = values[before["run_id"]], fix["changes"]
    if not wanted or _holds(wanted, own):
        return None
    is_mild = (_alert(before, alert) or {}).get("severity") != "critical"
    held = next((body for body in later if _holds(wanted, values[body["run_id"]])), None)
    beyond = [body for body in later if is_mild and goes_with(wanted, own, values[body["run_id"]])]
    outcomes = [_outcome(fix, alert, before, body) for body in ([held] if held else beyond)]
    worse = [one for one in outcomes if is_mild and _is_worse(evidence, one)]
    if not (held or worse):
        return None
    one = outcomes[0] if held else worse[0]
    return one.model_copy(update={"gained": is_mild and _has_gained(evidence, one), "lost": one in worse})


def tried_on(evidence: Records, alert: str, config_digest: str, *, new: dict[str, Any] | None = None) -> list[Tried]:
    """Return what was tried on later baselines, and in short runs of one configuration; a baseline's result counts."""
    paired = {
        fix: Tried(
            fix=fix, changes=one.changes, before=one.before, after=one.after, value_before=one.value_before,
            value_after=one.value_after, cleared=one.cured is True, in_pairs=True, why=one.why,
        )
        for fix, one in outcomes(evidence, alert, config_digest).items()
    }  # fmt: skip
    return list({**paired, **{one.fix: one for one in tried(evidence, alert, new=new)}}.values())


def untried(alert: dict[str, Any], done: list[Tried]) -> list[dict[str, Any]]:
    """Return the alert's fixes with changes, those that cured in short runs first.

    Those that were tried and did not clear it, or made the run worse, are left out; one that gained may go on in its
    direction.
    """
    present = {fix["id"]: fix["changes"] for fix in alert["fixes"]}
    goes_on = {one.fix for one in done if one.gained and one.changes != present.get(one.fix)}
    in_vain = {one.fix for one in done if one.lost or (not one.cleared and one.fix not in goes_on)}
    cured = {one.fix for one in done if one.cleared and one.in_pairs}
    left = [fix for fix in alert["fixes"] if fix["changes"] and fix["id"] not in in_vain]
    return sorted(left, key=lambda fix: fix["id"] not in cured)


def fixes_exhausted(evidence: Records, *, new: dict[str, Any] | None = None) -> str:
    """Return how many fixes were tried without a better value where none is left to try; empty where one may help.

    A diagnosis that says so recommends to conclude: baselines were trained with the fixes, the metric was no better
    after any of them, and no open alert has a further fix by a key.

    Args:
        new: body of a diagnosis that is not in the ledger yet.
    """
    bodies = [body for _, body in evidence.entries("diagnosis")] + ([new] if new else [])
    if not bodies or evidence.baseline is None or bodies[-1]["run_id"] != evidence.baseline.id:
        return ""
    names = {alert["id"] for body in bodies for alert in body["alerts"]}
    done = {name: tried(evidence, name, new=new) for name in sorted(names)}
    if any(untried(alert, on_baseline(evidence, alert["id"], new=new)) for alert in bodies[-1]["alerts"]):
        return ""
    found = {one.fix: one for fixes in done.values() for one in fixes}
    if len(found) < ENOUGH_TRIED or any(_is_better(evidence, one) for one in found.values()):
        return ""
    return (
        f"{len(found)} fixes were tried without a better {evidence.goal_metric}: {', '.join(map(str, found.values()))}"
    )


def fixed(evidence: Records, new: dict[str, Any]) -> list[str]:
    """Return the alerts of earlier baselines that a diagnosis does not raise any more, with the fix where it was one.

    Args:
        new: body of the diagnosis.
    """
    earlier = [body for _, body in evidence.entries("diagnosis") if body["run_id"] != new["run_id"]]
    open_now = {alert["id"] for alert in new["alerts"]}
    last = {alert["id"]: (body["run_id"], alert["severity"]) for body in earlier for alert in body["alerts"]}
    found = []
    for name, (run_id, severity) in last.items():
        if name not in open_now:
            by = [one.fix for one in tried(evidence, name, new=new) if one.cleared]
            found.append(f"{name} ({severity} on {run_id}): {f'cleared by {by[-1]}' if by else 'gone'}")
    return found


def on_baseline(evidence: Records, alert: str, *, new: dict[str, Any] | None = None) -> list[Tried]:
    """Return what was tried against an alert of the present configuration."""
    return tried_on(evidence, alert, evidence.config_digest, new=new)


def open_alerts(evidence: Records, alerts: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the critical alerts that the owner has not accepted, and the ids of those that the owner has.

    Who accepts a cause accepts its consequences; a cause that only a consequence makes critical is accepted with it.
    """
    critical = [alert for alert in alerts if alert["severity"] == "critical"]
    granted = accepted_alerts(evidence.grants)
    accepted = {one["id"] for one in critical if {one["id"], one.get("consequence_of")} & granted}
    for one in critical:
        caused = {other["id"] for other in critical if other.get("consequence_of") == one["id"]}
        if one.get("by_itself") and caused and caused <= accepted:
            accepted.add(one["id"])
    return [one for one in critical if one["id"] not in accepted], [
        one["id"] for one in critical if one["id"] in accepted
    ]


def accepted_open(evidence: Records) -> list[str]:
    """Return the ids of the critical alerts that are open on the baseline and that the owner accepts."""
    run_id = evidence.baseline.id if evidence.baseline is not None else None
    own = [body for _, body in evidence.entries("diagnosis") if body["run_id"] == run_id]
    return open_alerts(evidence, own[-1]["alerts"])[1] if own else []


def described(evidence: Records, alert: dict[str, Any]) -> str:
    """Return the alert's id, with the fixes that did not clear it."""
    done = [str(one) for one in on_baseline(evidence, alert["id"]) if not one.cleared]
    return f"{alert['id']} (tried without clearing it: {', '.join(done)})" if done else str(alert["id"])


def cure(evidence: Records, alert: dict[str, Any]) -> NextCall:
    """Name the first fix not yet tried; without one, the grant to request and the document to read."""
    fixes = untried(alert, on_baseline(evidence, alert["id"]))
    if fixes:
        why = f"{alert['id']}: {fixes[0]['text']} Then train the baseline again."
        stated = {"reason": f"{alert['id']}: {fixes[0]['text']}"} if alert["id"] in OF_MEMORY else {}
        return evidence.call("configure", why, changes=fixes[0]["changes"], **stated)
    advice = " ".join(fix["text"] for fix in alert["fixes"] if not fix["changes"])
    state = _request(evidence, alert["id"])
    if state is None:
        why = (
            f"no fix is left to try that a key can make; the owner may accept the alert. Advice for your code: {advice}"
        )
        return evidence.call("configure", why.strip(), ask_owner={"alert": alert["id"]})
    if state == "pending":
        return evidence.call("project_status", f"the owner is asked to accept {alert['id']}: `trainwright approve`")
    why = f"the owner does not accept {alert['id']}; the code has to change: {advice}"
    return NextCall(tool="read_document", arguments={"path": alert["document"]}, why=why)


def _is_better(evidence: Records, one: Tried) -> bool:
    if one.value_after is None:
        return False
    sign = 1.0 if evidence.goal["direction"] == "maximize" else -1.0
    return one.value_before is None or sign * one.value_after > sign * one.value_before


def _is_worse(evidence: Records, one: Tried) -> bool:
    known = one.value_before is not None and one.value_after is not None
    return known and one.value_after != one.value_before and not _is_better(evidence, one)


def _has_gained(evidence: Records, one: Tried) -> bool:
    if one.value_before is None or one.value_after is None:
        return False
    missing = abs(float(evidence.goal["target"]) - one.value_before)
    return _is_better(evidence, one) and abs(one.value_after - one.value_before) >= NOTABLE * missing


def _request(evidence: Records, alert: str) -> str | None:
    """Return whether the owner was asked to accept an alert: pending, answered (not granted, or lapsed), or None."""

    def named(body: dict[str, Any]) -> bool:
        grant = body.get("wish") or {}
        return grant.get("kind") == "alert" and grant.get("name") == alert

    if any(named(body) for _, body in evidence.entries(DECISION)):
        return "answered"
    return "pending" if any(named(body) for _, body in evidence.entries(REQUEST)) else None


def _alert(body: dict[str, Any], alert: str) -> dict[str, Any] | None:
    return next((one for one in body["alerts"] if one["id"] == alert), None)


def _values(evidence: Records, run_id: str) -> dict[str, Any]:
    """Return the dotted values of the configuration that a run was trained with, by the ledger."""
    start, versions = evidence.facts.started.get(run_id), evidence.facts.configurations.values()
    kept = next((version for version in versions if start and version.digest == start.config_digest), None)
    return flatten(parse_config(kept.values).model_dump(mode="json")) if kept is not None else {}


def _holds(changes: dict[str, Any], values: dict[str, Any]) -> bool:
    return all(key in values and values[key] == value for key, value in changes.items())


def goes_with(changes: dict[str, Any], before: dict[str, Any], after: dict[str, Any]) -> bool:
    """Return whether two configurations differ in the changed keys alone, by numbers in the changes' direction."""
    numbers = (changes, before, after)
    if not all(isinstance(each.get(key), int | float) for key in changes for each in numbers):
        return False
    alone = all(before[key] == after.get(key) for key in before.keys() - changes.keys() if not key.startswith("search"))
    steps = [(after[key] - before[key], wanted - before[key]) for key, wanted in changes.items()]
    return alone and all(gone * asked > 0 and abs(gone) <= abs(asked) for gone, asked in steps)  # no further than asked


def _outcome(fix: dict[str, Any], alert: str, before: dict[str, Any], after: dict[str, Any]) -> Tried:
    first, then = _alert(before, alert), _alert(after, alert)
    assert first is not None, "the fix is one of this alert's"  # noqa: S101
    return Tried(
        fix=fix["id"],
        changes=fix["changes"],
        before=first["measured"],
        after=then["measured"] if then else None,
        value_before=before["assessment"].get("best_value"),
        value_after=after["assessment"].get("best_value"),
        cleared=then is None or RANK[then["severity"]] > RANK[first["severity"]],
    )


def _number(value: float | None) -> str:
    return "not finite" if value is None else f"{value:.4g}"


# Trials of an alert's fixes in short paired runs, as the ledger records them.

RUNNING, ENDED, STOPPED = "running", "ended", "stopped"
KIND = RunKind.CURE.value
CONTROL = "control"
"""In the key of the run without any fix, where the others have their fix's id."""


def cures_of(evidence: Records) -> list[CureChanged]:
    """Return the project's trials of fixes with their latest state, in the order in which they began."""
    found: dict[str, CureChanged] = {}
    for _, body in evidence.entries(CureChanged.name):
        try:
            event = CureChanged.model_validate(body)
        except ValidationError:  # `verify` names the entry
            continue
        known = found.get(event.cure_id)
        found[event.cure_id] = known.model_copy(update=event.body()) if known is not None else event
    return list(found.values())


def cure_of(evidence: Records, run_id: str) -> CureChanged | None:
    """Return the newest trial of the fixes of one run's alerts, or of another run of the same configuration."""
    start = evidence.facts.started.get(run_id)
    alike = [one for one in cures_of(evidence) if start is not None and one.config_digest == start.config_digest]
    return alike[-1] if alike else None


def outcomes(evidence: Records, alert: str, config_digest: str) -> dict[str, PairOutcome]:
    """Return by fix what the trials of one alert gave on one configuration; the latest of each fix."""
    cures = [one for one in cures_of(evidence) if (one.alert, one.config_digest) == (alert, config_digest)]
    found: dict[str, PairOutcome] = {}
    for values in (values for one in cures for values in one.outcomes):
        outcome = read_outcome(values)
        if outcome is not None and outcome.cured is not None:
            found[outcome.fix] = outcome
    return found


def read_outcome(values: dict[str, Any]) -> PairOutcome | None:
    """Return an outcome from its ledger entry; None of one that was damaged."""
    try:
        return PairOutcome.model_validate(values)
    except ValidationError:
        return None


def run_key(cure_id: str, fix: str | None) -> str:
    """Return the idempotency key of one run of a trial: with one fix, or without any."""
    return f"{cure_id}/{fix or CONTROL}"


def runs_of_cure(facts: ProjectFacts, cure_id: str) -> dict[str, str]:
    """Return the runs of a trial by their fix, that without any as `control`, in order.

    A run of another kind that was started under such a key is none of them.
    """
    started = [(start.idempotency_key or "", run_id) for run_id, start in facts.started.items() if start.kind == KIND]
    return {key.removeprefix(f"{cure_id}/"): run_id for key, run_id in started if key.startswith(f"{cure_id}/")}
