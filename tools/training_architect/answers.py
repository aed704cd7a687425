"""Answers about a plan: its values with their reasons, what was assumed, and the call that creates the project."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Any, Literal

from pydantic import BaseModel, Field

from trainwright.tools.answers import Answer, NextCall
from trainwright.tools.projects.goals import bound_of_test
from trainwright.tools.training_architect.facts import PLAN_KEYS
from trainwright.tools.training_architect.goals import Question
from trainwright.tools.training_architect.hardware import GIB
from trainwright.tools.training_architect.plan import Decision, Plan, in_all
from trainwright.tools.training_architect.planning import alternatives_of, proposed_goal
from trainwright.tools.training_architect.request import OF_DATA, PlanRequest, placed
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.tables import Project
from trainwright.trainer.config import flatten, merge_changes
from trainwright.trainer.estimation.prices import MISSING

TOOL = "plan_training"
CENT = 0.01
"""Dollars, below which nothing is told apart."""
MAX_ALTERNATIVES = 3
ROOFLINE = "operations and bytes of a step by formula, on a roofline; a probe run measures it"
COUNTED = "counted operations and bytes of a step on a roofline; a probe run measures it"


ROUTINE = ("checkpoints.", "logging.", "schedule.", "training.accumulation_steps")
"""Beginnings of keys that hardly anybody sets: reasons on request."""


class PlannedValue(BaseModel):
    """One decision."""

    key: str
    value: Any
    why: str
    source: str


class Estimates(BaseModel):
    """What the run will take, as far as it is known before it is tried."""

    hardware: str
    memory_gib: float | None = None
    """Of one device, at its highest."""
    of_gib: float
    memory_source: str | None = None
    memory_error_percent: float | None = None
    """Largest error measured of this way to estimate; absent: not measured."""
    minutes: tuple[float, float] | None = None
    """Least and most, for training alone."""
    minutes_in_all: tuple[float, float] | None = None
    """Of a release: baseline, replay, loading, validation, export; at the most with a search and a final run."""
    time_source: str | None = None
    dollars: tuple[float, float] | None = None
    """For all of it."""
    price_source: str | None = None
    """Where the price is from, with its day; or that there is none, and who gives it."""


class AlternativeView(BaseModel):
    """Another choice, and its price."""

    id: str
    changes: dict[str, Any] = Field(default_factory=dict)
    trade: str


class QuestionView(BaseModel):
    """Something decisive that is open."""

    question: str
    argument: str
    """Of `plan_training`, or the key of its data: data.args.target."""
    choices: list[str] | None = None


class PlanAnswer(Answer):
    """A plan, or the questions that stand before it."""

    state: Literal["planned", "questions", "running"]
    questions: list[QuestionView] | None = None
    goal: dict[str, Any] | None = None
    values: list[PlannedValue] | None = None
    estimates: Estimates | None = None
    assumed: list[str] | None = None
    does_not_fit: list[str] | None = None
    """What was preferred, and needs more memory or time than there is."""
    alternatives: list[AlternativeView] | None = None
    first: list[str] | None = None
    """Commands to run before the project is created."""
    files: list[str] | None = None
    """Written on request: a script that trains outside Trainwright, and what it needs."""

    def unsaid(self) -> dict[str, Any]:
        """Sources, values that decide nothing, and what the proposed call says: the goal, values of sections."""
        of_values: dict[int, Any] = {
            place: {"source", "value"} if isinstance(one.value, dict) else {"source"}
            for place, one in enumerate(self.values or [])
        }
        of_values |= {place: True for place, one in enumerate(self.values or []) if one.key.startswith(ROUTINE)}
        sources = {"memory_source", "memory_error_percent", "time_source"}
        return {"values": of_values, "estimates": sources} | ({} if self.next is None else {"goal": True})


def _place(answer: str) -> str:
    """Return where the call takes an answer: an argument's name, or a key of its data."""
    if answer not in OF_DATA:
        return answer
    return next(key for key, value in flatten({"data": placed({}, answer, answer)}).items() if value == answer)


def questions_answer(request: PlanRequest, questions: list[Question], assumed: list[str]) -> PlanAnswer:
    """Return the questions, and the call that takes their answers."""
    arguments = request.as_arguments()
    for question in questions:
        hint = f"<{'|'.join(question.choices) or question.argument}>"
        if question.argument in OF_DATA:
            data = arguments.get("data") or {"use": "csv", "args": {}}
            arguments["data"] = placed(data, question.argument, hint)
        else:
            arguments[question.argument] = hint
    views = [
        QuestionView(question=one.asks, argument=_place(one.argument), choices=one.choices or None) for one in questions
    ]
    again = NextCall(tool=TOOL, arguments=arguments, why="with the answers of whoever knows; ask the user")
    return PlanAnswer(state="questions", questions=views, assumed=assumed or None, next=again)


def plan_answer(workspace: Workspace, plan: Plan, files: list[str], name: str) -> PlanAnswer:
    """Return the plan as an answer."""
    goal = proposed_goal(plan)
    values = [PlannedValue(key=one.key, value=_seen(one), why=one.why, source=one.source) for one in plan.decisions]
    shown = [value for value in values if value.key not in PLAN_KEYS or value.key == "plan.effective_batch"]
    offers = [*_bound_of_test(plan, goal), *alternatives_of(plan)]
    alternatives = [AlternativeView.model_validate(one) for one in offers[:MAX_ALTERNATIVES]]
    return PlanAnswer(
        state="planned",
        goal=goal,
        values=shown,
        estimates=_estimates(plan),
        assumed=plan.assumed or None,
        does_not_fit=plan.passed_over or None,
        alternatives=alternatives or None,
        first=plan.first or None,
        files=files or None,
        next=_creation(workspace, plan, goal, name),
    )


def _bound_of_test(plan: Plan, goal: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the bound of the test rows as a choice, where the sentence asks for rows that nothing chose by."""
    config = merge_changes(plan.config, {}, argument="config", nested=True).config
    changes = bound_of_test(plan.request.intent, goal, config)
    trade = (
        f"a release needs {goal['metric']} {goal['target']:g} on the test rows too, and chance decides where they are "
        "few; without it their figure is told with its interval, and closes no gate"
    )
    return [{"id": "bound_of_test", "changes": changes, "trade": trade}] * bool(changes)


def _seen(decision: Decision) -> Any:
    """Return a value as it is read: a section without options is on."""
    is_bare = isinstance(decision.value, dict) and all(one is None for one in decision.value.values())
    return "on" if is_bare else decision.value


def _estimates(plan: Plan) -> Estimates:
    memory, seconds, price = plan.memory, plan.seconds, plan.price
    count = f"{plan.device.count}x " if plan.device.count > 1 else ""
    estimates = Estimates(hardware=f"{count}{plan.device.name} ({plan.device.source})", of_gib=plan.facts["memory_gib"])
    if memory is not None:
        estimates.memory_gib = round(memory.peak_bytes / GIB, 2)
        estimates.memory_source, estimates.memory_error_percent = memory.source, memory.error_percent
    is_rented = price is not None and not plan.device.source.startswith("probed")
    whole = in_all(plan, is_rented=is_rented)
    if seconds is not None and whole is not None:
        estimates.minutes = (0.0, 1.0) if seconds[1] < 60 else (_short(seconds[0] / 60), _short(seconds[1] / 60))
        estimates.minutes_in_all = _short(whole[0] / 60), _short(whole[1] / 60)
        counted = memory is not None and memory.step_seconds is not None
        estimates.time_source = COUNTED if counted else ROOFLINE
        if price is not None:
            low, high = (one / 3600 * price[0] * plan.device.count for one in whole)
            estimates.dollars = (0.0, CENT) if high < CENT else (_short(low), _short(high))
            estimates.price_source = price[1]
        elif plan.device.kind != "cpu":
            estimates.price_source = MISSING
    return estimates


def _creation(workspace: Workspace, plan: Plan, goal: dict[str, Any], name: str) -> NextCall:
    """Return the call that creates the project; after the commands of `first`, where there are some."""
    allowed = workspace.settings.limits
    limits = {name: value for name, value in plan.limits.items() if value < getattr(allowed, name)}
    arguments: dict[str, Any] = {
        "name": name,
        "intent": plan.request.intent,
        "goal": goal,
        "config": _with_root(plan),
    }
    if limits:
        arguments["limits"] = limits
    after = (
        f"after: {'; '.join(plan.first)}" if plan.first else "creates the project; then a smoke run measures the plan"
    )
    return NextCall(tool="create_project", arguments=arguments, why=after)


def _with_root(plan: Plan) -> dict[str, Any]:
    root = plan.request.code_root
    return plan.config if root == "." else {"code_root": root, **plan.config}


def free_name(workspace: Workspace, request: PlanRequest) -> str:
    """Return a name after the data that no project has."""
    data = request.data or {}
    path = data.get("args", {}).get("path") or data.get("use")
    place = PurePosixPath(str(path[0] if isinstance(path, list) else path))
    is_one = not isinstance(path, list) and "*" not in place.name
    stem = place.stem if is_one else place.parent.name
    name = re.sub(r"[^a-z0-9_-]+", "-", stem.lower()).strip("-_")[:50] or "project"
    with workspace.session() as session:
        tried = (name if number == 1 else f"{name}-{number}" for number in range(1, 10_000))
        return next(one for one in tried if session.get(Project, one) is None)


def _short(value: float) -> float:
    return float(f"{value:.2g}")
