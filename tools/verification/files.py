"""Files beside the digests that the ledger recorded of them: records of runs, checkpoints, artifacts."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from sqlalchemy import select

from trainwright.tools.checkpoint_manager.retention import pruned_in_use
from trainwright.tools.gates.artifacts import NAMING
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.releases import KEPT
from trainwright.tools.ledger.events import Pruned, RunResumed, RunSealed, RunStarted
from trainwright.tools.ledger.seals import changed_files, end_differences, rows_problem
from trainwright.tools.ledger.summaries import summary_of, summary_problem
from trainwright.tools.limits import use_differences
from trainwright.tools.training_orchestrator.abandoned import is_untouched, was_cut_off
from trainwright.tools.verification.findings import Case, Finding, Found, Where, deleted_projects, found
from trainwright.tools.verification.releases import kept_files
from trainwright.tools.workspace.tables import Run
from trainwright.trainer.base.canonical import digest_file
from trainwright.trainer.base.errors import TrainwrightError
from trainwright.trainer.base.paths import files_among, is_left_by_system
from trainwright.trainer.checkpoints.index import list_checkpoints
from trainwright.trainer.run import RunDirectory, RunState
from trainwright.trainer.run.commitments import Commitments
from trainwright.trainer.run.digests import METRICS
from trainwright.trainer.run.directory import LIMITS
from trainwright.trainer.run.evidence import Summary
from trainwright.trainer.run.key import SIGNED


def verify_runs(case: Case) -> Found:
    """Compare the files of sealed runs, and the summaries in their rows; of the others, their run plans."""
    rows = {row.id: row for row in case.session.scalars(select(Run))}
    findings: list[Finding] = []
    sealed = 0
    for run_id, row in case.each("sealed runs", rows.items()):
        own, directory = case.project(row.project), case.workspace.run_directory(row.project, run_id)
        findings += found("run record", _changed_limits(directory, own.resumed.get(run_id)))
        if run_id in own.resealed:
            findings += found("ledger", [f"run {run_id} was sealed twice without having been resumed"])
        if (seal := own.seals.get(run_id)) is not None:
            sealed += 1
            changed = changed_files(directory, seal.digests, case.inspection)
            findings += [Finding(where=_where(name), what=f"run {run_id}: {what}") for name, what in changed]
            findings += found("run record", _end_problems(directory, own.run_keys[run_id], seal))
            findings += found("run record", _rows_problems(directory, own.started.get(run_id), seal))
            findings += found("run record", [] if changed else _summary_problems(directory, seal))
            findings += found(
                "run record", [] if changed else _commitment_problems(directory, own.run_keys[run_id], seal)
            )
            findings += found("ledger", [] if changed else _use_problems(directory, seal, own.permit(run_id)))
            findings += found("ledger", [] if changed else _wall_problems(directory, own.attempt(run_id)))
            if None in own.run_keys[run_id]:
                what = f"run {run_id}: another launcher started its worker, and nothing signs what it recorded"
                findings.append(Finding(where="run record", what=what, counts=False))
            if not changed and row.summary != summary_of(directory):
                findings += found("database", [f"run {run_id}: summary was changed in the database"])
        elif (start := own.started.get(run_id)) is not None:
            findings += found("run record", _changed_order(directory, start.specification))
    return sealed, findings + _foreign_runs(case, rows.keys() | {run.id for run in case.rows.of(Run)})


def _end_problems(run: RunDirectory, keys: list[str | None], seal: RunSealed) -> list[str]:
    """Return the problems that the seal's entry records, or else whether the signed end is still the sealed one."""
    if seal.problem:
        return [f"run {run.run_id}: {seal.problem}"]
    return end_differences(run, keys[-1] if keys else None, seal.state, seal.digests)


def _rows_problems(run: RunDirectory, start: RunStarted | None, seal: RunSealed) -> list[str]:
    """Return whether the rows that the run fixed are signed, unless the seal's problem says it."""
    try:
        problem = None if seal.problem or start is None else rows_problem(run, start.rows_key)
    except TrainwrightError:  # damaged: a changed file
        return []
    return [] if problem is None else [f"run {run.run_id}: {problem}"]


def _summary_problems(run: RunDirectory, seal: RunSealed) -> list[str]:
    """Return whether the summary follows from the recorded series, unless the seal's problem says it."""
    try:
        problem = None if seal.problem or seal.state not in SIGNED else summary_problem(run)
    except TrainwrightError as error:  # sealed as it was: damaged
        problem = error.message
    return [] if problem is None else [f"run {run.run_id}: {problem}"]


def _commitment_problems(run: RunDirectory, keys: list[str | None], seal: RunSealed) -> list[str]:
    """Return whether a run that was to commit to its state around steps drawn by its key has done so."""
    try:
        plan = run.specification()
        if seal.problem or seal.state not in SIGNED or not plan.commits_steps or keys[-1] is None:
            return []
        if plan.config.distributed.processes > 1:
            return []
        summary = run.part(Summary)
        if seal.state == RunState.STOPPED:  # before its training began, perhaps: a former attempt's are there, or none
            own = run.part(Commitments).draws[-1:]
            keys = [key for key in keys if key is not None and own and own[0].is_of(run.run_id, key)] or keys
        if not summary:
            return []
        problem = run.part(Commitments).problem(run.run_id, str(keys[-1]), summary.steps)
    except TrainwrightError as error:  # sealed as it was: damaged
        problem = error.message
    return [] if problem is None else [f"run {run.run_id}: {problem}"]


def _wall_problems(run: RunDirectory, latest: RunStarted | RunResumed | None) -> list[str]:
    """Return whether the ledger says of the wall round a run's worker what the run plan orders."""
    try:
        ordered = run.specification().wall is not None
    except TrainwrightError:  # sealed as it was: damaged
        return []
    if latest is None or (ordered and "none" in latest.wall) or ordered == ("landlock" in latest.wall):
        return []
    says = "has a wall round its worker, and its run plan orders none"
    return [f"run {run.run_id}: the ledger {'does not say which wall was round its worker' if ordered else says}"]


def _use_problems(run: RunDirectory, seal: RunSealed, permit: dict[str, Any]) -> list[str]:
    try:
        return use_differences(run, seal.used, permit)
    except (ValueError, KeyError, TypeError) as error:
        return [f"run {run.run_id}: what it used cannot be derived again: {type(error).__name__}: {error}"[:200]]


def _foreign_runs(case: Case, known: set[str]) -> list[Finding]:
    """Name folders among the runs that no permit made. One that no worker has touched, a killed server left behind."""
    findings, deleted = [], deleted_projects(case.entries)
    for folder in sorted((case.workspace.path / "projects").glob("*/runs/*")):
        what = f"run {folder.name}: its folder stands among the runs, and the ledger never started it"
        if folder.name in known or is_left_by_system(folder):
            continue
        is_left = folder.parent.parent.name in deleted
        if is_left:
            what = f"run {folder.name}: a server ended while it deleted its project, and the next one removes it"
        elif is_untouched(folder):
            what += "; a server ended while it ordered it, and the next one that starts removes it"
        findings.append(Finding(where="run record", what=what, counts=not (is_left or is_untouched(folder))))
    return findings


def verify_checkpoints(case: Case) -> Found:
    """Compare every checkpoint's files with its manifest."""
    count, problems = 0, []
    for row in case.each("checkpoints", list(case.session.scalars(select(Run)))):
        directory = case.workspace.run_directory(row.project, row.id)
        try:
            count += len(list_checkpoints(directory))
            facts = case.project(row.project)
            own = facts.run_keys[row.id], facts.pruned[row.id]
            problems += case.inspection.checkpoint_problems(directory, *own)
        except TrainwrightError as error:
            problems.append(f"run {row.id}: {error.message}")
    problems += _pruned_in_use(case)
    return count, found("checkpoint", problems)


def _pruned_in_use(case: Case) -> list[str]:
    """Name tombstones that pruning would not have written. A project that cannot be read is named by other parts."""
    problems: list[str] = []
    for project in sorted({str(entry.project) for entry, _ in case.of(Pruned.name)}):
        with suppress(TrainwrightError):
            problems += pruned_in_use(Evidence(case.session, case.workspace, project, inspection=case.inspection))
    return problems


def verify_artifacts(case: Case) -> Found:
    """Compare the newest recorded digest of every artifact; older ones were replaced by the server itself."""
    newest: dict[tuple[str, str], dict[str, str]] = {}
    for entry, body in case.bodies:
        if entry.project is None or entry.kind not in NAMING or not body.get("artifacts"):
            continue
        written_by = "diagnostics" if entry.kind == "diagnosis" else body.get("phase", entry.kind)
        newest[entry.project, written_by] = body["artifacts"]
    named = [(project, name, digest) for (project, _), files in newest.items() for name, digest in files.items()]
    named += kept_files(case)
    problems = []
    for project, name, digest in named:
        path = case.workspace.project_folder(project) / name
        if not path.is_file():
            problems.append(f"project {project}: artifact {name} was removed")
        elif digest_file(path) != digest:
            problems.append(f"project {project}: artifact {name} was changed")
    for project in {project for project, _, _ in named}:
        listed = {name for owner, name, _ in named if owner == project}
        folder = case.workspace.project_folder(project)
        kept = [*(folder / "final_model").rglob("*"), *(folder / KEPT).rglob("*")]
        names = (str(path.relative_to(folder)) for path in files_among(kept))
        problems += [f"project {project}: {name} was added by hand" for name in names if name not in listed]
    return len(named), found("artifact", problems)


def _changed_order(run: RunDirectory, digest: str) -> list[str]:
    path = run.path / "run.json"
    same = path.is_file() and digest_file(path) == digest
    return [] if same else [f"run {run.run_id}: run.json was changed after the start"]


def _changed_limits(run: RunDirectory, resumed: RunResumed | None) -> list[str]:
    """Compare the limits in a run's folder with those that the ledger reserved when the run was resumed."""
    path, reserved = run.path / LIMITS, resumed.limits if resumed else None
    if resumed and was_cut_off(run, resumed.attempt):
        return []
    if reserved is None:
        return [f"run {run.run_id}: {LIMITS} was added; nothing resumed the run"] if path.exists() else []
    try:
        present = run.limits().model_dump(mode="json") if path.is_file() else {}
    except TrainwrightError as error:
        return [f"run {run.run_id}: {LIMITS} cannot be read any more: {error.message}"]
    names = sorted(name for name in reserved.keys() | present.keys() if reserved.get(name) != present.get(name))
    text = "; ".join(f"{name} {present.get(name)}, reserved {reserved.get(name)}" for name in names)
    return [f"run {run.run_id}: {LIMITS} differs from what its resuming reserved: {text}"] if names else []


def _where(name: str) -> Where:
    """Return the kind of a run directory's file."""
    kinds: dict[str, Where] = {
        "events.jsonl": "event log", METRICS: "metrics", "artifacts": "artifact", "checkpoints": "checkpoint"
    }  # fmt: skip
    return kinds.get(name.split("/", maxsplit=1)[0], "run record")
