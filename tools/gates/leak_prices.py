"""Prices of leaks: how much of the baseline's figure was false, by one more run of the same plan without the leak.

The run's changes are the server's: those that the finding's remedy names. Configuration, seed and packages are the
baseline's; the figure is the one that the training process reported for both, on validation.
"""

from __future__ import annotations

import math
from typing import Any

from trainwright.tools.answers import NextCall
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.run_evidence import RunEvidence
from trainwright.trainer.base.errors import ConfigurationError, ConflictError, near_matches
from trainwright.trainer.base.records import Frozen
from trainwright.trainer.data.sources import SOURCES
from trainwright.trainer.data.validation.report import Verdict
from trainwright.trainer.run import RunKind
from trainwright.trainer.run.validation import Validation

LEAKS = "leaks"
DOCUMENT = "configs/data_leaks.md"
IN_POINTS = 1.0
"""Largest value of a metric that is told in points of a hundred."""
MIN_INPUTS = 2
DEVIATIONS = 2.0
"""Standard deviations of a difference of two figures below which it may be chance."""


class LeakPrice(Frozen):
    """What one leak was worth."""

    finding: str
    run_id: str
    baseline: str
    metric: str
    with_leak: float
    without_leak: float
    false: float
    """Difference in the metric's own unit; above 0: the baseline's figure was better than it should be."""
    noise: float = math.inf
    """Difference that so few validation rows may show by chance."""
    same_rows: bool
    """Whether both were evaluated on the same validation rows."""
    text: str

    @property
    def is_false(self) -> bool:
        """Whether a part of the baseline's figure was false, beyond chance."""
        return self.false > self.noise


def found_leaks(evidence: Evidence) -> list[Verdict]:
    """Return the leaks that validation found in the present configuration's data, the gravest first."""
    return leaks_of(evidence.smoke) if evidence.smoke is not None else []


def leaks_of(run: RunEvidence) -> list[Verdict]:
    """Return the leaks that validation found in a run's data, the gravest first."""
    return [check for check in run.part(Validation).report.worst_first() if check.family == LEAKS]


def _by_name(evidence: Evidence) -> dict[str, Verdict]:
    """Return the leaks by the name that a call gives; of one that each target has, the gravest that can be removed."""
    leaks: dict[str, Verdict] = {}
    for check in sorted(found_leaks(evidence), key=lambda one: not one.details.get("changes")):
        leaks.setdefault(check.place, check)
    return leaks


def changes_without_leak(
    evidence: Evidence, kind: RunKind, finding: str | None, changes: dict[str, Any]
) -> dict[str, Any]:
    """Return the changes that remove a leak from the configuration.

    Raises:
        ConfigurationError: another kind of run, changes of the caller's, or no such finding.
        ConflictError: no change removes it, or there is no baseline to compare with.
    """
    leaks = _by_name(evidence)
    removable = [place for place, check in leaks.items() if check.details.get("changes")]
    call = f"start_training(project={evidence.name!r}, kind='leak_price', finding={next(iter(removable), '…')!r})"
    if kind is not RunKind.LEAK_PRICE or changes:
        what = f"kind {kind.value} with a finding" if kind is not RunKind.LEAK_PRICE else f"changes {sorted(changes)}"
        raise ConfigurationError(
            f"A run got {what}: a leak's changes are the server's, and only a leak_price run makes them.",
            remedy=f"{call}, without changes.",
            document=DOCUMENT,
        )
    place = removable[0] if finding is None and len(removable) == 1 else finding
    leak = None if place is None else leaks.get(place)
    found = _without_column(evidence, place or "") if leak is None else _changes_of(leak)
    if not found or (leak is None and found in [leaks[one].details["changes"] for one in removable]):
        raise ConfigurationError(
            f"`finding` = {place!r} is no leak that validation found, and no input's column; those that can be priced: "
            f"{', '.join(removable) or 'none'}.{near_matches(place or '', removable)}",
            remedy=f"{call}." if removable else f"validate_data(project={evidence.name!r}) shows what was found.",
            document=DOCUMENT,
        )
    if evidence.baseline is None or not evidence.baseline.is_complete:
        raise ConflictError(
            "A leak is priced beside a completed baseline of the present configuration, and there is none.",
            remedy=f"start_training(project={evidence.name!r}, kind='baseline'), and then {call}.",
            document=DOCUMENT,
        )
    return found


def _without_column(evidence: Evidence, column: str) -> dict[str, Any]:
    """Return the change that takes a column out, which somebody doubts; empty where it is no input, or none can."""
    data, run = evidence.config.data, evidence.smoke
    inputs = [one["name"] for one in (run.data.columns if run else None) or [] if one["kind"] != "ignore"]
    if data is None or column not in inputs or len(inputs) < MIN_INPUTS or data.use not in SOURCES:
        return {}
    if "columns" in SOURCES[data.use].form_of(dict(data.args)).model_fields and not data.args.get("features"):
        return {"data.args.columns": {**(data.args.get("columns") or {}), column: "ignore"}}
    return {"data.args.features": [one for one in inputs if one != column]}


def _changes_of(leak: Verdict) -> dict[str, Any]:
    """Return the changes that remove a leak. Raises ConflictError where none does."""
    found: dict[str, Any] = leak.details.get("changes") or {}
    if not found:
        raise ConflictError(
            f"No change of the configuration removes {leak.place}: the file has to be changed.",
            remedy=leak.remedy,
            document=DOCUMENT,
        )
    return found


def price_of(evidence: Evidence, run: RunEvidence) -> LeakPrice | None:
    """Return what the leak of a leak_price run was worth; None until it and its baseline are complete."""
    start = evidence.facts.started.get(run.id)
    if start is None or start.label is None or not run.is_complete:
        return None
    baseline = evidence.newest(RunKind.BASELINE, config=start.base_config_digest)
    if baseline is None or not baseline.is_complete:
        return None
    metric = evidence.goal_metric
    leaking, clean = baseline.reported_value(metric), run.reported_value(metric)
    if leaking is None or clean is None:
        return None
    false = leaking - clean if evidence.goal["direction"] == "maximize" else clean - leaking
    same = _same_rows(baseline, run)
    what = "the leak" if start.label in _by_name(evidence) else start.label
    return LeakPrice(
        finding=start.label,
        run_id=run.id,
        baseline=baseline.id,
        metric=metric,
        with_leak=leaking,
        without_leak=clean,
        false=false,
        noise=_noise(leaking, clean, min(run.data.sizes.get("validation", 0) for run in (baseline, run))),
        same_rows=same,
        text=_told(metric, what, leaking, clean, false, same=same),
    )


def _same_rows(baseline: RunEvidence, run: RunEvidence) -> bool:
    """Whether the validation rows are the same: the split is, and both hold as many."""
    first, second = baseline.data, run.data
    ways = [dict(one.split) if isinstance(one.split, dict) else {} for one in (first, second)]
    for way in ways:
        way.pop("drop_copies", None)
    return ways[0] == ways[1] and first.sizes.get("validation") == second.sizes.get("validation")


def _noise(leaking: float, clean: float, rows: int) -> float:
    """Return the difference of two figures that may be chance, of rows drawn anew each: an upper bound for equal ones.

    A share of the rows has the binomial's deviation; any other figure is taken to have that of a mean or a root mean
    square of values of its own size.
    """
    if rows < 1:
        return math.inf
    in_points = min(leaking, clean) >= 0 and max(leaking, clean) <= IN_POINTS
    variance = sum(one * (1.0 - one) if in_points else one * one for one in (leaking, clean))
    return DEVIATIONS * math.sqrt(variance / rows)


def _told(metric: str, what: str, leaking: float, clean: float, false: float, *, same: bool) -> str:
    rows = "the same validation rows" if same else "the validation rows of the split without it"
    in_points = min(leaking, clean) >= 0 and max(leaking, clean) <= IN_POINTS
    amount = f"{100 * abs(false):.1f} points" if in_points else f"{abs(false):.4g}"
    worth = (
        ("were false", "nothing of it was false") if what == "the leak" else ("come from it", "nothing comes from it")
    )
    verdict = f"{amount} {worth[0]}" if false > 0 else worth[1] if false == 0 else f"{amount} more"
    return f"{metric} {leaking:.4g} with {what}, {clean:.4g} without: {verdict} ({rows})"


def leak_prices(evidence: Evidence) -> list[LeakPrice]:
    """Return the prices of all leaks of the present configuration that were priced, the newest of each finding."""
    prices: dict[str, LeakPrice] = {}
    for run_id, start in evidence.facts.started.items():
        if start.kind != RunKind.LEAK_PRICE or start.base_config_digest != evidence.config_digest:
            continue
        run = evidence.run(run_id)
        price = price_of(evidence, run) if run is not None else None
        if price is not None:
            prices[price.finding] = price
    return list(prices.values())


def unpriced(evidence: Evidence) -> NextCall | None:
    """Return the call that prices the gravest leak that nobody tried to price; None where there is none."""
    if evidence.baseline is None or not evidence.baseline.is_complete:
        return None
    own = (start for start in evidence.facts.started.values() if start.base_config_digest == evidence.config_digest)
    tried = {start.label for start in own if start.kind == RunKind.LEAK_PRICE}
    for check in found_leaks(evidence):
        if check.details.get("changes") and check.severity != "info" and check.place not in tried:
            why = "what the leak is worth: the baseline once more without it"
            return evidence.call("start_training", why, kind=RunKind.LEAK_PRICE.value, finding=check.place)
    return None


def removal(evidence: Evidence) -> NextCall | None:
    """Return the call that takes out the leak with the highest price; None where no price is beyond chance.

    Nor where a gate was passed since it was priced: whoever does that keeps the leak, knowing its price.
    """
    decided = max((number for number, body in evidence.decisions if body["outcome"] != "refused"), default=0)
    known = {body["run_id"] for number, body in evidence.entries("run_sealed") if number > decided}
    prices = [one for one in leak_prices(evidence) if one.is_false and one.run_id in known]
    leaks = _by_name(evidence) if prices else {}
    changes = {name: check.details.get("changes") for name, check in leaks.items()}
    prices = [one for one in prices if changes.get(one.finding)]
    if not prices:
        return None
    worst = max(prices, key=lambda one: one.false / one.noise if one.noise else math.inf)
    why = f"{worst.text}; it stays in, at this price, by passing the gate"
    reason = f"without {worst.finding}, priced by {worst.run_id}"
    return evidence.call("configure", why, changes=changes[worst.finding], reason=reason)


def told_leaks(evidence: Evidence) -> list[str]:
    """Return a sentence for each leak that was found, with its price where it has one."""
    prices, leaks = {price.finding: price.text for price in leak_prices(evidence)}, found_leaks(evidence)
    doubted = prices.keys() - {check.place for check in leaks}
    told = [f"{check.place}: {check.text} {_priced(prices.get(check.place))}" for check in leaks]
    return [*told, *(f"{column}: it was doubted. {_priced(prices[column])}" for column in sorted(doubted))]


def _priced(text: str | None) -> str:
    return "Not priced." if text is None else f"{text[:1].upper()}{text[1:]}."
