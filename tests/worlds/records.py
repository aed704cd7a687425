"""Records of runs that nobody trained: the files, keys and types that a worker leaves, written in milliseconds.

What reads runs (gates, verification, reports, the monitor, a search) cannot tell them from trained ones, because they
are written by the product's own writers, from its typed evidence, signed with the run's key. One contract test
(tests/contracts/test_written_records.py) holds them to what a real worker leaves of the same plan.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tests.worlds.found import NOBODY, Seen, environment, fix_rows, reproducibility, seen, split_rows

from trainwright.trainer.base.canonical import digest_json
from trainwright.trainer.base.exits import memory_kills, record_exit
from trainwright.trainer.checkpoints.index import checkpoint_name
from trainwright.trainer.checkpoints.store import DirectoryStore
from trainwright.trainer.evidence.opened_files import list_files
from trainwright.trainer.run import Failure, RunDirectory, RunKind, RunSpecification, RunState
from trainwright.trainer.run.artifacts import ExportProbe, Parity, Program
from trainwright.trainer.run.commitments import Commitments, StepState, draw
from trainwright.trainer.run.environment import imported_packages
from trainwright.trainer.run.evaluation import Evaluation
from trainwright.trainer.run.evidence import (
    BestEpoch,
    Imported,
    Part,
    Summary,
    rank,
)
from trainwright.trainer.run.looked_at import LookedAt, Opened, SplitLook
from trainwright.trainer.run.profile import Origin, Profile
from trainwright.trainer.run.results import Comparison
from trainwright.trainer.run.status import RUNG, RunStatus
from trainwright.trainer.run.validation import Validation

Curve = Callable[[RunSpecification, int], Mapping[str, float]]
"""Validation values after an epoch, counted from 1."""
Series = Mapping[str, Callable[[int], float]]
"""Metrics of the steps, by key; steps count from 1."""


def climbing(specification: RunSpecification, epoch: int) -> dict[str, float]:
    """A usual run: better with each epoch, and by a little with its seed."""
    value = 0.9 - 0.4 / (epoch + 1) + specification.config.seed % 7 / 1000
    return {"loss": 1.0 - value, "accuracy": value}


@dataclass(frozen=True)
class Script:
    """What the next runs are to have recorded."""

    curve: Curve = climbing
    parts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Changes to the usual evidence, by the name of the part's file; a value may be a function of the plan."""
    further: Callable[[RunSpecification], Sequence[Part]] = lambda _: ()
    """Evidence beside the usual."""
    failure: Callable[[RunSpecification], Failure | None] = lambda _: None
    """How a run fails once it has trained; None: it does not."""
    death: Callable[[RunSpecification, int], tuple[int, int] | None] = lambda *_: None
    """Epochs after which the worker of an attempt dies without a last record (-1: before its first), and its exit code
    (below 0 a signal's number, 0: none is known); None: it does not die."""
    stop_reason: str = ""
    """Why it stops before its end; empty: it does not."""
    events: tuple[tuple[str, dict[str, Any]], ...] = ()
    """Kind and data of further events: alerts, findings."""
    series: Series | Callable[[RunSpecification], Series] = field(default_factory=dict)
    """Further metrics of each step, and others for the usual ones; it may be a function of the plan."""


@dataclass
class _Trained:
    """How far the attempt has come."""

    epochs: int
    steps: int
    reason: str
    best: BestEpoch | None
    final: dict[str, float]
    steps_per_epoch: int


def write_run(run: RunDirectory, script: Script) -> None:
    """Write what a worker would leave of one attempt at the run's plan; the run's key signs it where it has one."""
    plan = run.specification()
    with run.lock():
        before = run.last_status()
        if (death := script.death(plan, before.attempt + 1)) is not None:
            record_exit(run.path, NOBODY.pid, death[1], kills_before=memory_kills())
            if death[0] < 0:
                return
        status = RunStatus(state=RunState.STARTING, attempt=before.attempt + 1, process=NOBODY, started_at=time.time())
        run.write_status(status)
        run.log.touch()
        run.append_event("started", attempt=status.attempt, pid=NOBODY.pid)
        found = seen(run, plan)
        if plan.kind is RunKind.SMOKE:
            fix_rows(run, plan, found.data.sizes)
        for part in _before_training(run, plan, found):
            _write(run, plan, script, part)
        trained = _train(run, plan, script, before.epoch, found.steps_per_epoch, death=death)
        if death is not None:
            left = {"state": RunState.RUNNING, "step": trained.steps, "epoch": trained.epochs}
            run.write_status(status.model_copy(update={**left, "heartbeat_at": time.time()}))
            return
        failure = script.failure(plan)
        if failure is None:
            for part in [*_after_training(run, plan, trained), *script.further(plan)]:
                _write(run, plan, script, part)
            run.append_event("stopping", reason=trained.reason)
        else:
            run.append_event("failed", **failure.model_dump(exclude={"traceback"}))
        _end(run, plan, status, trained, failure)


def _end(
    run: RunDirectory, plan: RunSpecification, status: RunStatus, trained: _Trained, failure: Failure | None
) -> None:
    finished = trained.reason in {"completed", "early_stopping", "max_steps"}
    state = RunState.FAILED if failure else RunState.COMPLETED if finished else RunState.STOPPED
    reason = None if failure else trained.reason
    run.append_event("ended", state=state.value, stop_reason=reason)
    last = {
        "state": state, "stop_reason": reason, "failure": failure, "step": trained.steps, "epoch": trained.epochs,
        "total_steps": plan.max_steps or plan.config.training.epochs * trained.steps_per_epoch,
        "total_epochs": plan.config.training.epochs, "heartbeat_at": time.time(),
    }  # fmt: skip
    run.write_last_status(status.model_copy(update=last))


def _train(
    run: RunDirectory,
    plan: RunSpecification,
    script: Script,
    done: int,
    per_epoch: int,
    *,
    death: tuple[int, int] | None,
) -> _Trained:
    """Write the epochs after those that an earlier attempt has done, and the last and the best checkpoint."""
    wanted, until = plan.config.training.epochs, run.limits().until_epoch
    last, reason = wanted, script.stop_reason or "completed"
    if plan.max_steps is not None and plan.max_steps < wanted * per_epoch:
        last, reason = -(-plan.max_steps // per_epoch), "max_steps"
    elif until is not None and until < wanted:
        last, reason = until, RUNG
    last = last if death is None else max(done, min(death[0], last))
    series = script.series(plan) if callable(script.series) else script.series
    best, values, step = None, {"loss": 1.0}, 0
    with run.metrics(writer=True) as store:
        for epoch in range(1, last + 1):
            values = dict(script.curve(plan, epoch))
            first, step = step + 1, min(epoch * per_epoch, plan.max_steps or epoch * per_epoch)
            best, improved = _better(plan, best, epoch, step, values)
            if epoch <= done:
                continue
            store.write(_rows(series, epoch, range(first, step + 1), values))
            run.append_event(
                "epoch", epoch=epoch, step=step, train=_of_train(values), validation=values, improved=improved,
                seconds=0.1,
            )  # fmt: skip
    for kind, data in script.events:
        run.append_event(kind, **data)
    final = {**values, **{f"train/{name}": value for name, value in _of_train(values).items()}}
    if last > done:
        _save(run, plan, last, step, best)
    return _Trained(last, step, reason, best, final, per_epoch)


def _better(
    plan: RunSpecification, best: BestEpoch | None, epoch: int, step: int, values: dict[str, float]
) -> tuple[BestEpoch | None, bool]:
    metric, direction = plan.config.selection.metric, plan.config.selection.direction
    value = values.get(metric)
    before = None if best is None else rank(best.value or 0.0, best.metrics.get("loss"), direction)
    if value is None or not np.isfinite(value) or (before and rank(value, values.get("loss"), direction) >= before):
        return best, False
    name = checkpoint_name(step)
    return BestEpoch(epoch=epoch, step=step, metric=metric, value=value, metrics=values, checkpoint=name), True


def _of_train(values: Mapping[str, float]) -> dict[str, float]:
    """Return the values on the train split: its own loss where the curve gives one as `train_loss`."""
    return {"loss": 1.0, **values, **({"loss": values["train_loss"]} if "train_loss" in values else {})}


def _rows(series: Series, epoch: int, steps: range, values: Mapping[str, float]) -> list[tuple[str, int, float, float]]:
    """Return the metrics of an epoch: of each step, and of its end."""
    now, rate = time.time(), 0.01
    usual: Series = {
        "train/loss": lambda at: values.get("loss", 1.0) + 1.0 / at, "train/gradient_norm": lambda _: 1.0,
        "train/learning_rate": lambda _: rate,
    }  # fmt: skip
    rows = [(key, at, float(of(at)), now) for at in steps for key, of in {**usual, **series}.items()]
    ends = {"epoch": float(epoch)}
    ends |= {f"train/{name if name != 'loss' else 'epoch_loss'}": one for name, one in _of_train(values).items()}
    ends |= {f"validation/{name}": value for name, value in values.items()}
    system = {"system/cpu_percent": 10.0, "system/memory_bytes": 1e9, "throughput/samples_per_second": 1000.0}
    return rows + [(key, steps[-1], value, now) for key, value in (ends | system).items()]


def _save(run: RunDirectory, plan: RunSpecification, epoch: int, step: int, best: BestEpoch | None) -> None:
    if not step:
        return
    store, places = DirectoryStore(run), {step: epoch}
    if best is not None and best.step is not None and best.epoch is not None:
        places[best.step] = best.epoch
    for at, of in sorted(places.items()):
        made = {"step": at, "epoch": of, "run_id": run.run_id, "config_digest": plan.config_digest}
        weights = {"weight": torch.full((2,), float(at))}
        written = store.save(model=weights, tensors={"state": torch.zeros(1)}, state={"step": at}, manifest=made)
        size = sum(file["bytes"] for file in written["files"].values())
        tags = [tag for tag, of in (("best", best.step if best else None), ("last", step)) if of == at]
        run.append_event(
            "checkpoint", name=checkpoint_name(at), tags=tags, step=at, epoch=of, digest=written["digest"], bytes=size
        )
    named = best.checkpoint if best is not None else None
    store.tag(best=named, last=checkpoint_name(step), periodic=[])


def _write(run: RunDirectory, plan: RunSpecification, script: Script, part: Part) -> None:
    changes = {key: of(plan) if callable(of) else of for key, of in script.parts.get(part.file, {}).items()}
    run.write_evidence(type(part).model_validate(part.as_dict() | changes) if changes else part)


def _before_training(run: RunDirectory, plan: RunSpecification, found: Seen) -> list[Part]:
    root, config, sizes = Path(plan.code_root), plan.config, found.data.sizes
    parts: list[Part] = [
        environment(root, config.training.precision),
        reproducibility(config.seed, tuple(plan.exemptions)),
        found.data,
        found.code,
        found.resolved,
    ]
    run.append_event("probe", passed=True)
    if plan.kind is not RunKind.SMOKE:
        return [*parts, Validation(known_from=plan.validated_by)]
    look = {name: SplitLook(size=size, compared=size, classes=None) for name, size in sizes.items()}
    return [
        *parts,
        LookedAt(splits=look, transformations=["none"], near_rows=[], not_scored="written"),
        Profile(columns={}, rows=0, problem="written"),
        Origin(licence=None, licence_from=None, dvc={}),
        split_rows(run, sizes),
    ]


def _after_training(run: RunDirectory, plan: RunSpecification, trained: _Trained) -> list[Part]:
    parts: list[Part] = [
        Imported(packages=imported_packages()),
        _summary(trained),
        Opened(files={}, written={}, more=0, sources=[]),
    ]
    is_over = trained.reason in {"completed", "early_stopping"}
    if plan.commits_steps and run.key is not None:
        own = draw(run.key, run.run_id, first=0, last=trained.steps)
        states = {str(step): StepState(before=digest_json(step - 1), after=digest_json(step)) for step in own.steps}
        parts.append(Commitments(draws=[own], steps=states))
    if plan.kind is RunKind.SMOKE:
        parts += [list_files(Path(plan.code_root), (str(run.path.parents[3]),)), _tried(plan)]
    if plan.kind in {RunKind.BASELINE, RunKind.FINAL} and is_over:
        parts.append(Evaluation(problem="written, not trained"))
    if plan.exports_program and is_over:
        parts.append(Program(problem="The run was written, not trained.", remedy=""))
    if plan.kind is RunKind.REPLAY:
        same = digest_json(trained.final)
        parts.append(
            Comparison(
                identical=True,
                tensors=1,
                different=[],
                relative_difference=0.0,
                metrics_identical=True,
                first_difference_step=None,
                causes=[],
                weights_digest=same,
                source_weights_digest=same,
                fingerprint_differences={},
            )
        )
    return parts


def _tried(plan: RunSpecification) -> ExportProbe:
    same = Parity(
        rows_compared=4, random_compared=8, extreme_compared=12, batch_sizes=[1, 2, 4], max_abs_difference=0.0,
        largest_output=1.0, ratio=0.0, tolerance=plan.config.deployment.onnx_tolerance, passed=True,
    )  # fmt: skip
    return ExportProbe(parity=same, difference=0.0, seconds=0.1)


def _summary(trained: _Trained) -> Summary:
    return Summary(
        stop_reason=trained.reason,
        epochs=trained.epochs,
        steps=trained.steps,
        train_seconds=1.0,
        data_wait_fraction=0.01,
        samples_per_second=1000.0,
        final=trained.final,
        best=trained.best,
        weights_digest=digest_json(trained.final),
        skipped_updates=0,
        non_finite_steps=0,
        peak_memory_bytes=2**20,
        cpu_percent_mean=10.0,
        gpu_percent_mean=None,
        gpus_sampled=0,
        early_stopping={
            "enabled": True,
            "stopped": False,
            "patience_epochs": 10,
            "epochs_without_improvement": 0,
        },
    )
