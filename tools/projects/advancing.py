"""Advancing a project by its own `next`, until there is a decision to make.

It starts what the phases and the configuration's own `search` ask for, waits, passes gates and diagnoses. It never
chooses: no configuration, no other search, no conclusion, no question to the owner. Each step is the operation that the
call of the same name is, with the same permits and checks.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from pydantic import Field

from trainwright.tools import alerts
from trainwright.tools.answers import Answer, NextCall
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.final_words import final_words
from trainwright.tools.gates.folds import FOLD, open_fold
from trainwright.tools.gates.since_release import no_better
from trainwright.tools.gates.studies import study_in_words
from trainwright.tools.hyperparameter_tuner import start_study, study_status
from trainwright.tools.ledger import Look
from trainwright.tools.projects.diagnosis import diagnose
from trainwright.tools.projects.passing import pass_gate
from trainwright.tools.projects.status import AlertLine, ProjectStatus, project_status
from trainwright.tools.training_monitor.assessment import fit_in_words
from trainwright.tools.training_orchestrator import RunView, start_run, wait_for_run
from trainwright.tools.training_orchestrator.run_view import FailureView
from trainwright.tools.workspace import Workspace
from trainwright.trainer.base.errors import LimitReachedError, TrainwrightError
from trainwright.trainer.run import RunKind, RunState

WAIT_SECONDS = 50.0
MAX_STEPS = 20
Ended = Literal["finished", "decision", "failure", "refusal", "alert", "wait"]
FOLLOWED = {
    "start_training": {"project", "kind"},
    "start_tuning": {"project"},
    "run_status": {"run_id", "wait_seconds"},
    "tuning_status": {"study_id", "wait_seconds"},
    "pass_gate": {"project", "phase"},
    "diagnose_run": {"project", "run_id"},
    "verify_reproducibility": {"project", "run_id", "steps"},
    "export_model": {"project", "run_id"},
}
"""Calls that leave nothing to decide, with the arguments that they may have: a search as the configuration has it."""


class Advance(Answer):
    """The steps made for a project without a decision."""

    project: str
    steps: list[str]
    """The steps, in order."""
    ended: Ended
    """Why it stopped: finished, a decision, failure or refusal, a new alert, or the wait was over."""
    phase: str
    final_model: str | None = None
    """Its folder, once the project is finished."""
    result: list[str] = Field(default_factory=list)
    """Of a finished project: goal, test figures, and how the model is used."""
    reason: str | None = None
    """Of a refusal: the refused call, and its requirements."""
    failure: FailureView | None = None
    alerts: list[AlertLine] = Field(default_factory=list)
    """That were raised meanwhile."""


@dataclass
class _Way:
    """The steps so far, and the next call."""

    workspace: Workspace
    project: str
    until: float
    should_stop: Callable[[], bool]
    said: Callable[[str], None]
    watching: Callable[[str], None]
    known: set[str]
    """Alerts that were open before."""
    is_attended: bool = True
    """Whether somebody is there to decide whether a release is worth it."""
    steps: list[str] = field(default_factory=list)
    ended: Ended | None = None
    reason: str | None = None
    failure: FailureView | None = None
    alerts: list[AlertLine] = field(default_factory=list)

    @property
    def seconds_left(self) -> float:
        return max(0.0, self.until - time.monotonic())

    @property
    def is_over(self) -> bool:
        return self.seconds_left == 0 or self.should_stop() or len(self.steps) >= MAX_STEPS

    def note(self, line: str) -> None:
        self.steps.append(line)
        self.said(line)


def advance(
    workspace: Workspace,
    project: str,
    wait_seconds: float = WAIT_SECONDS,
    *,
    should_stop: Callable[[], bool] = lambda: False,
    said: Callable[[str], None] = lambda _: None,
    watching: Callable[[str], None] = lambda _: None,
    is_attended: bool = True,
) -> Advance:
    """Follow the project's `next` until something is to be decided, at the latest when the wait is over.

    Args:
        should_stop: asked before each step and while waiting; started runs continue.
        said: called with each step when it is done.
        watching: called with the run or study that it waits for.
        is_attended: whether to stop before a release that a rival outdoes, or that is no better than the one before;
            a pipeline is told, and goes on.

    Raises:
        NotFoundError: no such project.
        TrainwrightError: the first step was refused; nothing was done.
    """
    status = _status(workspace, project)
    until = time.monotonic() + max(wait_seconds, 0.0)
    known = {alert.id for alert in status.alerts}
    way = _Way(workspace, project, until, should_stop, said, watching, known, is_attended)
    call = _followed(way, status.next)
    return _answer(way, call)


def _followed(way: _Way, call: NextCall | None) -> NextCall | None:
    """Make the calls one after another; return the next one when it stops."""
    made: list[NextCall] = []
    while call is not None and way.ended is None:
        if not _is_followed(call) or call in made:
            break  # a decision, or after a release
        if way.is_over:
            way.ended = "wait"
        else:
            made.append(call)
            call = _made(way, call)
    return call


def _is_followed(call: NextCall) -> bool:
    """Whether the call leaves nothing to decide: of these tools, with no argument of choice, and no missed goal."""
    return call.tool in FOLLOWED and set(call.arguments) <= FOLLOWED[call.tool]


def _made(way: _Way, call: NextCall) -> NextCall | None:
    try:
        return STEPS[call.tool](way, call.arguments)
    except TrainwrightError as error:
        if not way.steps:
            raise
        way.ended, way.reason = "refusal", f"{error.message} Remedy: {error.remedy}"
        following = error.details.get("next")
        return NextCall.model_validate(following) if following else _status(way.workspace, way.project).next


def _run(way: _Way, view: RunView) -> NextCall | None:
    """Wait for a run's end, and report its result."""
    while not view.is_ended and not way.is_over and not alerts.news_of(way.workspace, view.run_id, way.known):
        view = _waited(way, view.run_id)
    way.note(f"{view.run_id}: {', '.join(_came_to(view))}")
    arisen = alerts.news_of(way.workspace, view.run_id, way.known)
    alerts.mark_seen(way.workspace, arisen)
    way.alerts += map(AlertLine.of, arisen)
    way.failure = view.failure
    if view.is_ended and view.state is not RunState.COMPLETED:
        way.ended = "failure"
    elif way.alerts:
        way.ended = "alert"
    elif not view.is_ended:
        way.ended = "wait"
    return view.next


def _came_to(view: RunView) -> list[str]:
    """Return state, best value and result of a run, in few words."""
    parts = [view.state.value] if view.is_ended else [view.state.value, f"step {view.step}"]
    if view.best and isinstance(view.best.get("value"), int | float):
        reported = f" ({view.best['reported']:.4g} reported by its process)" if "reported" in view.best else ""
        parts.append(f"best {view.best['metric']} {view.best['value']:.4g}{reported}")
    for name, value in (view.result or {}).items():
        inner = value if isinstance(value, dict) else {"": value}
        figures = {key: one for key, one in inner.items() if isinstance(one, bool | int | float)}
        parts += [f"{name} {key} {_figure(one)}".replace("  ", " ") for key, one in figures.items()]
    return parts


def _figure(value: bool | float) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value:.4g}"


def _waited(way: _Way, run_id: str) -> RunView:
    way.watching(run_id)
    return wait_for_run(way.workspace, run_id, way.seconds_left, should_stop=way.should_stop, known=way.known)


def _start(way: _Way, arguments: dict[str, Any], kind: RunKind | None = None) -> NextCall | None:
    """Start a run of the kind, by default the one that the call names, and wait for its end."""
    chosen = kind or RunKind(arguments["kind"])
    source, steps = arguments.get("run_id"), arguments.get("steps")  # of a replay that may carry the plan over
    return _run(way, start_run(way.workspace, way.project, chosen, source_run=source, max_steps=steps))


def _watch(way: _Way, arguments: dict[str, Any]) -> NextCall | None:
    return _run(way, _waited(way, arguments["run_id"]))


def _search(way: _Way, arguments: dict[str, Any]) -> NextCall | None:
    return _study(way, {"study_id": start_study(way.workspace, arguments["project"]).study_id})


def _study(way: _Way, arguments: dict[str, Any]) -> NextCall | None:
    way.watching(arguments["study_id"])
    view = study_status(way.workspace, arguments["study_id"], way.seconds_left, should_stop=way.should_stop)
    found = study_in_words(view.state, view.confirmation or {})
    way.note(f"{view.study_id}: {found}, {view.trials_done}/{view.trials_total} trials")
    if not view.is_ended:
        way.ended = "wait"
    elif view.state != "completed":
        way.ended = "failure"
        way.reason = (view.failure or {}).get("message")
    return view.next


def _pass(way: _Way, arguments: dict[str, Any]) -> NextCall | None:
    answer = pass_gate(way.workspace, way.project, arguments.get("phase"))
    way.note(answer.outcome_in_words)
    if answer.now_in == "finished":
        way.ended = "finished"
    return answer.next


def _diagnose(way: _Way, arguments: dict[str, Any]) -> NextCall | None:
    answer = diagnose(way.workspace, way.project, arguments.get("run_id"))
    words = fit_in_words(answer.fit, answer.reasons, answer.beside_rivals)
    is_open = answer.recommendation == "decide"
    advice = "whether to release it is yours to decide" if is_open else f"recommendation {answer.recommendation}"
    way.note(f"{answer.run_id} diagnosed: {words}, {advice}; {answer.report}")
    if is_open and way.is_attended:  # it is asked before the release
        way.ended = "decision"
    return answer.next


def _export(way: _Way, arguments: dict[str, Any]) -> NextCall | None:
    """Export, which looks at the test rows, once all folds of a configuration that has some have run.

    A fold for which a limit leaves nothing is not waited for. A model that is no better than the release before is
    left to whoever decides.
    """
    if doubt := _doubt(way):
        if way.is_attended:
            way.ended = "decision"
            return _status(way.workspace, way.project).next
        way.note(doubt)
    while (found := _open_fold(way)) is not None:
        fold, run_id = found
        if way.is_over:
            way.ended = "wait"
        else:
            try:
                view = _waited(way, run_id) if run_id else start_run(
                    way.workspace, way.project, RunKind.ABLATION, changes={FOLD: fold}
                )  # fmt: skip
            except LimitReachedError as error:
                if error.details.get("waits"):
                    raise
                way.note(f"fold {fold} refused, and the export goes on without it: {error.message} {error.remedy}")
                break
            _run(way, view)
        if way.ended is not None:
            return _status(way.workspace, way.project).next
    return _start(way, arguments, RunKind.EXPORT)


def _doubt(way: _Way) -> str:
    """Return why a final model that has not looked at the test rows is no better than the release before; or ''."""
    with way.workspace.snapshot() as session:
        evidence = Evidence(session, way.workspace, way.project, inspection=Look())
        return no_better(evidence) if evidence.export is None else ""


def _open_fold(way: _Way) -> tuple[int, str | None] | None:
    with way.workspace.snapshot() as session:
        evidence = Evidence(session, way.workspace, way.project, inspection=Look())
        final, baseline = evidence.final, evidence.baseline
        if final is None or baseline is None or final.id != baseline.id:
            return None  # another configuration, whose folds would be a study of their own
        return open_fold(evidence, final.directory.specification().config)


STEPS: dict[str, Callable[[_Way, dict[str, Any]], NextCall | None]] = {
    "start_training": _start,
    "run_status": _watch,
    "start_tuning": _search,
    "tuning_status": _study,
    "pass_gate": _pass,
    "diagnose_run": _diagnose,
    "verify_reproducibility": partial(_start, kind=RunKind.REPLAY),
    "export_model": _export,
}


def _status(workspace: Workspace, project: str) -> ProjectStatus:
    status = project_status(workspace, project)
    assert isinstance(status, ProjectStatus)  # noqa: S101 - one name gives one status
    return status


def _result(way: _Way) -> list[str]:
    with way.workspace.snapshot() as session:
        return final_words(Evidence(session, way.workspace, way.project, inspection=Look()))


def _answer(way: _Way, call: NextCall | None) -> Advance:
    status = _status(way.workspace, way.project)
    ended = way.ended or ("finished" if status.finished else "decision")
    if ended == "wait" or (ended == "alert" and call is not None and _is_followed(call)):
        arguments = {"project": way.project, "wait_seconds": int(WAIT_SECONDS)}
        why = "what was started goes on" if ended == "wait" else f"goes on, where the alert asks for no change: {call}"
        call = NextCall(tool="advance", arguments=arguments, why=why)
    return Advance(
        project=way.project,
        steps=way.steps,
        ended=ended,
        phase=status.phase,
        final_model=f"{status.folder}/final_model" if status.finished else None,
        result=_result(way) if status.finished else [],
        reason=way.reason,
        failure=way.failure,
        alerts=way.alerts,
        next=call,
    )
