"""Making a stage: the project's own `next` is followed, through the gates, until the stage is done.

There is no second engine: `advance` starts what the phases ask for. A stage that is done starts nothing.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.phase_status import phase_status_of
from trainwright.tools.ledger import Look
from trainwright.tools.pipeline.stages import STAGES, Stage, Stages
from trainwright.tools.projects import advance, configure
from trainwright.tools.training_orchestrator import refresh_project
from trainwright.trainer.base.errors import ConfigurationError, ConflictError, near_matches

if TYPE_CHECKING:
    from collections.abc import Callable

    from trainwright.tools.projects import Advance
    from trainwright.tools.workspace import Workspace

MOST_SECONDS = 24 * 3600.0
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
    until = time.monotonic() + MOST_SECONDS
    while (stage := _looked_at(workspace, project, name)).state != "done" and not should_stop():
        if time.monotonic() > until:
            raise ConflictError(
                f"The stage {name} took more than {MOST_SECONDS:g} s.", remedy="Call it again: it goes on."
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

    return advance(workspace, project, should_stop=is_done, said=note)


def _stopped(name: str, answer: Advance) -> ConflictError:
    failure = f"{answer.failure.message} {answer.failure.remedy}" if answer.failure is not None else ""
    why = answer.reason or failure or f"the project is in {answer.phase}, and there is something to decide"
    details: dict[str, Any] = {"next": answer.next.model_dump()} if answer.next is not None else {}
    call = f"{answer.next} ({answer.next.why})" if answer.next is not None else "project_status shows what is left."
    return ConflictError(f"The stage {name} is not done: {why}", remedy=str(call), details=details)
