"""Values of a project's page: goal, gates with their evidence, comparison, runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainwright.tools.gates.phase_status import accepted_decisions, phase_status_of
from trainwright.tools.reports.pages.charts import overlay_charts
from trainwright.tools.training_monitor import Goal
from trainwright.tools.training_monitor.compare import compare_runs
from trainwright.tools.training_monitor.record import named_records
from trainwright.tools.workspace.handles import handles, with_handles
from trainwright.tools.workspace.records import runs_of
from trainwright.trainer.base.errors import TrainwrightError
from trainwright.trainer.run import RunKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trainwright.tools.gates.evidence import Evidence
    from trainwright.tools.workspace.tables import Run

MOST_RUNS = 60
MOST_COMPARED = 6
MOST_KEYS = 30
CHECK = ("text", "status", "measured", "required")
COMPARED = (RunKind.BASELINE, RunKind.TRIAL, RunKind.ABLATION, RunKind.FINAL)


def project_values(evidence: Evidence, pages: Mapping[str, str]) -> dict[str, Any]:
    """Return what the template of a project's page shows.

    Args:
        pages: link of each run that has a page.
    """
    rows = runs_of(evidence.session, evidence.name)
    names = handles(evidence.session, [row.id for row in rows])
    newest = rows[-MOST_RUNS:]
    versions = evidence.data_versions
    return {
        "title": f"Project {evidence.name}",
        "intent": evidence.project.intent,
        "facts": [
            ("goal", evidence.goal_text),
            ("phase", phase_status_of(evidence).phase.value),
            ("release", phase_status_of(evidence).finished_text),
            ("data version", str(versions[-1]) if versions else None),
            ("data rows", versions[-1].rows if versions else None),
            ("configuration", evidence.config_digest),
        ],
        "gates": _gates(evidence),
        **_comparison(evidence, newest, names),
        "runs": [
            _run(evidence, row, pages.get(row.id), names.get(row.id, row.id).rpartition("/")[2])
            for row in reversed(newest)
        ],
        "left_out": len(rows) - len(newest),
        "reports": sorted(path.name for path in evidence.folder.glob("*.md")),
    }


def _gates(evidence: Evidence) -> list[dict[str, Any]]:
    decisions = accepted_decisions(evidence)
    found = []
    for gate in phase_status_of(evidence).gates:
        sequence, body = decisions.get(gate.phase, (None, {}))
        found.append(
            {
                "phase": gate.phase.value,
                "status": gate.status,
                "css": "passed" if gate.status in {"passed", "accepted", "skipped"} else "soft",
                "is_open": gate.status == "open",
                "entry": sequence,
                "reasons": gate.reasons,
                "checks": [tuple(one.get(key) for key in CHECK) for one in body.get("checks", [])],
            }
        )
    return found


def _comparison(evidence: Evidence, rows: list[Run], names: dict[str, str]) -> dict[str, Any]:
    """Return charts, notes and differences of the best runs; nothing where a record is damaged or there are none."""
    trained = [row for row in rows if row.kind in COMPARED]
    directories = [evidence.workspace.run_directory(row.project, row.id) for row in trained]
    try:
        goal = Goal.model_validate(evidence.project.goal)
        found = compare_runs(directories, MOST_COMPARED, goal) if directories else None
        chosen = {row.run_id for row in found.runs} if found else set()
        charts = overlay_charts(named_records([one for one in directories if one.run_id in chosen], names))
    except TrainwrightError:  # the run's page and `verify` name the damage
        return {"charts": [], "notes": ["A run's record is damaged: no comparison."], "differences": []}
    differences = found.differences if found else {}
    named = found.named if found else {}
    cells = [
        (key, "; ".join(f"{names.get(run, run)} {value}" for run, value in row.items()))
        for key, row in differences.items()
    ]
    cells += [(what, "; ".join(lines)) for what, lines in named.items()]
    values = {"charts": charts, "notes": found.notes if found else [], "differences": cells[:MOST_KEYS]}
    return dict(with_handles(values, names))


def _run(evidence: Evidence, row: Run, link: str | None, name: str) -> dict[str, Any]:
    summary = row.summary or {}
    run = evidence.run(row.id)
    best = run.best_value(evidence.goal_metric) if run is not None else None
    return {
        "name": name,
        "kind": row.kind,
        "state": row.state,
        "epochs": summary.get("epochs", ""),
        "best": f"{best:.6g}" if best is not None else "",
        "link": link,
    }
