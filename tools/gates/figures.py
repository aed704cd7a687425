"""Figures of a run as answers, checks and reports show them: certified, and beside it what was reported (GATE-6)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainwright.tools.evaluation.comparison import ONLY_THERE
from trainwright.tools.ledger.events import RunEvaluated

NOT_EVALUATED = "not independently evaluated"
SPLITS = ("validation", "test")
MAX_NAMED = 3


def beside(certified: float | None, reported: float | None) -> dict[str, Any]:
    """Return {value}, and the `reported` one where it reads differently; empty where nothing is certified."""
    if certified is None:
        return {}
    if reported is None or f"{reported:.6g}" == f"{certified:.6g}":
        return {"value": certified}
    return {"value": certified, "reported": reported}


def evaluation_text(found: RunEvaluated, metric: str | None = None) -> str:
    """Describe an evaluation in a sentence: its figures by split, its differences, or why there is none.

    Args:
        metric: only this one; all of them where it is not given.
    """
    if found.problem:
        return f"{NOT_EVALUATED}: {found.problem.rstrip('.')}. {found.remedy}".strip()
    if found.differences:
        return "; ".join(found.differences[:MAX_NAMED])
    return "; ".join(_of_split(found, split, metric) for split in SPLITS if split in found.splits)


def without(found: RunEvaluated, metric: str) -> str:
    """Return why a metric has no certified value though the program was evaluated."""
    validation = found.splits.get("validation", {})
    why = validation.get("not_computed", {}).get(metric, ONLY_THERE)
    others = ", ".join(f"{name} {value:.6g}" for name, value in validation.get("metrics", {}).items())
    return f"{NOT_EVALUATED}: {metric}: {why}" + (f"; the program alone gives {others}" if others else "")


def rows_text(rows: int, size: int) -> str:
    """Say how many rows of a split were kept: `30 rows`, or `a sample of 1000 of 50000 rows`."""
    return f"{rows} rows" if rows == size else f"a sample of {rows} of {size} rows"


def counted(record: Mapping[str, Any], metric: str) -> str:
    """Say on how many rows, and in how many groups or times, or on how many episodes a split's figure is."""
    if (played := record.get("episodes", {}).get(metric)) is not None:
        return f"{played['count']} episodes"
    rows = int(record.get("rows", 0))
    told, groups = rows_text(rows, int(record.get("size", rows))), record.get("groups")
    return f"{told} in {groups} {record['grouped_by']}" if groups else told


def _of_split(found: RunEvaluated, split: str, metric: str | None) -> str:
    record = found.splits[split]
    reported = found.reported.get(split, {})
    metrics = record.get("metrics", {})
    names = list(metrics) if metric is None else [metric]
    readings = record.get("readings", {})
    told: dict[str, list[str]] = {}
    for name in names:
        figure = _figure(name, metrics.get(name), reported.get(name), *readings.get(name, ()))
        told.setdefault(counted(record, name), []).append(figure)
    return f"{split} " + ", ".join(f"{', '.join(figures)} on {on}" for on, figures in told.items())


def _figure(name: str, certified: float | None, reported: float | None, meant: str = "") -> str:
    found = beside(certified, reported)
    shown = f" {found['value']:.6g}" if found else " not computed"
    what = f", which is {meant}" if meant else ""
    if "reported" in found:
        return f"{name}{shown} ({found['reported']:.6g} reported{what})"
    return f"{name}{shown} (by {meant}, as its process means {name})" if meant and found else name + shown
