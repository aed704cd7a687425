"""The way to train that fits into a device's memory, and the largest part of a batch with which it does."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from trainwright.tools.training_architect.documents import Way
from trainwright.tools.training_architect.estimates import Estimate, less_by_quantising, memory_by_formula
from trainwright.tools.training_architect.facts import OF_VOCABULARY
from trainwright.tools.training_architect.hardware import GIB
from trainwright.tools.training_architect.plan import Plan
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.config import apply_changes

MemoryOf = Callable[[dict[str, Any]], Estimate | None]
FITTED = ("loader.batch_size", "training.accumulation_steps", "distributed.processes", "distributed.strategy")
QUANTISED = "model.args.quantize"


def fit(plan: Plan, memory_of: MemoryOf) -> None:
    """Choose the first way to train that fits, and the largest part of the batch with which it does.

    Raises:
        ConfigurationError: none fits, or what the last ones take is not known.
    """
    facts = plan.facts
    needs: list[tuple[int, Way]] = []
    room = facts["memory_gib"] * GIB * (1 - plan.book.margin)
    seen: set[str] = set()
    for way in plan.book.ways:
        if not way.holds(facts) or way.id in seen or (facts.get("adapters") and "adapter" not in way.changes):
            continue
        seen.add(way.id)
        its_own = []
        for parts in (1, facts["gpus"]) if facts["gpus"] > 1 else (1,):
            micro, memory = _largest_batch(plan, way, parts, room, memory_of)
            if micro:
                _settle(plan, way, micro, memory, fits_one=parts == 1)
                return
            its_own += [memory.peak_bytes] if memory is not None else []
        needs += [(need, way) for need in its_own]
        told = f"needs {min(its_own) / GIB:.1f} GiB for one row" if its_own else "was not traced to its end"
        plan.passed_over.append(f"{way.id} {told}")
    raise _nothing_fits(plan, needs)


def _nothing_fits(plan: Plan, needs: list[tuple[int, Way]]) -> ConfigurationError:
    facts, margin = plan.facts, plan.book.margin
    if not needs:
        return ConfigurationError(
            f"Memory could not be traced to its end: {'; '.join(plan.passed_over) or 'no way to train holds'}.",
            remedy="Call again; or create_project with a smaller loader.batch_size, and start_training(kind='probe').",
            document="planning/memory.md",
        )
    least, way = min(needs, key=lambda need: need[0])
    enough = math.ceil(least / GIB / (1 - margin))
    return ConfigurationError(
        f"No way to train fits: {way.id}, the smallest, takes {least / GIB:.1f} GiB for one row of "
        f"{facts.get('max_length') or 'full'} length, and {facts['hardware']} has {facts['memory_gib']} GiB, of which "
        f"{margin:.0%} stay free.",
        remedy=f"Plan for hardware='{enough} GB' or more, more of them ('2x …'), or a smaller model. The length is not "
        "cut: that would change the task.",
        document="planning/memory.md",
    )


def accumulation_of(plan: Plan, micro: int) -> int:
    """Return how many micro-batches make an update."""
    return max(round(int(plan.facts["effective_batch"]) / micro), 1)


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
    changes, bits = dict(way.changes), way.changes.get(QUANTISED)
    if bits is not None:  # what is traced has no quantised layers
        del changes[QUANTISED]
        changes["model.args.dtype"] = "bfloat16"
    batch = {"loader.batch_size": micro, "training.accumulation_steps": accumulation_of(plan, micro)}
    trial = apply_changes(plan.config, {**changes, **batch})
    if gpus > 1:
        strategy = "ddp" if parts == 1 else "fsdp2"
        trial = apply_changes(trial, {"distributed.processes": gpus, "distributed.strategy": strategy})
    traced = memory_of(trial) if not plan.first else None
    if traced is not None and bits is not None:
        return less_by_quantising(traced, facts, bits)
    if traced is not None or facts["family"] != "transformers":
        return traced
    return memory_by_formula(
        facts, way.changes, rows=micro // gpus * facts.get("choices", 1), tokens=facts.get("max_length") or 128,
        half=facts["precision"] in {"bf16", "fp16"}, causal=plan.task in OF_VOCABULARY, parts=parts,
    )  # fmt: skip


def _settle(plan: Plan, way: Way, micro: int, memory: Estimate | None, *, fits_one: bool) -> None:
    facts = plan.facts
    plan.way, plan.memory = way, memory
    if memory is not None and memory.parameters is not None:
        facts.setdefault("parameters", memory.parameters)
    accumulation = accumulation_of(plan, micro)
    facts |= {
        "way": way.id, "micro_batch": micro, "accumulation": accumulation, "effective_batch": micro * accumulation,
        "fits_one": fits_one,
    }  # fmt: skip
    for key, value in way.changes.items():
        plan.take(key, value, way.trade, f"{way.id}: {way.source}")
    for key in FITTED:
        plan.decide(key)
    missing = [name for name in ("a CUDA device", "bitsandbytes") if not facts["here"][name]]
    if QUANTISED in way.changes and missing:
        plan.assumed.append(
            f"{way.id} was not tried: it needs a CUDA device and bitsandbytes, and this machine lacks "
            f"{' and '.join(missing)}; the smoke run is refused here, so run it where the card is"
        )
