"""Planning a training: inspect, read the task, ask or plan, and answer."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from trainwright.tools.answers import NextCall
from trainwright.tools.environments import found_environment
from trainwright.tools.owner import root_grants
from trainwright.tools.projects import settled_values
from trainwright.tools.projects.configuration import code_folder
from trainwright.tools.projects.named_files import require_files
from trainwright.tools.training_architect.answers import TOOL, PlanAnswer, free_name, plan_answer, questions_answer
from trainwright.tools.training_architect.columns import require_columns
from trainwright.tools.training_architect.documents import load_rulebook
from trainwright.tools.training_architect.estimates import Tracer, price_of
from trainwright.tools.training_architect.files import require_script, write_files
from trainwright.tools.training_architect.goals import Question
from trainwright.tools.training_architect.hardware import TABLE, named_device, probed_device
from trainwright.tools.training_architect.inspecting import inspected, target_alone
from trainwright.tools.training_architect.intent import with_intent
from trainwright.tools.training_architect.places import TABLES
from trainwright.tools.training_architect.plan import Plan
from trainwright.tools.training_architect.planning import make_plan
from trainwright.tools.training_architect.reading import facts_of_data, kind_of_target, read_task
from trainwright.tools.training_architect.request import PlanRequest, read_request
from trainwright.tools.workspace import Workspace
from trainwright.trainer.base.errors import ConfigurationError, TrainwrightError
from trainwright.trainer.config import MergedConfig, merge_changes
from trainwright.trainer.data.sections import targets_of
from trainwright.trainer.losses import LOSSES
from trainwright.trainer.metrics import BUILT_IN, Metric

MAX_LOOKING_SECONDS = 10.0
"""For which a project's creation waits for what its data are."""
MAX_NAMED = 6
"""Classes that a refusal names."""
CACHED_SECONDS = 2.0
"""Up to which what was inspected before is read again."""


def plan_training(
    workspace: Workspace,
    request: PlanRequest,
    *,
    wait_seconds: float = 50.0,
    should_stop: Callable[[], bool] = lambda: False,
    with_files: bool = False,
) -> PlanAnswer:
    """Return a plan, or the questions that stand before it; `running` while files are still being read.

    Nothing is created, and nothing of it is evidence: the planning gate measures what a plan estimates.

    Raises:
        ConfigurationError: a code root outside the owner's folders, unknown hardware, a model of unknown size, or
            nothing that fits into the memory.
        DataError: the data cannot be read.
    """
    root = _root(workspace, request)
    request = _within_scope(request, root)
    began, owners = time.monotonic(), workspace.path / TABLE
    request, noted = with_intent(request.located(root), owners)
    named = named_device(request.hardware, owners) if request.hardware else None
    found = {} if request.data is None else inspected(workspace, request, root, wait_seconds, should_stop)
    if found is None:
        return _again(request, "the data are still being read")
    has_read = time.monotonic() - began > CACHED_SECONDS
    reading = read_task(request, found)
    reading.assumed[:0] = noted
    if with_files:
        require_script(reading.task)
    if reading.questions:
        return questions_answer(request, reading.questions, reading.assumed)
    device = named or probed_device(found["machine"], owners)
    tracer = Tracer(workspace, root, device, began + wait_seconds, should_stop)
    price = price_of(workspace, device, request.limits.get("dollars_per_hour"))
    plan = make_plan(
        request, reading, found, device=device, book=load_rulebook(), memory_of=tracer, price=price,
        longest_seconds=workspace.settings.limits.run_wall_clock_seconds,
        environment=found_environment(workspace, root),
    )  # fmt: skip
    plan.assumed += [tracer.problem] if tracer.problem is not None else []
    if tracer.is_out_of_time and has_read:  # the next call has all its time for this
        return _again(request, "memory is still being traced")
    if not plan.first:  # the files that a command brings are not here yet
        merged = _merged(plan)
        require_files(merged.changes, merged.config, root)
    name = free_name(workspace, request)
    files = write_files(workspace, plan, root, name) if with_files else []
    return plan_answer(workspace, plan, files, name)


def _within_scope(request: PlanRequest, root: Path) -> PlanRequest:
    """Return the request, with the network that its sentence names. Raises ConfigurationError: beyond a plan."""
    request = request.with_network(root)
    if request.task is None:
        load_rulebook().refuse_beyond(request.intent, has_network=request.network is not None)
    return request


def _merged(plan: Plan) -> MergedConfig:
    """Return the plan's configuration, checked. Raises ConfigurationError: what the call gave breaks the schema."""
    try:
        return merge_changes(plan.config, {}, argument="config", nested=True)
    except ConfigurationError as error:
        fixed = (error.details.get("amend") or {}).get("config") or {}
        given = {name: fixed[name] for name in ("data", "model") if name in fixed and getattr(plan.request, name)}
        raise ConfigurationError(
            error.message,
            remedy="Make the same call with what that rule says of data and model.",
            document=error.document,
            details=error.details | {"amend": given or None},
        ) from error


def _again(request: PlanRequest, why: str) -> PlanAnswer:
    return PlanAnswer(state="running", next=NextCall(tool=TOOL, arguments=request.as_arguments(), why=why))


def open_questions(workspace: Workspace, request: PlanRequest, wait_seconds: float = 50.0) -> list[str]:
    """Return the open questions about data, goal and money, as a person would be asked; none while files are read."""
    root, owners = _root(workspace, request), workspace.path / TABLE
    request = _within_scope(request, root)
    request, _ = with_intent(request.located(root), owners)
    found = {} if request.data is None else inspected(workspace, request, root, wait_seconds)
    if found is None:
        return []
    questions = read_task(request, found).questions
    if "dollars" in request.limits and request.hardware:
        device = named_device(request.hardware, owners)
        if price_of(workspace, device, request.limits.get("dollars_per_hour")) is None:
            questions.append(Question(f"What does an hour of one {device.name} cost, in dollars?", "dollars_per_hour"))
    return [one.asks + (f" ({', '.join(one.choices)})" if one.choices else "") for one in questions]


def require_fitting_metric(workspace: Workspace, config: dict[str, Any], goal: dict[str, Any]) -> None:
    """Refuse a target that the data lack, and a goal in a metric that says nothing of it, before there is a project.

    Data of user code, what takes long to read, odd words among numbers, and a task that contradicts the loss are left
    to the smoke run, which names the cells.

    Raises ConfigurationError.
    """
    try:
        values = settled_values(config, goal)
        metric, data = BUILT_IN.get(values["selection"]["metric"]), values["data"]
        if data["use"] not in TABLES and (metric is None or not (metric.classes or metric.beyond)):
            return
        request = read_request(intent="", data=data, code_root=values.get("code_root", "."))
        found = target_alone(workspace, request, _root(workspace, request), MAX_LOOKING_SECONDS)
    except (TrainwrightError, KeyError):  # the project's creation words it
        return
    require_columns(request, found)
    targets = targets_of(data.get("args", {}))
    kind = data.get("args", {}).get("task") or kind_of_target(found, targets)
    classes = None if kind == "regression" else facts_of_data(found, targets).get("classes")
    if metric is None or metric.fits(kind, classes):
        return
    loss = values["loss"] if isinstance(values["loss"], str) else values["loss"]["use"]
    if "task" in data.get("args", {}) and loss in LOSSES and LOSSES[loss].task not in {kind, None}:
        return
    names = list((found.get("counts") or {}).get(targets[0] if targets else "", {}).get("classes") or {})
    if "regression" in metric.tasks and any(_is_number(one) for one in names):
        return
    has = "a number" if kind == "regression" else f"one of {classes} classes"
    has += f" ({', '.join(names[:MAX_NAMED])}{', …' * (len(names) > MAX_NAMED)})" if names else ""
    fitting = [name for name, one in BUILT_IN.items() if one.fits(kind or "classification", classes)]
    losses = [name for name, one in LOSSES.items() if one.task == (kind or "classification")]
    raise ConfigurationError(
        f"The goal is in {metric.name}, which is for {_meant(metric)}, and what is predicted is {has}.",
        remedy=f"Ask the user for a goal in one of {', '.join(fitting[:5])}, or in a function of theirs"
        f"{'' if loss in losses else f', with loss {losses[0]}'}.",
        document="configs/metrics.md",
    )


def _meant(metric: Metric) -> str:
    if "regression" in metric.tasks:
        return "numbers"
    least = f"more than {metric.beyond} classes" if metric.beyond else "classes"
    return f"{metric.classes} classes" if metric.classes else least


def _is_number(cell: str) -> bool:
    try:
        return math.isfinite(float(cell))
    except ValueError:
        return False


def _root(workspace: Workspace, request: PlanRequest) -> Path:
    root = code_folder(workspace, request.code_root)
    if root_grants(workspace, root):
        raise ConfigurationError(
            f"code_root {str(root)!r} lies outside the folders that the workspace's owner allows.",
            remedy="Put the data under one of them, or create_project with this code_root: that asks the owner for it.",
            document="phases/limits.md",
        )
    return root
