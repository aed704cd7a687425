"""Job of a batch system: a project's stage, made by itself, stopped by a notice and resumed by the next start.

A machine that is taken away gives a notice (SIGTERM). The runs under way are stopped with the reason `preempted`, which
saves their checkpoints. The next start resumes them, and what a machine left that went without notice.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import yaml
from sqlalchemy import select

from trainwright.tools.answers import NextCall
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.next_after_run import MAX_ATTEMPTS
from trainwright.tools.gates.phase_status import phase_status_of
from trainwright.tools.gates.run_evidence import RunEvidence
from trainwright.tools.hyperparameter_tuner import start_study, stop_study, study_status
from trainwright.tools.ledger import Look
from trainwright.tools.pipeline.stages import STAGES, Stage, Stages
from trainwright.tools.projects import Advance, advance, configure
from trainwright.tools.training_orchestrator import refresh_project, resume_run, stop_and_follow, wait_for_run
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.records import ACTIVE
from trainwright.tools.workspace.settings import Settings
from trainwright.tools.workspace.tables import Study
from trainwright.trainer.base.errors import ConfigurationError, ConflictError, near_matches
from trainwright.trainer.checkpoints.index import list_checkpoints
from trainwright.trainer.run import RunState, write_generated

PREEMPTED = "preempted"
STOPPED_CODE = 75
"""Exit code of a job that a notice stopped (EX_TEMPFAIL of sysexits.h): start it again."""
SAVING_SECONDS = 90.0
"""That the runs have, after a notice, to save and to be filed."""
Outcome = Literal["done", "stopped"]


def run_job(
    workspace: Workspace,
    project: str,
    stage: str,
    *,
    searches: bool = False,
    notice: Callable[[], bool],
    said: Callable[[str], None] = lambda _: None,
) -> Outcome:
    """Make a stage and those before it; return `stopped` once a notice has come and the runs have saved.

    Args:
        searches: also start the configuration's search where the project asks for one.
        notice: whether the machine is to be taken away; asked all the time.

    Raises:
        ConfigurationError: no such stage.
        ConflictError: there is something to decide, a run failed, or a gate refused; it says which.
    """
    while not notice():
        if (lost := _lost(workspace, project)) is not None:
            _resume(workspace, project, lost, notice, said)
            continue
        try:
            if make_stage(workspace, project, stage, said=said, should_stop=notice).state == "done":
                return "done"
        except ConflictError as error:
            if not _gone_on(workspace, project, error, searches=searches, notice=notice, said=said):
                raise
    _stop_all(workspace, project, said)
    return "stopped"


def install_settings(folder: Path, file: Path, code_root: Path) -> bool:
    """Write the job's settings into a workspace that has none yet; return whether it was done.

    Raises:
        ConfigurationError: the file cannot be read, or is no settings file.
    """
    target = folder / "settings.yaml"
    if target.exists():
        return False
    try:
        given = yaml.safe_load(file.read_text(encoding="utf-8"))
        settings = Settings.model_validate({**given, "code_roots": [str(code_root.resolve())]})
    except (OSError, yaml.YAMLError, ValueError, TypeError) as error:
        raise ConfigurationError(
            f"{file.name} is no file of settings: {' '.join(str(error).split())[:200]}.",
            remedy="`trainwright cloud` writes one beside entry.sh.",
        ) from error
    values = settings.model_dump(mode="json", exclude_unset=True)
    write_generated(folder, {target.name: yaml.safe_dump(values, sort_keys=False)})
    return True


def _lost(workspace: Workspace, project: str) -> str | None:
    """Return the newest run if machines were taken from it so often that `next` would start it anew.

    Each attempt must have got further than the one before: what ends its process by itself is not resumed for ever.
    """
    refresh_project(workspace, project)
    with workspace.session() as session:
        evidence = Evidence(session, workspace, project, inspection=Look())
        own = [run_id for run_id, start in evidence.facts.started.items() if start.study is None]
        run = evidence.run(own[-1]) if own else None
        if run is None or run.status.state is not RunState.INTERRUPTED or run.status.attempt < MAX_ATTEMPTS:
            return None
        return run.id if _got_further(run) else None


def _got_further(run: RunEvidence) -> bool:
    resumed = run.directory.events("resumed")
    newest = max((record.step for record in list_checkpoints(run.directory)), default=0)
    return newest > (int(resumed[-1].data.get("step", 0)) if resumed else 0)


def _gone_on(
    workspace: Workspace, project: str, error: ConflictError, *, searches: bool,
    notice: Callable[[], bool], said: Callable[[str], None],
) -> bool:  # fmt: skip
    """Make the call that the stage stopped at, where a job may: resume a run, or start the configuration's search."""
    given = error.details.get("next")
    call = NextCall.model_validate(given) if given else None
    if call is None:
        return False
    if call.tool == "resume_training":
        _resume(workspace, project, str(call.arguments["run_id"]), notice, said)
        return True
    if call.tool == "start_tuning" and searches and _has_search(workspace, project):
        return _search(workspace, project, call.arguments, notice, said)
    return False


def _resume(
    workspace: Workspace, project: str, run_id: str, notice: Callable[[], bool], said: Callable[[str], None]
) -> None:
    said(f"{run_id}: resumed")
    resume_run(workspace, run_id, project=project)
    while not notice() and not wait_for_run(workspace, run_id, should_stop=notice).is_ended:
        pass


def _has_search(workspace: Workspace, project: str) -> bool:
    with workspace.session() as session:
        return Evidence(session, workspace, project, inspection=Look()).config.search is not None


def _search(
    workspace: Workspace, project: str, asked: dict[str, Any], notice: Callable[[], bool], said: Callable[[str], None]
) -> bool:
    """Make a search as it is asked for; False where it is one that has ended, which would be asked for without end."""
    given = {name: value for name, value in asked.items() if name in {"search", "idempotency_key"}}
    view = start_study(workspace, project, **given)
    if view.is_ended:
        return False
    said(f"{view.study_id}: searching")
    while not view.is_ended and not notice():
        view = study_status(workspace, view.study_id, 50.0, should_stop=notice)
    if view.is_ended:
        said(f"{view.study_id}: {view.state}, {view.trials_done}/{view.trials_total} trials")
    return True


def _stop_all(workspace: Workspace, project: str, said: Callable[[str], None]) -> None:
    """Stop what is under way, and wait until it is filed: the folder may be copied afterwards."""
    with workspace.session() as session:
        active = [row.id for row in session.scalars(select(Study)) if row.project == project and row.state in ACTIVE]
    for study in active:
        with suppress(ConflictError):
            stop_study(workspace, study, project=project)
            said(f"{study}: stopped by a notice")
    until = time.monotonic() + SAVING_SECONDS
    for run_id in _living(workspace, project):
        with suppress(ConflictError):
            stop_and_follow(workspace, run_id, project=project, reason=PREEMPTED)
        while time.monotonic() < until and not wait_for_run(workspace, run_id, 1.0).is_ended:
            pass
        said(f"{run_id}: stopped by a notice")
    refresh_project(workspace, project)


def _living(workspace: Workspace, project: str) -> list[str]:
    with workspace.session() as session:
        evidence = Evidence(session, workspace, project, inspection=Look())
        runs: list[Any] = [evidence.run(run_id) for run_id in evidence.facts.started]
        return [run.id for run in runs if run is not None and not run.status.state.is_ended]


# Making a stage: the project's own `next` is followed, through the gates, until the stage is done.
#
# There is no second engine: `advance` starts what the phases ask for. A stage that is done starts nothing.

MAX_SECONDS = 24 * 3600.0
GOES_ON = {"wait", "alert"}


def make_stage(
    workspace: Workspace,
    project: str,
    name: str,
    *,
    said: Callable[[str], None] = lambda _: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Stage:
    """Make a stage and those before it, where they are not done; return it.

    A finished project whose data, code or configuration changed begins its next release.

    Args:
        should_stop: asked all the time; when it says so, the stage is returned as it is, and runs under way continue.

    Raises:
        NotFoundError: no such project.
        ConfigurationError: no such stage.
        ConflictError: there is something to decide, a run failed, or a gate refused; it says which.
    """
    if name not in STAGES:
        raise ConfigurationError(
            f"There is no stage {name!r}.{near_matches(name, STAGES)}", remedy=f"Stages: {', '.join(STAGES)}."
        )
    until = time.monotonic() + MAX_SECONDS
    while (stage := _looked_at(workspace, project, name)).state != "done" and not should_stop():
        if time.monotonic() > until:
            raise ConflictError(
                f"The stage {name} took more than {MAX_SECONDS:g} s.", remedy="Call it again: it goes on."
            )
        answer = _advanced(workspace, project, name, said, should_stop)
        if should_stop():
            break
        if answer.ended not in GOES_ON and _looked_at(workspace, project, name).state != "done":
            raise _stopped(name, answer)
    return stage


def _looked_at(workspace: Workspace, project: str, name: str) -> Stage:
    """Return the stage; of a finished project with a stage that is stale, begin the next release first."""
    refresh_project(workspace, project)
    with workspace.session() as session:
        evidence = Evidence(session, workspace, project, inspection=Look())
        stage = next(each for each in Stages(evidence).all() if each.name == name)
        is_finished = phase_status_of(evidence).is_finished
    if is_finished and stage.state != "done":
        why = "; ".join(stage.reasons)[:300]
        configure(workspace, project, begin_release=True, reason=f"the stage {name} is {stage.state}: {why}")
    return stage


def _advanced(
    workspace: Workspace, project: str, name: str, said: Callable[[str], None], should_stop: Callable[[], bool]
) -> Advance:
    """Follow `next` until the stage is done, or there is something to decide."""
    news = [True]

    def note(line: str) -> None:
        news[0] = True
        said(line)

    def is_done() -> bool:
        if should_stop():
            return True
        if not news[0]:  # nothing ended since the last look
            return False
        news[0] = False
        with workspace.session() as session:
            evidence = Evidence(session, workspace, project, inspection=Look())
            return next(each for each in Stages(evidence).all() if each.name == name).state == "done"

    return advance(workspace, project, should_stop=is_done, said=note, is_attended=False)


def _stopped(name: str, answer: Advance) -> ConflictError:
    failure = f"{answer.failure.message} {answer.failure.remedy}" if answer.failure is not None else ""
    why = answer.reason or failure or f"the project is in {answer.phase}, and there is something to decide"
    details: dict[str, Any] = {"next": answer.next.model_dump()} if answer.next is not None else {}
    call = f"{answer.next} ({answer.next.why})" if answer.next is not None else "project_status shows what is left."
    return ConflictError(f"The stage {name} is not done: {why}", remedy=str(call), details=details)
