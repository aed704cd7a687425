"""Section of reports on targets, classes, slices and groups of the fixed rows, and the evaluation gate's baseline."""

from __future__ import annotations

from typing import Any

from trainwright.tools.evaluation.slices import metrics_of_targets
from trainwright.tools.evaluation.statistics import exact_in_words, statistics_of
from trainwright.tools.gates.run_evidence import RunEvidence

SPLITS = ("validation", "test")
MAX_SLICES = 60


def slices_values(run: RunEvidence | None) -> dict[str, Any]:
    """Return the values of `slices.md.j2`, from a run's independent evaluation; empty ones without any."""
    found = run.evaluation if run is not None else None
    each = [(split, name, one) for split in SPLITS for name, one in (found.slices(split) if found else {}).items()]
    names = list(dict.fromkeys(metric for _, _, one in each for metric in one["metrics"]))
    beside = found.beside if found is not None else {}
    of_targets = [(split, *one) for split in SPLITS for one in metrics_of_targets(found, split).items()]
    metrics = list(dict.fromkeys(metric for _, _, one in of_targets for metric in one))
    return {
        "target_metrics": metrics,
        "target_lines": [[name, split, *(one.get(metric) for metric in metrics)] for split, name, one in of_targets],
        "class_lines": _class_lines(run),
        "classes_are_named": run is not None and bool(run.data.class_names),
        "slice_metrics": names,
        "slice_lines": [
            [name, split, one["rows"], *(one["metrics"].get(metric) for metric in names)]
            for split, name, one in each[:MAX_SLICES]
        ],
        "slices_left_out": max(0, len(each) - MAX_SLICES),
        "beside": beside,
        "beside_lines": _beside_lines(found.certified, beside) if found is not None else [],
        "beside_test": _test_text(beside),
        "beside_rows": _rows_text(beside),
    }


def _class_lines(run: RunEvidence | None) -> list[list[Any]]:
    """Return (class, split, rows, share of them found, share of right ones among those said to be it)."""
    found = run.evaluation if run is not None else None
    if run is None or found is None or found.problem:
        return []
    names = dict(enumerate(run.data.class_names or []))
    return [
        [names.get(one["class"], one["class"]), split, one["rows"],
         *(f"{one['found'] / of:.4g}" if of else "" for of in (one["rows"], one["said"]))]
        for split in SPLITS
        for one in found.splits.get(split, {}).get("classes", [])
    ]  # fmt: skip


def _beside_lines(certified: Any, beside: dict[str, Any]) -> list[list[Any]]:
    """Return (split, metric, this model's value, the baseline's) for all that both have."""
    return [
        [split, metric, own[metric], value]
        for split, record in beside.get("splits", {}).items()
        for own in (certified(split),)
        for metric, value in record.get("metrics", {}).items()
        if metric in own
    ]


def _rows_text(beside: dict[str, Any]) -> str:
    """Return on which of the rows the baseline was trained, as far as it is known."""
    if not beside.get("same_rows") or beside.get("same_splits"):
        return ""
    known = {split: count for split, count in beside.get("trained_on", {}).items() if split in beside["splits"]}
    if not known:
        return ", some of which it may have been trained on: its splits were others"
    counts = [f"{count} of the {beside['splits'][split]['rows']} {split} rows" for split, count in known.items()]
    return f"; it was trained on {' and '.join(counts)}"


def _test_text(beside: dict[str, Any]) -> str:
    """Return McNemar's test and the t-test of losses on validation, in words; empty where rows are not shared."""
    paired = beside.get("splits", {}).get("validation", {}).get("paired")
    if not paired:
        return ""
    found, parts = statistics_of(paired), []
    if table := found.get("classes"):
        parts.append(exact_in_words(table, "this model", "the baseline"))
    if loss := found.get("loss"):
        low, high = loss["interval"]
        parts.append(
            f"loss {loss['difference']:+.4g} [{low:+.4g}, {high:+.4g}]: paired t-test, p = {loss['p_value']:.3g}"
        )
    return "; ".join(parts)
