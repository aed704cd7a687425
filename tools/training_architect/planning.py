"""The plan: rules applied to facts, one decision after another, each kept with its reason and its source."""

from __future__ import annotations

import math
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from trainwright.tools.training_architect.documents import Rulebook, filled
from trainwright.tools.training_architect.estimates import step_seconds, work_by_formula
from trainwright.tools.training_architect.facts import IN_BLOCKS, Facts
from trainwright.tools.training_architect.fitting import FITTED, fit
from trainwright.tools.training_architect.goals import default_target
from trainwright.tools.training_architect.hardware import Device
from trainwright.tools.training_architect.plan import Plan
from trainwright.tools.training_architect.reading import (
    SHARE_OF_TRAIN,
    Reading,
    facts_of_data,
    family_of,
    lengths,
    proposed_model,
)
from trainwright.tools.training_architect.request import TABLES, PlanRequest
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.config.goal import MEASURED

if TYPE_CHECKING:
    from trainwright.tools.training_architect.fitting import MemoryOf

FIRST = ("loss", "plan.metric", "plan.max_length", "plan.effective_batch", "training.precision")
EPOCHS = "training.epochs"
OF_DATA = "data.args."


def make_plan(
    request: PlanRequest,
    reading: Reading,
    found: dict[str, Any],
    *,
    device: Device,
    book: Rulebook,
    memory_of: MemoryOf,
    price: tuple[float, str] | None = None,
) -> Plan:
    """Return the plan for a task whose columns are known.

    Raises:
        ConfigurationError: no way to train fits into the device's memory; the remedy says how much would be enough.
    """
    assert reading.task is not None, "asked for before"  # noqa: S101
    facts: Facts = {
        "task": reading.task,
        "goal": request.goal,
        **facts_of_data(found.get("data") or {}, reading.target),
    }
    plan = Plan(
        request, book, device, reading.task, facts, goal=reading.goal, assumed=list(reading.assumed), price=price
    )
    _add_device(plan, found["machine"])
    _add_model(plan, found.get("model"))
    plan.facts |= lengths(plan.facts)
    if plan.goal.metric is not None:
        plan.take("plan.metric", plan.goal.metric, "what was asked for", "the call" if request.metric else "the intent")
    for key in FIRST:
        is_named = key == "plan.metric" and plan.goal.metric is not None
        plan.facts[key.rpartition(".")[2]] = plan.goal.metric if is_named else plan.decide(key)
        if key == "plan.max_length":
            plan.facts |= _blocks(plan.facts)
    _add_data(plan, reading, found)
    fit(plan, memory_of)
    for key in book.keys:
        if key not in {*FIRST, *FITTED, EPOCHS} and not key.startswith(("checkpoints.", "logging.", OF_DATA)):
            plan.decide(key)
    _add_length(plan)
    for key in book.keys:
        if key.startswith(("checkpoints.", "logging.")):
            plan.decide(key)
    return plan


def _add_device(plan: Plan, machine: dict[str, Any]) -> None:
    device, limit = plan.device, plan.request.limits.get("memory_gib")
    memory = min(device.memory_gib, limit) if limit else device.memory_gib
    plan.facts |= {
        "device": device.kind, "hardware": device.name, "gpus": device.count, "cores": machine["cores"],
        "memory_gib": memory, "bf16": "bf16" in device.teraflops, "fp16": "fp16" in device.teraflops,
        "loader_workers": max(min(machine["cores"] // (2 * device.count), 8), 0),
        "here": {"a CUDA device": bool(machine["gpus"]), "bitsandbytes": bool(machine.get("bitsandbytes"))},
    }  # fmt: skip
    plan.assumed += device.notes


def _add_model(plan: Plan, found: dict[str, Any] | None) -> None:
    """Settle the model, its size and whether its weights are pretrained."""
    model, why, source = plan.request.model, "as named", "the call"
    if model is None:
        proposed = proposed_model(plan.task, plan.book)
        assert proposed is not None, "each task has a model"  # noqa: S101
        model, why = proposed
        source = "models.md"
        plan.assumed.append(f"no model was named: {model['args'].get('hub', model['use'])}, {why}")
    args = dict(model["args"])
    facts: Facts = {"family": family_of(model, plan.task)}
    is_pretrained = bool({"path", "hub"} & args.keys()) or bool(args.get("pretrained"))
    facts["start"] = "pretrained" if is_pretrained else "scratch"
    sizes = found if found and "parameters" in found else None
    if args.get("hub"):
        known = plan.book.known.get(args["hub"])
        sizes = sizes or (known.model_dump(exclude={"tasks"}) if known else None)
        folder = f"models/{PurePosixPath(args['hub']).name}"
        plan.first.append(f"hf download {args.pop('hub')} --local-dir {folder}")
        args = {name: value for name, value in args.items() if name != "revision"} | {"path": folder}
    if facts["family"] == "transformers" and sizes is None:
        raise ConfigurationError(
            f"The size of {model['args'].get('hub')} is not known: it is neither here nor in planning/models.md.",
            remedy="Download it (hf download ID --local-dir models/NAME), and plan with model='models/NAME'.",
            document="planning/models.md",
        )
    if not (plan.task == "image_classification" and (plan.request.data or {}).get("use") == "images"):
        sizes = {name: value for name, value in (sizes or {}).items() if name != "picture_size"}
    plan.facts |= facts | {name: value for name, value in (sizes or {}).items() if value is not None}
    plan.take("model", {"use": model["use"], **({"args": args} if args else {})}, why, source)


def _add_data(plan: Plan, reading: Reading, found: dict[str, Any]) -> None:
    """Put the data into the configuration: columns, tokenizer, length."""
    data = plan.request.data or {}
    args, use = dict(data["args"]), data["use"]
    if reading.form is not None:
        use, args = reading.form["use"], {**args, **reading.form["args"]}
    elif use in TABLES:
        args |= {name: value for name, value in (("text", reading.text), ("target", reading.target)) if value}
        told_by = (found["data"].get("told_by") or {}).get(reading.target, [])
        if told_by and reading.text is None and not {"features", "columns"} & args.keys():
            args["columns"] = dict.fromkeys(told_by, "ignore")
            plan.assumed.append(
                f"{', '.join(map(repr, told_by))} tells {reading.target!r} in every row, so it is left out "
                "(data.args.columns): ask the user whether it is known before what is predicted happens"
            )
    tokens = plan.facts.get("max_length")
    if tokens is not None:
        size = "block_size" if plan.task in IN_BLOCKS else "max_length"
        args.setdefault(size, tokens)
        plan.facts["max_length"] = args[size]
        folder = plan.config["model"].get("args", {}).get("path")
        if plan.facts["family"] == "transformers" and folder:
            args.setdefault("tokenizer", folder)
        counted = (found["data"].get("tokens") or {}).get("counted_by")
        plan.assumed += [f"tokens were counted as {counted}"] if str(counted).startswith("characters") else []
    rows = plan.facts.get("rows", 0)
    split = {"split": data["split"]} if "split" in data else {}
    plan.take("data", {"use": use, "args": args, **split}, f"{rows} rows were read", "measured on your rows")
    for key in plan.book.keys:
        if key.startswith(OF_DATA) and key.removeprefix(OF_DATA) not in args:
            plan.decide(key)
    # the metric that the goal is in; the loss needs no place among the metrics
    if plan.facts["metric"] != "loss":
        plan.config["metrics"] = [{"use": plan.goal.own} if plan.goal.own else plan.facts["metric"]]


def _add_length(plan: Plan) -> None:
    """Settle the epochs within the limits, and what follows from how long the run takes."""
    facts, limits = plan.facts, plan.request.limits
    rule = plan.book.rule_for(EPOCHS, facts)
    assert rule is not None, "the documents have a rule without a condition"  # noqa: S101
    epochs, why = int(rule.decided(facts)), rule.reason(facts)
    steps = max(math.ceil(facts.get("rows", 1) * SHARE_OF_TRAIN / facts["effective_batch"]), 1)
    epoch = _epoch_seconds(plan, steps)
    hours = _hours_allowed(plan, limits)
    if epoch is not None and hours is not None and epoch[1] * epochs > hours * 3600:
        fitting = max(int(hours * 3600 / epoch[1]), 1)
        why += f"; {epochs} were lowered, for an epoch may take {epoch[1] / 3600:.2g} of {hours:.3g} h"
        epochs = min(epochs, fitting)
    plan.take(EPOCHS, epochs, why, f"{rule.id}: {rule.source}")
    facts["steps"] = steps * epochs
    if epoch is not None:
        plan.seconds = epoch[0] * epochs, epoch[1] * epochs
        middle = math.sqrt(epoch[0] * epoch[1])
        facts |= {
            "epoch_minutes": round(middle / 60, 1), "run_minutes": round(middle * epochs / 60, 1),
            "steps_in_fifteen_minutes": max(round(900 * steps / max(middle, 1e-9)), 1),
        }  # fmt: skip


def _blocks(facts: Facts) -> Facts:
    """Return the blocks that documents are cut into as rows, where whole documents are learned from."""
    if facts["task"] not in IN_BLOCKS or not facts.get("max_length"):
        return {}
    documents = facts.get("rows", 1)
    return {"rows": max(math.ceil(documents * facts.get("tokens_p50", 0) / facts["max_length"]), documents)}


def _epoch_seconds(plan: Plan, steps: int) -> tuple[float, float] | None:
    """Return the least and the most seconds of an epoch; None where work, or the device's speed, is not known."""
    facts = plan.facts
    seconds = plan.memory.step_seconds if plan.memory is not None else None
    if seconds is None and "parameters" in facts and facts.get("max_length") and plan.way is not None:
        tokens = min(facts["max_length"], facts.get("tokens_p99", 10**9))
        rows = max(facts["effective_batch"] // facts["gpus"], 1) * facts.get("choices", 1)
        work = work_by_formula(facts, plan.way.changes, rows=rows, tokens=tokens)
        seconds = step_seconds(work, plan.device, str(facts["precision"]))
    return None if seconds is None else (seconds[0] * steps, seconds[1] * steps)


def _hours_allowed(plan: Plan, limits: dict[str, float]) -> float | None:
    """Return the hours that hours and dollars allow, and keep them as limits of the project."""
    hours = [limits["hours"]] if "hours" in limits else []
    if "dollars" in limits and plan.price is not None:
        device_hours = limits["dollars"] / plan.price[0]
        plan.limits["gpu_hours"] = round(device_hours, 2)
        hours.append(device_hours / plan.device.count)
    elif "dollars" in limits:
        plan.assumed.append(
            "a price is missing: dollars bound nothing until limits.dollars_per_hour says one GPU's price"
        )
    if "hours" in limits:
        plan.limits["run_wall_clock_seconds"] = limits["hours"] * 3600
    return min(hours) if hours else None


def alternatives_of(plan: Plan) -> list[dict[str, Any]]:
    """Return what else fits or holds, each with its price."""
    found = [
        {"id": way.id, "changes": way.changes, "trade": way.trade}
        for way in plan.book.ways
        if way.holds(plan.facts) and plan.way is not None and way.id != plan.way.id
        and not any(text.startswith(f"{way.id} ") for text in plan.passed_over)
    ]  # fmt: skip
    found += [
        {"id": one.id, "changes": one.changes, "trade": filled(one.trade, plan.facts)}
        for one in plan.book.alternatives
        if one.holds(plan.facts)
    ]
    return list({one["id"]: one for one in found}.values())


def proposed_goal(plan: Plan) -> dict[str, Any]:
    """Return metric, direction and target of the project: as asked for, else the middle to perfection."""
    metric, target = plan.facts["metric"], plan.goal.target
    direction = plan.goal.direction or MEASURED[metric][0]
    if target is None:
        default = default_target(metric, plan.facts)
        assert default is not None, "asked for before"  # noqa: S101
        target, why = default
        plan.assumed.append(why)
    return {"metric": metric, "direction": direction, "target": target}
