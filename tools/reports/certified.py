"""Certified figures, which a clean process computed from the exported program, beside those that training reported.

Where nothing is certified, the reason stands in its place, with what was checked instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from trainwright.tools.documents.rendering import Markdown
from trainwright.tools.evaluation.comparison import ONLY_THERE
from trainwright.tools.gates.figures import counted
from trainwright.tools.gates.run_evidence import RunEvidence
from trainwright.tools.ledger.events import RunEvaluated
from trainwright.trainer.run.artifacts import Program

SPLITS = ("test", "validation")
Reported = dict[str, dict[str, float]]
"""Metrics by split, as the training process reported them."""
INSTEAD = ("finalization.replay_identical", "finalization.export_verified", "finalization.test_evaluated")
"""Checks that say something of a model that was not evaluated apart."""
NO_PROGRAM = "the run exported no program"


def evaluated(run: RunEvidence, metric: str, reported: Reported, checks: Sequence[Any] = ()) -> dict[str, Any]:
    """Return the values of `reports/evaluated.md.j2`: the head of a report.

    Args:
        run: whose program was evaluated.
        metric: the goal's.
        reported: what the head shows beside the certified figures.
        checks: of the gate, for what was checked instead.
    """
    found = run.evaluation
    figures = [
        {"split": split, "value": value, "interval": _interval(run, split, metric), "on": _rows_of(run, split, metric),
         "reported": reported.get(split, {}).get(metric)}
        for split in SPLITS
        if (value := run.certified(split).get(metric)) is not None
    ]  # fmt: skip
    others = {split: names for split in SPLITS if (names := sorted(run.certified(split)))}
    return {
        "metric": metric,
        "figures": figures,
        "by_own": _is_among(found, "own", metric),
        "is_played": _is_among(found, "episodes", metric),
        "program": PurePath(run.part(Program).path or "").name,
        "rows_run": found.rows_run if found is not None else "",
        "rows": found.rows if found is not None else "",
        "why": "" if figures else _why(run, metric),
        "remedy": found.remedy if found is not None and not figures else "",
        "others": {} if figures else others,
        "missing": _missing(run, metric, reported) if figures else {},
        "reported": {split: values[metric] for split, values in reported.items() if metric in values},
        "differences": found.differences if found is not None else [],
        "instead": [check for check in checks if check.id in INSTEAD and check.status == "passed"],
    }


def table(run: RunEvidence, reported: Reported, label: Callable[[str], str]) -> tuple[list[str], list[list[Any]]]:
    """Return head and rows of a table of metrics, certified and reported, for the splits that have any."""
    splits = [split for split in SPLITS if reported.get(split) or run.certified(split)]
    columns = [(split, kind) for split in splits for kind in ("certified", "reported")]
    columns = [(split, kind) for split, kind in columns if kind == "reported" or run.certified(split)]
    names = dict.fromkeys(name for split in splits for name in (*reported.get(split, {}), *run.certified(split)))
    rows = [
        [label(name), *(_cell(run, split, name) if kind == "certified" else reported.get(split, {}).get(name)
                        for split, kind in columns)]
        for name in names
    ]  # fmt: skip
    return ["metric", *(f"{split}, {kind}" for split, kind in columns)], rows


def best_known(run: RunEvidence, reported: Reported) -> Reported:
    """Return every split's metrics: the certified value, else the reported one."""
    return {split: {**values, **run.certified(split)} for split, values in reported.items()}


def _is_among(found: RunEvaluated | None, key: str, metric: str) -> bool:
    return found is not None and any(metric in found.splits.get(split, {}).get(key, ()) for split in SPLITS)


def _why(run: RunEvidence, metric: str) -> str:
    found = run.evaluation
    if found is None:
        return NO_PROGRAM
    if found.problem:
        return found.problem.rstrip(".")
    reasons: Mapping[str, str] = found.splits.get("validation", {}).get("not_computed", {})
    return f"{metric}: {reasons.get(metric, ONLY_THERE)}"


def _missing(run: RunEvidence, metric: str, reported: Reported) -> dict[str, str]:
    """Return by split why its figure is the training process's alone, beside a split whose figure is certified."""
    records = run.evaluation.splits if run.evaluation is not None else {}
    return {
        split: records.get(split, {}).get("not_computed", {}).get(metric, "no rows of it were fixed")
        for split in SPLITS
        if metric in reported.get(split, {}) and metric not in run.certified(split)
    }


def _cell(run: RunEvidence, split: str, name: str) -> Any:
    value, interval = run.certified(split).get(name), _interval(run, split, name)
    return value if value is None or interval is None else Markdown(f"{value:.6g} {interval}")


def _interval(run: RunEvidence, split: str, name: str) -> Markdown | None:
    """Return a figure's interval over rows; None where none was computed."""
    record = run.evaluation.splits.get(split, {}) if run.evaluation is not None else {}
    ends = record.get("intervals", {}).get(name)
    return Markdown(f"[{float(ends[0]):.6g}, {float(ends[1]):.6g}]") if ends else None


def _rows_of(run: RunEvidence, split: str, metric: str) -> str:
    record = run.evaluation.splits.get(split, {}) if run.evaluation is not None else {}
    return counted(record, metric)
