"""Report on the experiments of a project: a table, the states of the code, and a picture of values by experiment."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from sqlalchemy import select

from trainwright.tools.documents.rendering import render
from trainwright.tools.figures.style import BLUE, GREY, VERMILION, label, new_figure, save
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.ideas import (
    DISCARDED,
    KEPT,
    UNDECIDED,
    Experiment,
    experiments_of,
    folder_of_snapshot,
)
from trainwright.tools.gates.studies import ACTIVE
from trainwright.tools.workspace.tables import Run
from trainwright.trainer.run import write_report

REPORT, TABLE, PLOT = "experiments.md", "experiments.tsv", "plots/experiments.png"
COLUMNS = (
    "name", "idea", "against", "verdict", "mean", "low", "high", "before", "after", "seeds", "seconds", "added",
    "removed", "changes", "folder",
)  # fmt: skip
"""Of the table for programs."""
MAX_DRAWN = 200


def rows_of(evidence: Evidence, study_id: str, results: dict[str, Any]) -> list[dict[str, Any]]:
    """Return one row for each experiment that has ended, in order; without figures where it was stopped.

    Args:
        results: of the experiment `study_id`, which the ledger does not have yet.
    """
    every = [replace(one, results=results) if one.study == study_id else one for one in experiments_of(evidence)]
    return [_row(evidence, one) for one in every if one.results or one.state not in ACTIVE]


def write_journal(rows: list[dict[str, Any]], project: str, objective: dict[str, str], folder: Path) -> None:
    """Write report, table and picture below a folder."""
    judged = [row for row in rows if row["verdict"] in {KEPT, DISCARDED, UNDECIDED} and not row["confirms"]]
    kept = sum(row["verdict"] == KEPT for row in judged)
    text = render(
        "hyperparameter_tuner/experiments/experiments.md.j2", project=project, rows=rows, total=len(judged), kept=kept,
        beside=len(rows) - len(judged),
        link=PLOT, **objective,
    )  # fmt: skip
    write_report(folder / REPORT, text)
    table = io.StringIO()
    lines = csv.DictWriter(table, COLUMNS, extrasaction="ignore", dialect="excel-tab", lineterminator="\n")
    lines.writeheader()
    lines.writerows({**row, "changes": json.dumps(row["changes"], sort_keys=True)} for row in rows)
    write_report(folder / TABLE, table.getvalue())
    _draw(rows[-MAX_DRAWN:], objective, folder / PLOT)


def _row(evidence: Evidence, one: Experiment) -> dict[str, Any]:
    before, after = one.results.get("arms") or ({"values": []}, {"values": []})
    effect: dict[str, Any] = next(iter(one.results.get("effects") or []), {})
    added, removed = one.lines
    return {
        "name": one.name, "number": int(one.name.rpartition("-")[2]), "idea": one.idea,
        "against": one.against, "confirms": one.confirms, "verdict": one.results.get("verdict", one.state),
        "mean": effect.get("mean"), "low": effect.get("low"), "high": effect.get("high"),
        "pairs": _pairs(one.results) if one.results else "",
        "before": before.get("mean"), "after": after.get("mean"), "seeds": len(one.results.get("seeds") or []),
        "seconds": _seconds(evidence, one), "added": added, "removed": removed, "changes": one.changes,
        "folder": str(folder_of_snapshot(evidence.workspace, evidence.name, one.code)),
    }  # fmt: skip


def _seconds(evidence: Evidence, one: Experiment) -> float:
    """Return the time that all its runs took, the incumbent's too."""
    runs = evidence.session.scalars(select(Run).where(Run.study == one.study, Run.ended_at.is_not(None)))
    return round(sum((run.ended_at - run.created_at).total_seconds() for run in runs if run.ended_at is not None), 1)


def _pairs(results: dict[str, Any]) -> str:
    """Return both values of each seed, the experiment's first: `0.95 against 0.93 (seed 7), …`."""
    before, after = (["failed" if one is None else f"{one:.6g}" for one in arm["values"]] for arm in results["arms"])
    seeds = zip(results["seeds"], before, after, strict=True)
    return ", ".join(f"{own} against {other} (seed {seed})" for seed, other, own in seeds)


def _draw(rows: list[dict[str, Any]], objective: dict[str, str], path: Path) -> Path:
    """Draw each experiment's mean with the interval of its difference, its incumbent's mean, and the kept chain."""
    from matplotlib.ticker import MaxNLocator

    figure, panels = new_figure(1, 1)
    axes = panels[0, 0]
    best: list[tuple[int, float]] = []
    for row in rows:
        place = row["number"]
        if row["after"] is None:
            continue
        is_kept = row["verdict"] == KEPT
        if row["mean"] is not None:
            ends = [row["before"] + row["low"], row["before"] + row["high"]]
            axes.plot([place, place], ends, color=BLUE if is_kept else GREY, linewidth=1.0)
        axes.plot([place], [row["after"]], "o", color=BLUE if is_kept else GREY, markersize=6 if is_kept else 4)
        if row["before"] is not None:
            axes.plot([place], [row["before"]], "_", color=VERMILION, markersize=10)
        if is_kept:
            best.append((place, row["after"]))
    if best:
        places, values = zip(*best, strict=True)
        axes.step([*places, rows[-1]["number"] + 0.5], [*values, values[-1]], where="post", color=BLUE, linewidth=1.4)
    for mark, colour, name in (("o", BLUE, "kept"), ("o", GREY, "not kept"), ("_", VERMILION, "incumbent, same seeds")):
        axes.plot([], [], mark, color=colour, label=name)
    axes.plot([], [], color=GREY, linewidth=1.0, label="95 % interval of the difference")
    axes.xaxis.set_major_locator(MaxNLocator(12, integer=True))
    axes.set_xlim(rows[0]["number"] - 0.5, rows[-1]["number"] + 0.5)
    label(axes, "each on seeds of its own", "experiment", f"validation {objective['metric']}")
    return save(figure, f"{len(rows)} experiments, {len(best)} kept", path)
