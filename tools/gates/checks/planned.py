"""Planning: memory, accumulation, precision, kept states and export, as the configuration's smoke run measured them."""

from __future__ import annotations

from trainwright.tools.answers import NextCall
from trainwright.tools.gates.checklist import CheckLine
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.outcomes import Outcome, check, failed, not_applicable, passed, passed_if
from trainwright.tools.gates.run_evidence import RunEvidence
from trainwright.tools.gates.scope import scope_changes
from trainwright.trainer.base.section import episode_entries
from trainwright.trainer.config import TrainingConfig
from trainwright.trainer.run import RunKind
from trainwright.trainer.run.artifacts import ExportProbe

GIB = 2**30
OF_BATCHES = ("per_device_train_batch_size", "batch_size")
OF_ACCUMULATION = ("gradient_accumulation_steps", "accumulate_grad_batches")
"""Names under which trainers of other libraries take them, and `trainer.args` most likely has them."""
FORMATS = {"bf16": "bfloat16", "fp16": "float16"}
"""Precision to the format that autocast gives products."""
FEW = 10
"""Of so many layers one may compute in another format, as an output layer in float32 does; it is named."""
NAMED = 4


@check("planning.memory_fits")
def memory_fits(evidence: Evidence, line: CheckLine) -> Outcome:
    """The smoke run's peak leaves part of the device's memory free."""
    run = evidence.smoke
    if run is None or not run.is_complete:
        return _needs_smoke(evidence, line)
    share, peak, memory = line.threshold or 1.0, run.summary.peak_memory_bytes, _memory_of(run)
    required = f"at most {share:.0%} of the device's memory"
    changed = "".join(f"; {change}" for change in scope_changes(evidence))
    if not peak or not memory:
        return not_applicable(f"no peak was measured, or the device's memory is not known{changed}", required)
    measured = f"{peak / GIB:.2f} of {memory / GIB:.1f} GiB ({peak / memory:.0%}){changed}"
    return passed_if(peak <= share * memory, measured, required, _in_less_memory(evidence, run))


def _in_less_memory(evidence: Evidence, run: RunEvidence) -> NextCall:
    """Return the call that halves the batch and keeps the updates, by the keys of whoever decides them."""
    config = evidence.config
    batch = run.resolved.batch_size or config.loader.batch_size
    accumulated = run.resolved.accumulation_steps or config.training.accumulation_steps
    if batch <= 1:
        return evidence.call("configure", "needs a smaller model, or gradient checkpointing")
    if config.trainer is None:
        changes = {"loader.batch_size": batch // 2, "training.accumulation_steps": accumulated * 2}
        return evidence.call("configure", "the same updates in less memory", changes=changes)
    halves = dict.fromkeys(OF_BATCHES, batch // 2) | dict.fromkeys(OF_ACCUMULATION, accumulated * 2)
    changes = {f"trainer.args.{name}": value for name, value in halves.items() if name in config.trainer.args}
    if len(changes) > 1:
        return evidence.call("configure", "the same updates in less memory", changes=changes)
    why = (
        f"{config.trainer.use} decides the batch: let it make batches of {batch // 2} instead of {batch} "
        f"(per_device_train_batch_size; the DataLoader's batch_size) and {accumulated * 2} of them an update "
        "(gradient_accumulation_steps; accumulate_grad_batches), best from trainer.args"
    )
    return evidence.call("configure", why)


def _memory_of(run: RunEvidence) -> int | None:
    """Return the bytes of the smallest device that the run used; None where it is not recorded."""
    hardware = run.environment.hardware
    if run.resolved.device == "cuda":
        return min((int(gpu["memory_bytes"]) for gpu in hardware.get("gpus") or []), default=None)
    return hardware.get("memory_bytes")


@check("planning.accumulation_adds_up")
def accumulation_adds_up(evidence: Evidence, line: CheckLine) -> Outcome:
    """An epoch has as many steps as rows, batch and accumulation make."""
    run = evidence.smoke
    if run is None or not run.is_complete:
        return _needs_smoke(evidence, line)
    config, steps = evidence.config, run.resolved.steps_per_epoch
    batch, accumulated = config.loader.batch_size, config.training.accumulation_steps
    is_ours = config.data is not None and ":" not in config.data.use and config.curriculum is None
    rows = run.data.sizes.get("train") if run.data else None
    if not is_ours or rows is None or steps is None:
        return not_applicable("your code, or a curriculum, decides the batches", line.text)
    batches = rows // batch if config.loader.drop_last else -(-rows // batch)
    expected = -(-batches // accumulated)
    measured = f"{rows} rows / ({batch} x {accumulated}) = {steps} steps an epoch"
    again = evidence.start(RunKind.SMOKE)
    return passed_if(steps == expected, measured, f"{expected} steps an epoch", again)


@check("planning.precision_on")
def precision_on(evidence: Evidence, line: CheckLine) -> Outcome:
    """Products came out in the configured number format, all but a few that are named."""
    run = evidence.smoke
    if run is None or not run.is_complete:
        return _needs_smoke(evidence, line)
    precision, products = evidence.config.training.precision, run.resolved.products
    wanted = FORMATS.get(precision, "float32")
    required = f"products in {wanted}, as {precision} makes them"
    if not products and evidence.config.trainer is not None:
        return not_applicable(
            "your trainer decides the precision: its own arguments (bf16, precision) set it", required
        )
    if not products:
        return not_applicable("no linear or convolutional layer was seen at work", required)
    measured = ", ".join(f"{count} layers in {name}" for name, count in sorted(products.items()))
    apart = run.resolved.products_apart
    measured += f" ({', '.join(apart[:NAMED])}{', …' if len(apart) > NAMED else ''})" if apart else ""
    if precision not in FORMATS:  # a model of the user's may compute in what it likes
        return passed(measured, required)
    remedy = evidence.call(
        "configure", "or let the model's own code follow autocast", changes={"training.precision": "fp32"}
    )
    total, right = sum(products.values()), products.get(wanted, 0)
    others = total - right
    return passed_if(right > others and others <= max(1, total // FEW), measured, required, remedy)


@check("planning.states_kept")
def states_kept(evidence: Evidence, line: CheckLine) -> Outcome:
    """A state of the run is kept that it can be continued or finished from."""
    kept, every = evidence.config.checkpoints, evidence.config.logging.every_n_steps
    named = [name for name, is_kept in (("best", kept.save_best), ("last", kept.save_last)) if is_kept]
    measured = f"{' and '.join(named) or 'neither best nor last'} kept; every {kept.checkpoint_every_n_epochs} epochs; "
    measured += f"values every {every} steps"
    changes = {"checkpoints.save_best": True, "checkpoints.save_last": True}
    remedy = evidence.call("configure", "without a kept state nothing can be exported", changes=changes)
    return passed_if(bool(named), measured, line.text, remedy)


@check("planning.export_tried")
def export_tried(evidence: Evidence, line: CheckLine) -> Outcome:
    """The smoke run's model was written as ONNX, where the final one shall be, and gave the model's outputs."""
    run = evidence.smoke
    if run is None or not run.is_complete:
        return _needs_smoke(evidence, line)
    found = run.part(ExportProbe)
    changed = evidence.served_changes(run)  # which no gate closes: a smoke run tries them, or the export does
    untried = f"; {', '.join(changed)} changed since" if changed else ""
    outcome = _onnx_tried(evidence, found)
    if found.own_problem:
        measured = "; ".join([found.own_problem, *([outcome.measured] if outcome.status == "failed" else [])])
        again = evidence.start(RunKind.SMOKE).model_copy(
            update={"why": f"after a change of your code: {found.own_remedy}"}
        )
        return failed(measured, "data.prepare and data.present that answer raw inputs as the model does", again)
    return outcome.model_copy(update={"measured": outcome.measured + _not_shipped(evidence.config, found) + untried})


def _onnx_tried(evidence: Evidence, found: ExportProbe) -> Outcome:
    deployment = evidence.config.deployment
    tolerance = deployment.onnx_tolerance
    required = f"an ONNX program with the model's outputs, within {tolerance:g}"
    if "onnx" not in deployment.formats:
        return not_applicable(f"no ONNX is wanted: {', '.join(deployment.formats)}", required)
    if not found:
        return failed("the smoke run left no record of it", required, evidence.start(RunKind.SMOKE))
    if found.reason:
        return not_applicable(found.reason, required)
    apart = found.parity.max_abs_difference if found.difference is None else found.difference
    told = f"ONNX differs by {apart:.1e}"
    if (found.problem and found.difference is None) or not apart <= tolerance:  # nan is no number within it
        return failed((found.problem or told).rstrip("."), required, _way_out(evidence, found))
    return passed(told, required)


def _not_shipped(config: TrainingConfig, found: ExportProbe) -> str:
    """Return what final_model/ will lack, or what was not tried of the user's functions; empty: nothing."""
    untried = f"; not tried before the export: {found.own_reason}" if found.own_reason else ""
    return _without_preprocessing(config, found) + untried


def _without_preprocessing(config: TrainingConfig, found: ExportProbe) -> str:
    """Return what it will mean that rows come from the user's code; empty where the source is built in."""
    if config.trainer is not None:
        return (
            "; final_model/ takes texts where eval_dataset keeps that of each row, else samples as your code has them"
        )
    if episode_entries(config.metrics):
        is_said = config.data is not None and config.data.present is not None
        told = (
            "; final_model/ answers with the model's outputs: data.present (output to action, in your words) is missing"
        )
        return "" if is_said else told
    if config.data is not None and config.data.prepare is not None:
        told = (
            "; predict.py will answer with the model's outputs as numbers: data.present (output to answer) is missing"
        )
        return told if found.answers_outputs else ""
    is_shipped = config.data is not None and ":" not in config.data.use
    alone = "; final_model/ will take samples as your code gives them: no preprocessing of raw inputs is shipped"
    return "" if is_shipped else alone


def _way_out(evidence: Evidence, found: ExportProbe) -> NextCall:
    """Return the change of the configuration that does, else the smoke run that follows a change of the code."""
    remedy = found.remedy or "it was measured once"
    if changes := found.changes if found.problem else {"deployment.formats": ["safetensors"]}:
        why = f"or, the cause fixed in your code and smoke run anew: {remedy}"
        return evidence.call("configure", why, changes=changes)
    return evidence.start(RunKind.SMOKE).model_copy(update={"why": f"after a change of your code: {remedy}"})


def _needs_smoke(evidence: Evidence, line: CheckLine) -> Outcome:
    run = evidence.smoke
    remedy = run.next_call() if run is not None and not run.is_complete else evidence.start(RunKind.SMOKE)
    return failed("no completed smoke run", line.text, remedy)
