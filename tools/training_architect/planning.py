"""The plan: rules applied to facts, one decision after another, each kept with its reason and its source."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from trainwright.tools.training_architect.documents import Rulebook, Way, filled
from trainwright.tools.training_architect.estimates import Estimate, memory_by_formula, seconds_by_roofline
from trainwright.tools.training_architect.facts import PLAN_KEYS, Facts
from trainwright.tools.training_architect.hardware import GIB, Device
from trainwright.tools.training_architect.reading import (
    SHARE_OF_TRAIN,
    Reading,
    facts_of_data,
    family_of,
    lengths,
    proposed_model,
)
from trainwright.tools.training_architect.request import GENERATIVE, TABLES, PlanRequest
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.config import apply_changes

if TYPE_CHECKING:
    from collections.abc import Callable

    MemoryOf = Callable[[dict[str, Any]], Estimate | None]

FIRST = ("loss", "plan.metric", "plan.max_length", "plan.effective_batch", "training.precision")
FITTED = ("loader.batch_size", "training.accumulation_steps", "distributed.processes", "distributed.strategy")
EPOCHS = "training.epochs"
OPTIMUM = {"loss": "minimize", "mae": "minimize", "perplexity": "minimize", "bits_per_byte": "minimize"}


@dataclass(frozen=True)
class Decision:
    """One value of the configuration, with its reason."""

    key: str
    value: Any
    why: str
    source: str
    """Rule, paper, or measurement."""


@dataclass
class Plan:
    """A configuration under way."""

    request: PlanRequest
    book: Rulebook
    device: Device
    task: str
    facts: Facts
    config: dict[str, Any] = field(default_factory=dict)
    decisions: list[Decision] = field(default_factory=list)
    passed_over: list[str] = field(default_factory=list)
    """Ways that did not fit, with what they need."""
    assumed: list[str] = field(default_factory=list)
    first: list[str] = field(default_factory=list)
    """What is to be done before the project can be created."""
    way: Way | None = None
    memory: Estimate | None = None
    seconds: tuple[float, float] | None = None
    price: tuple[float, str] | None = None
    """Dollars of one device's hour, and where they come from."""
    limits: dict[str, float] = field(default_factory=dict)

    def take(self, key: str, value: Any, why: str, source: str) -> None:
        """Keep a decision, and put it into the configuration where it is a key of it."""
        self.decisions.append(Decision(key, value, why, source))
        if key not in PLAN_KEYS:
            self.config = apply_changes(self.config, {key: value})

    def decide(self, key: str) -> Any:
        """Apply the first rule on a key that holds; return its value, None where none does."""
        rule = self.book.rule_for(key, self.facts)
        if rule is None:
            return None
        value = rule.decided(self.facts)
        self.take(key, value, rule.reason(self.facts), f"{rule.id}: {rule.source}")
        return value


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
    plan = Plan(request, book, device, reading.task, facts, assumed=list(reading.assumed), price=price)
    _add_device(plan, found["machine"])
    _add_model(plan, found.get("model"))
    plan.facts |= lengths(plan.facts)
    for key in FIRST:
        plan.facts[key.rpartition(".")[2]] = plan.decide(key)
        if key == "plan.max_length":
            plan.facts |= _blocks(plan.facts)
    _add_data(plan, reading, found)
    _fit(plan, memory_of)
    for key in book.keys:
        if key not in {*FIRST, *FITTED, EPOCHS} and not key.startswith(("checkpoints.", "logging.")):
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
    plan.facts |= facts | {name: value for name, value in (sizes or {}).items() if value is not None}
    plan.take("model", {"use": model["use"], **({"args": args} if args else {})}, why, source)


def _add_data(plan: Plan, reading: Reading, found: dict[str, Any]) -> None:
    """Put the data into the configuration: columns, tokenizer, length."""
    data = plan.request.data or {}
    args, use = dict(data["args"]), data["use"]
    if use in TABLES:
        args |= {name: value for name, value in (("text", reading.text), ("target", reading.target)) if value}
    tokens = plan.facts.get("max_length")
    if tokens is not None:
        size = "block_size" if plan.task in GENERATIVE else "max_length"
        args.setdefault(size, tokens)
        plan.facts["max_length"] = args[size]
        folder = plan.config["model"].get("args", {}).get("path")
        if plan.facts["family"] == "transformers" and folder:
            args.setdefault("tokenizer", folder)
        counted = (found["data"].get("tokens") or {}).get("counted_by")
        plan.assumed += [f"tokens were counted as {counted}"] if str(counted).startswith("characters") else []
    rows = plan.facts.get("rows", 0)
    plan.take("data", {"use": use, "args": args}, f"{rows} rows were read", "measured on your rows")
    # the metric that the goal is in; the loss needs no place among the metrics
    if plan.facts["metric"] != "loss":
        plan.config["metrics"] = [plan.facts["metric"]]


def _fit(plan: Plan, memory_of: MemoryOf) -> None:
    """Choose the first way to train that fits, and the largest part of the batch with which it does."""
    facts, needs = plan.facts, []
    room = facts["memory_gib"] * GIB * (1 - plan.book.margin)
    seen: set[str] = set()
    for way in plan.book.ways:
        if not way.holds(facts) or way.id in seen:
            continue
        seen.add(way.id)
        for parts in (1, facts["gpus"]) if facts["gpus"] > 1 else (1,):
            micro, memory = _largest_batch(plan, way, parts, room, memory_of)
            if micro:
                _settle(plan, way, micro, memory, fits_one=parts == 1)
                return
            if memory is not None:
                needs.append((memory.peak_bytes, way))
        plan.passed_over.append(f"{way.id} needs {needs[-1][0] / GIB:.1f} GiB for one row" if needs else way.id)
    least, way = min(needs, key=lambda need: need[0])
    enough = math.ceil(least / GIB / (1 - plan.book.margin))
    raise ConfigurationError(
        f"No way to train fits: {way.id}, the smallest, takes {least / GIB:.1f} GiB for one row of "
        f"{facts.get('max_length') or 'full'} length, and {facts['hardware']} has {facts['memory_gib']} GiB, of which "
        f"{plan.book.margin:.0%} stay free.",
        remedy=f"Plan for hardware='{enough} GB' or more, more of them ('2x …'), or a smaller model. The length is not "
        "cut: that would change the task.",
        document="planning/memory.md",
    )


def _largest_batch(plan: Plan, way: Way, parts: int, room: float, memory_of: MemoryOf) -> tuple[int, Estimate | None]:
    """Return the largest micro-batch that fits, with its memory; 0 with what the smallest takes."""
    gpus = plan.facts["gpus"]
    sizes = [max(plan.facts["effective_batch"] // gpus, 1) * gpus]
    while sizes[-1] > gpus:
        sizes.append(max(sizes[-1] // 2 // gpus * gpus, gpus))
    whole = _memory(plan, way, sizes[0], parts, memory_of)
    if whole is None or whole.peak_bytes <= room:
        return sizes[0], whole
    least = _memory(plan, way, sizes[-1], parts, memory_of) if len(sizes) > 1 else whole
    if least is None or least.peak_bytes > room:
        return 0, least
    too_large, fits, memory = 0, len(sizes) - 1, least
    while fits - too_large > 1:  # a larger batch never takes less, so few sizes have to be tried
        middle = (too_large + fits) // 2
        tried = _memory(plan, way, sizes[middle], parts, memory_of)
        if tried is not None and tried.peak_bytes <= room:
            fits, memory = middle, tried
        else:
            too_large = middle
    return sizes[fits], memory


def _memory(plan: Plan, way: Way, micro: int, parts: int, memory_of: MemoryOf) -> Estimate | None:
    facts, gpus = plan.facts, plan.facts["gpus"]
    trial = apply_changes(plan.config, {**way.changes, "loader.batch_size": micro})
    if gpus > 1:
        strategy = "ddp" if parts == 1 else "fsdp2"
        trial = apply_changes(trial, {"distributed.processes": gpus, "distributed.strategy": strategy})
    traced = memory_of(trial) if not plan.first else None
    if traced is not None or facts["family"] != "transformers":
        return traced
    return memory_by_formula(
        facts, way.changes, rows=micro // gpus, tokens=facts.get("max_length") or 128,
        half=facts["precision"] in {"bf16", "fp16"}, causal=plan.task in GENERATIVE, parts=parts,
    )  # fmt: skip


def _settle(plan: Plan, way: Way, micro: int, memory: Estimate | None, *, fits_one: bool) -> None:
    facts = plan.facts
    plan.way, plan.memory = way, memory
    if memory is not None and memory.parameters is not None:
        facts.setdefault("parameters", memory.parameters)
    accumulation = max(round(facts["effective_batch"] / micro), 1)
    facts |= {
        "way": way.id, "micro_batch": micro, "accumulation": accumulation, "effective_batch": micro * accumulation,
        "fits_one": fits_one,
    }  # fmt: skip
    for key, value in way.changes.items():
        plan.take(key, value, way.trade, f"{way.id}: {way.source}")
    for key in FITTED:
        plan.decide(key)


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
    if facts["task"] not in GENERATIVE or not facts.get("max_length"):
        return {}
    documents = facts.get("rows", 1)
    return {"rows": max(math.ceil(documents * facts.get("tokens_p50", 0) / facts["max_length"]), documents)}


def _epoch_seconds(plan: Plan, steps: int) -> tuple[float, float] | None:
    """Return the least and the most seconds of an epoch; None where the device's speed is not known."""
    facts, speeds = plan.facts, plan.device.teraflops
    if plan.memory is not None and plan.memory.step_seconds is not None:
        low, high = plan.memory.step_seconds
        return low * steps, high * steps
    peak = speeds.get(str(facts["precision"]), speeds.get("fp32", 0.0))
    if "parameters" not in facts or peak <= 1.0 or not facts.get("max_length"):
        return None
    tokens = facts.get("rows", 1) * SHARE_OF_TRAIN * min(facts["max_length"], facts.get("tokens_p99", 10**9))
    return seconds_by_roofline(
        float(facts["parameters"]), tokens, peak, recomputed=facts["way"].endswith("_recomputed"),
        adapters=facts["way"].startswith("lora"), devices=facts["gpus"],
    )  # fmt: skip


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
    """Return metric, direction and target of the project: the caller's target, else the middle to perfection."""
    metric = plan.facts["metric"]
    direction = OPTIMUM.get(metric, "maximize")
    target = plan.request.target
    if target is None:
        share = plan.facts.get("majority_share", 0.5)
        target = round(share + (1 - share) / 2, 2) if direction == "maximize" else None
        if target is not None:
            plan.assumed.append(f"target {target}: the middle between always naming the largest class and no error")
    return {"metric": metric, "direction": direction, "target": target}
