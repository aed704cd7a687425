"""Independent evaluations beside the sealed runs that they are of; on request, computed again in the clean room."""

from __future__ import annotations

from typing import Any

from trainwright.tools.evaluation import Others, Sealed, compared_with, differences_between, evaluate_program
from trainwright.tools.evaluation.baseline import Named
from trainwright.tools.evaluation.episodes import drawn_of
from trainwright.tools.evaluation.evaluate import reported_by
from trainwright.tools.evaluation.own_metrics import CODE, OWN
from trainwright.tools.ledger import ProjectFacts
from trainwright.tools.ledger.events import RunEvaluated
from trainwright.tools.verification.findings import Case, Finding, Found, found
from trainwright.trainer.base.errors import TrainwrightError
from trainwright.trainer.run import RunState
from trainwright.trainer.run.artifacts import FixedRows, Program

SAME = 1e-3
"""Share by which a figure that is computed again may differ: another processor rounds otherwise."""


def verify_evaluations(case: Case) -> Found:
    """Compare every evaluation with the sealed program, rows and report that it names; name programs without one."""
    findings: list[Finding] = []
    projects = sorted({str(entry.project) for entry, _ in case.of("run_sealed")})
    count = 0
    for project in projects:
        facts = case.project(project)
        again = _of_releases(case, project) if case.evaluates else set()
        for run_id in case.each("evaluations", list(facts.seals)):
            count += run_id in facts.evaluations
            findings += found("evaluation", _problems(case, facts, project, run_id, again=run_id in again))
    return count, findings + found("ledger", _evaluated_twice(case))


def _problems(case: Case, facts: ProjectFacts, project: str, run_id: str, *, again: bool) -> list[str]:
    run = Sealed(case.workspace.run_directory(project, run_id), facts.seals[run_id].digests)
    recorded = facts.evaluations.get(run_id)
    try:
        program = run.part(Program)
        if recorded is None:
            is_due = bool(program) and facts.seals[run_id].state == RunState.COMPLETED
            return [f"run {run_id} exported a program, and was sealed without its evaluation"] if is_due else []
        others = compared_with(case.workspace, facts, project, run_id)
        return _differences(run, others.rows, recorded, program) + (
            figures_again(run, others, recorded) if again else []
        )
    except TrainwrightError as error:
        return [f"run {run_id}: its evaluation cannot be compared: {error.message}"]


def _differences(run: Sealed, rows: Sealed | None, recorded: RunEvaluated, program: Program) -> list[str]:
    """Return where an entry does not fit the sealed run that it is of."""
    what = f"run {recorded.run_id}: its evaluation"
    reported, precision = reported_by(run), run.directory.specification().config.training.precision
    same_report = all(
        reported.get(split, {}).get(name) == value
        for split, values in recorded.reported.items()
        for name, value in values.items()
    )
    hidden = differences_between(recorded.reported, recorded.splits, precision) if not recorded.differences else []
    fits = {
        f"{what} is of another program": recorded.program == (program.digest or ""),
        f"{what} is on other rows than planning fixed": _are_planned(recorded, rows),
        f"{what} names other figures than the run reported": same_report,
        f"{what} does not name its differences": not hidden,
    }
    return [sentence for sentence, is_so in fits.items() if not is_so]


def _are_planned(recorded: RunEvaluated, rows: Sealed | None) -> bool:
    if rows is None:
        return not recorded.splits and not recorded.rows
    digest = rows.digests.get(f"artifacts/{FixedRows.file}.json", "")
    return (recorded.rows_run, recorded.rows) == (rows.directory.run_id, digest)


def figures_again(run: Sealed, others: Others, recorded: RunEvaluated) -> list[str]:
    """Evaluate the program once more, and return where the figures are others."""
    beside = recorded.beside if _is_there(others.baseline, recorded) else {}
    beside_it = others.baseline if beside else None
    now = evaluate_program(run, others._replace(baseline=beside_it, drawn=drawn_of(recorded.splits)))
    if now is None or (now.problem and not now.splits):
        why = now.problem if now is not None else "its program is gone"
        return [] if recorded.problem else [f"run {run.directory.run_id} cannot be evaluated again: {why}"]
    before, after = _figures(recorded.splits, beside), _figures(now.splits, now.beside)
    own = {f"{split} {name}" for split, one in recorded.splits.items() for name in one.get(OWN, [])}
    reference = run.directory.specification().config.reference
    own |= {name for name in before if name.partition(" of ")[0] in own}
    codes = [
        {one.get("rivals", {}).get(reference, {}).get(CODE) for one in it.splits.values()} for it in (recorded, now)
    ]
    if codes[0] != codes[1] or None in codes[0]:  # the reference's files rightly change, and a fit need not come again
        before = {name: value for name, value in before.items() if not name.endswith(f" of {reference}")}
    return [
        f"run {run.directory.run_id}: {name} recorded {value!r}, evaluated again {other!r}"
        for name, value in before.items()
        if ((other := after.get(name)) is not None or name not in own)  # its file may rightly have changed
        if other is None or abs(other - value) > SAME * max(abs(value), abs(other)) + 1e-9
    ]


def _is_there(baseline: Named | None, recorded: RunEvaluated) -> bool:
    """Whether the baseline still has the program that was evaluated beside: another project may rightly be gone."""
    return (
        baseline is not None and baseline.run is not None and baseline.program.digest == recorded.beside.get("program")
    )


def _figures(splits: dict[str, Any], beside: dict[str, Any]) -> dict[str, float]:
    """Return every figure by its name: of all rows, slices and targets, and of a baseline that had the same rows."""
    found: dict[str, float] = {}
    for split, one in splits.items():
        found |= {f"{split} {name}": value for name, value in one.get("metrics", {}).items()}
        for part, its in one.get("slices", {}).items():
            found |= {f"{split} {name} of {part}": value for name, value in its.get("metrics", {}).items()}
        for rival, its in (one.get("rivals", {}) | one.get("variants", {})).items():
            found |= {f"{split} {name} of {rival}": value for name, value in its.get("metrics", {}).items()}
        for its in one.get("targets", []):
            found |= {f"{split} {name} of {its['name']}": value for name, value in its["metrics"].items()}
        for its in one.get("classes", []):
            found |= {f"{split} rows {name} of class {its['class']}": its[name] for name in ("rows", "found", "said")}
    for split, one in beside["splits"].items() if beside.get("same_rows") else ():
        found |= {f"{split} {name} of {beside['name']}": value for name, value in one["metrics"].items()}
    return found


def _of_releases(case: Case, project: str) -> set[str]:
    """Return the runs on which the accepted decisions of a project with a release depend."""
    bodies = [body for entry, body in case.of("gate") if entry.project == project and body["outcome"] != "refused"]
    if not any(body["phase"] == "finalization" for body in bodies):
        return set()
    return {run_id for body in bodies for run_id in body["rested_on"].get("runs", [])}


def _evaluated_twice(case: Case) -> list[str]:
    """Name runs with two evaluations of one attempt: someone wanted another figure to count."""
    seen: set[str] = set()
    twice = []
    for entry, body in case.bodies:
        if entry.kind == "run_resumed":
            seen.discard(str(body.get("run_id")))
        elif entry.kind == RunEvaluated.name:
            run_id = str(body.get("run_id"))
            twice += [f"run {run_id} was evaluated twice without having been resumed"] if run_id in seen else []
            seen.add(run_id)
    return twice
