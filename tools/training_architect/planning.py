"""The plan: rules applied to facts, one decision after another, each kept with its reason and its source."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Any

from trainwright.tools.environments import Found
from trainwright.tools.gates.folds import folds_advice
from trainwright.tools.training_architect.asked_groups import asked_groups, shared_names
from trainwright.tools.training_architect.documents import KnownModel, Rulebook, filled
from trainwright.tools.training_architect.estimates import step_seconds, work_by_formula
from trainwright.tools.training_architect.facts import IN_BLOCKS, Facts
from trainwright.tools.training_architect.fitting import FITTED, MemoryOf, fit
from trainwright.tools.training_architect.goals import default_target
from trainwright.tools.training_architect.groups import SAMPLE
from trainwright.tools.training_architect.hardware import Device
from trainwright.tools.training_architect.own_code import refuse_texts
from trainwright.tools.training_architect.places import TABLES
from trainwright.tools.training_architect.plan import EVALUATED, MIN_RUNS, RUNS, Allowed, Plan, allowed_of, starting
from trainwright.tools.training_architect.reading import (
    SHARE_OF_TRAIN,
    Reading,
    facts_of_data,
    family_of,
    lengths,
    proposed_models,
)
from trainwright.tools.training_architect.request import PlanRequest
from trainwright.tools.workspace.settings import ProjectLimits
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.config.goal import MEASURED
from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.metrics.built_in import quantile_of

FIRST = ("loss", "plan.metric", "plan.max_length", "plan.effective_batch", "training.precision")
EPOCHS = "training.epochs"
OF_DATA = "data.args."
ADAPTERS = re.compile(r"\b(?:q?lora|dora|peft|adapters?)\b", re.IGNORECASE)
TRAINED_ON = re.compile(r"-(?:instruct|chat|it|base)$", re.IGNORECASE)
"""Ends of a model's name that say how its base was trained on."""
CHATS = re.compile(r"instruct|chat|-it\b", re.IGNORECASE)
FEW_ROWS = 1000
"""Of 15 % of them for validation no difference of 5 points is told from chance (two errors of a share of 0.9)."""
SIMPLE = {
    "text_classification": "a logistic regression on counted words",
    "table_classification": "a linear model", "table_regression": "a linear model",
}  # fmt: skip
"""The rival of few rows, by task: a baseline's worker fits it beside the model."""
MIN_SHARE = 0.34
"""Of a model's epochs that must fit the stated time; else a faster model is tried."""


def make_plan(
    request: PlanRequest,
    reading: Reading,
    found: dict[str, Any],
    *,
    device: Device,
    book: Rulebook,
    memory_of: MemoryOf,
    price: tuple[float, str] | None = None,
    longest_seconds: float = ProjectLimits().run_wall_clock_seconds,
    environment: Found | None = None,
) -> Plan:
    """Return the plan for a task whose columns are known: of the models for it, the first that fits the stated time.

    Args:
        environment: in which its runs are to work; None: the server's own.

    Raises:
        ConfigurationError: no way to train fits into the device's memory, or no epoch into the stated time; the remedy
            says what would be enough.
    """
    assert reading.task is not None, "asked for before"  # noqa: S101
    axes = len((found.get("data") or {}).get("shape") or [1])
    models = [(request.model, "as named")] if request.model else proposed_models(reading.task, book, axes)
    if request.network is not None:
        if reading.task not in book.built_in:
            raise refuse_texts(request.network)
        models = [(models[-1][0], "it stands in for yours")]
    plans: list[Plan] = []
    for model, why in models:
        plan = Plan(
            request, book, device, reading.task, _first_facts(request, reading, found), goal=reading.goal,
            assumed=list(reading.assumed), price=price, longest_seconds=longest_seconds,
        )  # fmt: skip
        if environment is not None:
            plan.take("environment", environment.section.named, environment.why, "found beside the code")
        _decide(plan, (model, why), reading, found, memory_of)
        _take_network(plan)
        plan.passed_over[:0] = [one.slowness for one in plans]
        plans.append(plan)
        if plan.planned_share >= MIN_SHARE:
            return plan
    best = max(plans, key=lambda one: one.planned_share)
    assert best.allowed is not None, "or it would have fitted"  # noqa: S101
    if not best.allowed.is_stated:
        best.assumed.append(f"{best.slowness}: {best.allowed.why}. Ask the user how long it may take in all")
    elif best.planned_share <= 0:
        raise _no_epoch_fits(best, best.allowed)
    return best


def _no_epoch_fits(plan: Plan, allowed: Allowed) -> ConfigurationError:
    assert plan.epoch_seconds is not None, "or nothing bounds the time"  # noqa: S101
    most, runs = plan.epoch_seconds[1], RUNS[plan.facts["goal"]]
    enough = _two_digits((most * runs * EVALUATED[1] + starting()[1]) / 3600)
    less = f", goal='fastest' ({MIN_RUNS} runs instead of {runs})" if plan.facts["goal"] != "fastest" else ""
    return ConfigurationError(
        f"Not one epoch fits: it takes up to {most / 60:.3g} minutes on {plan.facts['hardware']}, and {allowed.why}.",
        remedy=f"Ask the user for limits={{'hours': {enough:g}}} or more{less}, fewer rows, or another machine.",
        document="planning/length.md",
    )


def _two_digits(value: float) -> float:
    """Return the next number up of two digits."""
    scale = 10 ** (math.floor(math.log10(value)) - 1)
    return float(round(math.ceil(value / scale) * scale, 6))


def _first_facts(request: PlanRequest, reading: Reading, found: dict[str, Any]) -> Facts:
    return {
        "task": reading.task,
        "adapters": ADAPTERS.search(request.intent) is not None,
        "bound": bool({"hours", "dollars"} & request.limits.keys()),
        "goal": request.goal,
        **facts_of_data(found.get("data") or {}, reading.targets),
    }


def _decide(
    plan: Plan, model: tuple[dict[str, Any], str], reading: Reading, found: dict[str, Any], memory_of: MemoryOf
) -> None:  # fmt: skip
    """Take every decision for a model, which comes with why it is tried."""
    _add_device(plan, found["machine"])
    rows, simple = plan.facts.get("rows", FEW_ROWS), SIMPLE.get(plan.task)
    if rows < FEW_ROWS and simple is not None:
        plan.assumed.append(
            f"of {rows} rows {simple} is the model to beat: the baseline stands beside it on the same rows, and where "
            "the two are not told apart the simpler one serves as well"
        )
    _add_model(plan, *model, found.get("model"))
    plan.facts |= lengths(plan.facts)
    if plan.goal.metric is not None:
        source = "the call" if plan.request.metric else "the intent"
        plan.take("plan.metric", plan.goal.metric, "what was asked for", source)
        if (level := quantile_of(plan.goal.metric)) is not None:
            plan.facts["quantile_loss"] = {"use": "quantile", "args": {"quantile": level}}
    for key in FIRST:
        is_named = key == "plan.metric" and plan.goal.metric is not None
        plan.facts[key.rpartition(".")[2]] = plan.goal.metric if is_named else plan.decide(key)
        if key == "plan.max_length":
            plan.facts |= _blocks(plan.facts)
    _add_data(plan, reading, found)
    fit(plan, memory_of)
    for key in plan.book.keys:
        if key not in {*FIRST, *FITTED, EPOCHS} and not key.startswith(("checkpoints.", "logging.", OF_DATA)):
            plan.decide(key)
    _add_length(plan)
    for key in plan.book.keys:
        if key.startswith(("checkpoints.", "logging.")):
            plan.decide(key)


def _take_network(plan: Plan) -> None:
    """Put the user's network in the place of the model that stood in for it."""
    if plan.request.network is not None:
        plan.decisions = [one for one in plan.decisions if one.key != "model"]
        plan.take("model", plan.request.network, "yours; a plan runs no code", "the call")


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


def _add_model(plan: Plan, model: dict[str, Any], why: str, found: dict[str, Any] | None) -> None:
    """Settle the model, its size and whether its weights are pretrained."""
    source = "the call" if plan.request.model else "models.md"
    if plan.request.network is not None:
        plan.assumed.append(
            f"rate, length and memory are those of {model['use']}, since a plan does not run "
            f"{plan.request.network['use']}: start_training(kind='probe') measures them on yours"
        )
    elif plan.request.model is None:
        plan.assumed.append(f"no model was named: {model['args'].get('hub', model['use'])}, {why}")
    args = dict(model["args"])
    facts: Facts = {"family": family_of(model, plan.task)}
    is_pretrained = bool({"path", "hub"} & args.keys()) or bool(args.get("pretrained"))
    facts["start"] = "pretrained" if is_pretrained else "scratch"
    facts["from_last"] = args.get("from_last") is True
    sizes = found if found and "parameters" in found else None
    if args.get("hub"):
        known = plan.book.known.get(args["hub"]) or _sibling(plan, args["hub"])
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
    path = str(args.get("path") or "")
    if plan.task == "instruction" and not CHATS.search(path):
        plan.assumed.append(f"{path} may be a base model, and a base model has no chat template: see configs/text.md")
    plan.facts |= facts | {name: value for name, value in (sizes or {}).items() if value is not None}
    plan.take("model", {"use": model["use"], **({"args": args} if args else {})}, why, source)


def _sibling(plan: Plan, hub: str) -> KnownModel | None:
    """Return the sizes of a model whose base, or another training of the same weights, is known."""
    found = next((name for name in plan.book.known if TRAINED_ON.sub("", name) == TRAINED_ON.sub("", hub)), None)
    if found is None:
        return None
    plan.assumed.append(f"{hub} has the size of {found}")
    return plan.book.known[found]


def _add_data(plan: Plan, reading: Reading, found: dict[str, Any]) -> None:
    """Put the data into the configuration: columns, tokenizer, length."""
    data = plan.request.data or {}
    args, use = dict(data["args"]), data["use"]
    if reading.form is not None:
        use, args = reading.form["use"], {**args, **reading.form["args"]}
    elif use in TABLES:
        target = reading.targets if reading.further else reading.target
        args |= {name: value for name, value in (("text", reading.text), ("target", target)) if value}
        tells: dict[str, list[str]] = found["data"].get("told_by") or {}
        told_by = {one: name for name in reading.targets for one in tells.get(name, []) if one not in reading.targets}
        data = {**({"split": reading.split} if reading.split else {}), **data}
        _leave_out_rows(plan, args, reading, found["data"])
        _tell_groups(plan, reading, found["data"], told_by)
        if reading.series is not None:
            args["series"] = reading.series
        elif reading.text is None and not {"features", "columns"} & args.keys():
            _leave_out(plan, args, reading, told_by)
    elif found["data"].get("are_whole") and "standardize" not in args:
        args["standardize"] = True
        plan.assumed.append("whole numbers are taken for quantities, and standardised; indices need standardize=false")
    _add_tokens(plan, args, found["data"])
    rows = plan.facts.get("rows", 0)
    split = {"split": data["split"]} if "split" in data else {}
    plan.take("data", {"use": use, "args": args, **split}, f"{rows} rows were read", "measured on your rows")
    _advise_folds(plan, use, reading, found["data"])
    for key in plan.book.keys:
        if key.startswith(OF_DATA) and key.removeprefix(OF_DATA) not in args:
            plan.decide(key)
    # the metric that the goal is in; the loss needs no place among the metrics
    if plan.facts["metric"] != "loss":
        plan.config["metrics"] = [{"use": plan.goal.own} if plan.goal.own else plan.facts["metric"]]


def _add_tokens(plan: Plan, args: dict[str, Any], data: dict[str, Any]) -> None:
    """Put the tokenizer and the length of texts into the arguments."""
    tokens = plan.facts.get("max_length")
    if tokens is None:
        return
    size = "block_size" if plan.task in IN_BLOCKS else "max_length"
    args.setdefault(size, tokens)
    plan.facts["max_length"] = args[size]
    folder = plan.config["model"].get("args", {}).get("path")
    if plan.facts["family"] == "transformers" and folder:
        args.setdefault("tokenizer", folder)
    counted = (data.get("tokens") or {}).get("counted_by")
    plan.assumed += [f"tokens were counted as {counted}"] if str(counted).startswith("characters") else []


def _tell_groups(plan: Plan, reading: Reading, data: dict[str, Any], told_by: Iterable[str]) -> None:
    """Have figures told for each group that the sentence names: no bound, so it closes no gate."""
    no_inputs = [*reading.targets, *reading.others, *told_by, (reading.split or {}).get("group")]
    names = asked_groups(plan.request.intent, data["columns"], no_inputs)
    if names and reading.text is None and reading.series is None:
        plan.config.setdefault("evaluation_gate", {})["groups"] = {name: {} for name in names}
        listed = " and ".join(map(repr, names))
        plan.assumed.append(f"figures are told for each {listed} too, without a bound: evaluation_gate.groups")


def _leave_out_rows(plan: Plan, args: dict[str, Any], reading: Reading, data: dict[str, Any]) -> None:
    """Leave out the rows without a target, which training refuses unless that is said."""
    empty = {one["name"]: one["empty"] for one in data["columns"] if one["name"] in reading.targets and "empty" in one}
    if not empty or args.get("drop_without_target") is not None:
        return
    args["drop_without_target"] = True
    named = ", ".join(f"{count} without {name!r}" for name, count in empty.items())
    plan.assumed.append(f"rows without a target ({named}) are left out: data.args.drop_without_target")


def _advise_folds(plan: Plan, use: str, reading: Reading, data: dict[str, Any]) -> None:
    """Say before there is a result that folds are worth their runs, where few rows or groups are left to measure by."""
    if use not in TABLES or reading.series is not None:
        return
    section = SplitSection.model_validate(plan.config["data"].get("split") or {})
    groups = {one["name"]: one["different"] for one in data.get("columns", [])}
    classes = (data.get("counts") or {}).get(reading.target, {}).get("classes") or {}
    rare = min(classes.values()) if len(classes) == 2 else None
    advice = folds_advice(section, plan.facts.get("rows", 0), groups.get(section.key), rare)
    names = ""
    if reading.text is None and section.by == "random":
        names = shared_names(data.get("columns", []), min(plan.facts.get("rows", 0), SAMPLE), reading.targets)
    plan.assumed += filter(None, [names, advice])


def _leave_out(plan: Plan, args: dict[str, Any], reading: Reading, told_by: dict[str, str]) -> None:
    """Keep columns from the inputs that tell the target, which comes with each, or that the sentence wants too."""
    things = [name for name in reading.things if name != (reading.split or {}).get("group")]  # that is none anyway
    if left_out := [*told_by, *reading.others, *things]:
        args["columns"] = dict.fromkeys(left_out, "ignore")
    if told_by:
        plan.assumed.append(
            f"{', '.join(map(repr, told_by))} tells {', '.join(map(repr, dict.fromkeys(told_by.values())))} in every "
            "row, so it is left out "
            "(data.args.columns): ask the user whether it is known before what is predicted happens"
        )
    if reading.others:
        plan.assumed.append(f"{', '.join(reading.others)}: no inputs, for the sentence wants them predicted too")


def _add_length(plan: Plan) -> None:
    """Settle the epochs within the limits, and what follows from how long the run takes."""
    facts = plan.facts
    rule = plan.book.rule_for(EPOCHS, facts)
    assert rule is not None, "the documents have a rule without a condition"  # noqa: S101
    epochs, why = int(rule.decided(facts)), rule.reason(facts)
    steps = max(math.ceil(facts.get("rows", 1) * SHARE_OF_TRAIN / facts["effective_batch"]), 1)
    epoch = _epoch_seconds(plan, steps)
    allowed = allowed_of(plan)
    if epoch is not None and epoch[1] * epochs > allowed.seconds:
        fitting = int(allowed.seconds / epoch[1])
        plan.slowness = f"{plan.config['model']['use']} has time for {fitting} of its {epochs} epochs"
        plan.planned_share, plan.epoch_seconds, plan.allowed = fitting / epochs, epoch, allowed
        if allowed.is_stated:
            why += f"; {epochs} were lowered, for an epoch may take {epoch[1]:.2g} s and {allowed.why}"
            epochs = max(fitting, 1)
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
