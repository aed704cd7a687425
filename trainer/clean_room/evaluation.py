"""Evaluation of a program over splits of stored rows: metrics and loss, with their intervals.

Rows go through the program in batches, and of a batch only what the metrics need is kept (comparison.py).
"""

from __future__ import annotations

import hashlib
import math
import platform
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from . import losses, metrics
from .alone import Alone
from .attacks import report_attack
from .comparison import Comparison, report_interval
from .intervals import bootstrap
from .paired import report_paired, report_paired_slices
from .programs import Program, open_program
from .recoded import Recoded
from .rivals import rivals_beside
from .rows import Array, RefusalError, Split, open_split
from .slices import report_classes, report_slices, report_targets

OUTPUT_BYTES = 1 << 25
"""Of outputs at a time, about: a language model's logits of many rows would fill the memory."""
BATCH_ROWS = 256
KEPT_BYTES = 1 << 29
"""Of outputs that are written for metrics of the user's; of more, none are."""


def evaluate(order: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer to an order: the numbers of each split, versions, seconds. Raises RefusalError."""
    started = time.perf_counter()
    program = open_program(order["program"], int(order.get("threads") or 1))
    splits = {name: _evaluate_split(order, program, name) for name in order["splits"]}
    if order.get("beside"):
        for name, answer in splits.items():
            answer["beside"] = _beside(order, program, name)
    versions = {"python": platform.python_version(), "numpy": np.__version__, **program.versions}
    return {"splits": splits, "versions": versions, "seconds": round(time.perf_counter() - started, 3)}


def _evaluate_split(order: Mapping[str, Any], program: Program, name: str) -> dict[str, Any]:
    record = order["rows"]["record"]
    split = _opened(order, name)
    compared = comparisons(order, record, split.ranked)
    answer: dict[str, Any] = {"metrics": {}, "intervals": {}, "not_computed": {}, "readings": {}}
    if split.target is None and not all(each.target in split.inputs for each in compared):
        answer["not_computed"] = dict.fromkeys([*(order.get("metrics") or []), "loss"], "the rows have no targets")
    else:
        with np.errstate(over="ignore", invalid="ignore"):
            kept = _run(program, split, compared, keeps=bool(order.get("keep_outputs")))
            if kept is not None:
                _write_outputs(Path(order["keep_outputs"]) / name, *kept, split.resampling.groups)
            for each in compared:
                each.report(answer, split.resampling)
            report_slices(order, split, compared, answer)
            report_targets(order, compared, answer)
            report_classes(compared, answer)
            if rivals := rivals_beside(
                order, name, split, compared, lambda: comparisons(order, record, split.ranked)[0]
            ):
                answer["rivals"] = rivals
        _report_loss(compared, answer, split)
        if order.get("attack") and order.get("loss"):
            report_attack(order, program, split, answer, _number_of(order))
    _leave_out_what_is_not_finite(answer)
    groups = split.resampling.groups
    of_groups = {} if groups is None else {"groups": len(np.unique(groups)), "grouped_by": split.grouped_by}
    return {"size": split.size, "rows": split.rows, **of_groups, **answer}


def _opened(order: Mapping[str, Any], name: str) -> Split:
    """Return a split's rows in an order that follows from the program's bytes: it is fixed, and nobody chose it."""
    split = open_split(Path(order["rows"]["folder"]), order["rows"]["record"], name)
    return split.drawn(_number_of(order), (order.get("only") or {}).get(name))


def _number_of(order: Mapping[str, Any]) -> int:
    """Return a number that follows from the program's bytes, for what nobody may choose."""
    return int(hashlib.sha256(str(order["program"]["digest"]).encode()).hexdigest()[:16], 16)


def _beside(order: Mapping[str, Any], program: Program, name: str) -> dict[str, Any]:
    """Return the metrics of another program on the same rows, and `paired`; or why it cannot take them (`problem`)."""
    record = order["rows"]["record"]
    try:
        other = open_program(order["beside"], int(order.get("threads") or 1))
        if order["beside"].get("recode"):
            other = Recoded(other, order["beside"]["recode"])
        answer = _evaluate_split({**order, "slices": [], "groups": [], "rivals": [], "keep_outputs": None}, other, name)
        del answer["readings"]
        split = _opened(order, name)
        both = comparisons(order, record, split.ranked), comparisons(order, record, split.ranked)
        if len(both[0]) == 1 and answer["metrics"]:
            with np.errstate(over="ignore", invalid="ignore"):
                for each, compared in zip((program, other), both, strict=True):
                    _run(each, split, compared)
                answer["paired"] = report_paired(both[0][0], both[1][0], split.resampling)
                if slices := [one for one in order.get("paired_slices") or [] if one.get("split", name) == name]:
                    answer["paired"]["slices"] = report_paired_slices(slices, split, both[0][0], both[1][0])
    except RefusalError as error:
        return {"problem": error.problem, "remedy": error.remedy}
    return answer


def _write_outputs(folder: Path, outputs: Array, targets: Array, groups: Array | None) -> None:
    folder.mkdir()
    np.save(folder / "outputs.npy", outputs)
    np.save(folder / "targets.npy", targets)
    if groups is not None:
        np.save(folder / "groups.npy", groups)


def _run(
    program: Program, split: Split, compared: list[Comparison], *, keeps: bool = False
) -> tuple[Array, Array] | None:
    """Let all rows go through the program: two at first, then as many as their outputs' size allows.

    Targets of tasks that stand among the samples' values are no inputs: a program could answer with them.

    Returns:
        The first output and the targets of all rows, (rows, ...), where they are to be kept and are of one shape.

    Raises:
        RefusalError: the program fails, or answers a row by the rows beside it.
    """
    start, most, alone = 0, program.batch or 2, Alone(program, split.rows)
    wanted = {each.target for each in compared}
    kept: list[tuple[Array, Array]] = []
    while start < split.rows:
        stop, values, targets = split.batch(start, most)
        inputs = {name: value for name, value in values.items() if name not in wanted}
        outputs = program(inputs)
        alone.compare(start, inputs, outputs)
        for each in compared:
            each.add(outputs, values.get(each.target or "", targets))
        if keeps and targets is not None:
            kept.append((next(iter(outputs.values())), np.asarray(targets)))
            keeps = kept[0][0].nbytes // len(kept[0][0]) * split.rows < KEPT_BYTES
        row_bytes = max(sum(value.nbytes for value in outputs.values()) // (stop - start), 1)
        start, most = stop, program.batch or max(min(OUTPUT_BYTES // row_bytes, BATCH_ROWS), 1)
    alone.require_same()
    if not keeps or len({(one.shape[1:], other.shape[1:]) for one, other in kept}) != 1:
        return None
    outputs_of_all, targets_of_all = (np.concatenate(parts) for parts in zip(*kept, strict=True))
    return outputs_of_all, targets_of_all


def comparisons(order: Mapping[str, Any], record: Mapping[str, Any], groups: Array | None = None) -> list[Comparison]:
    """Return what an order compares: one output with the targets, or the columns of several tasks, side by side."""
    if order.get("tasks"):
        return _of_tasks(order["tasks"], record.get("target_scaling"))
    names, loss = list(order.get("metrics") or []), order.get("loss")
    loss = loss and {**loss, "train_counts": record.get("train_counts")}
    scaling, errors = record.get("target_scaling"), record.get("naive_errors") or ()
    return [Comparison("", names, loss, order.get("task"), scaling=scaling, groups=groups, naive_errors=errors)]


def _of_tasks(wanted: Mapping[str, Any], scaling: Mapping[str, Any] | None) -> list[Comparison]:
    """Return a comparison for each task: its columns among those of the first output, and its targets."""
    compared: list[Comparison] = []
    output_at, target_at = 0, 0
    for name, task in wanted.items():
        given = {"use": task["loss"]} if isinstance(task["loss"], str) else task["loss"]
        loss = {**given, "name": given.get("name") or given.get("use"), "args": given.get("args") or {}}
        of_classes, size = loss["name"] in losses.OF_CLASSES, int(task.get("outputs") or 1)
        width, source = 1 if of_classes else size, task.get("target")
        first = source if isinstance(source, int) else target_at
        own = scaling and {**scaling, **{key: scaling[key][first : first + width] for key in ("mean", "scale")}}
        compared.append(
            Comparison(
                name, list(task.get("metrics") or []), loss, "classification" if of_classes else None,
                weight=float(task.get("weight", 1.0)), output=slice(output_at, output_at + size),
                target=source if isinstance(source, str) else name, columns=slice(first, first + width),
                scaling=own,
            )
        )  # fmt: skip
        output_at, target_at = output_at + size, target_at + width
    return compared


def _report_loss(compared: list[Comparison], answer: dict[str, Any], split: Split) -> None:
    """Put the loss into the answer, the weighted sum of several tasks' losses, and the metrics that follow from it."""
    follows = [name for each in compared for name in each.metrics if name in metrics.OF_LOSS]
    why = next((each.without_loss for each in compared if each.without_loss), None)
    if why is not None:
        answer["not_computed"] |= dict.fromkeys(["loss", *follows], why)
        return
    everything = np.arange(split.rows)

    def mean(rows: Array) -> float:
        return sum(each.weight * each.mean_loss(rows) for each in compared)

    loss, values = mean(everything), split.rows * len(compared)
    between = bootstrap(mean, values, split.resampling)
    for name in ("loss", *follows):
        of_loss = metrics.OF_LOSS.get(name, _itself)
        answer["metrics"][name] = of_loss(loss, split.bytes_per_target)
        ends = between and (of_loss(between[0], split.bytes_per_target), of_loss(between[1], split.bytes_per_target))
        report_interval(name, ends, values, split.resampling, answer)


def _itself(mean_loss: float, bytes_per_target: float) -> float:  # noqa: ARG001 - the form of these metrics
    return mean_loss


def _leave_out_what_is_not_finite(answer: dict[str, Any]) -> None:
    """Take values out of the answer that JSON cannot hold, and say so."""
    for name, value in list(answer["metrics"].items()):
        if not math.isfinite(value):
            answer["not_computed"].setdefault(name, f"it is not a finite number on these rows ({value})")
            answer.setdefault("not_finite", {})[name] = str(value)
            del answer["metrics"][name]
    for name, found in answer["readings"].items():
        answer["readings"][name] = {words: value for words, value in found.items() if math.isfinite(value)}
    for name, ends in list(answer["intervals"].items()):
        if name not in answer["metrics"] or not all(map(math.isfinite, ends)):
            del answer["intervals"][name]
