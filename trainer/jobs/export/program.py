"""Program of a run: its best checkpoint as a file that predicts from raw rows without the user's code.

A run that trained leaves one for the independent evaluation; it is compared with the trained model, and the first
exporter whose program agrees is taken. What cannot be exported is named with what to change, and fails no run.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from trainwright.trainer.base import seeding
from trainwright.trainer.base.canonical import sha256_of_file
from trainwright.trainer.base.errors import ConfigurationError, IntegrityError, NotFoundError, TrainwrightError
from trainwright.trainer.checkpoints.index import list_checkpoints
from trainwright.trainer.checkpoints.store import DirectoryStore, LoadedCheckpoint
from trainwright.trainer.config.schema import DeploymentSection
from trainwright.trainer.data.tensors import to_device
from trainwright.trainer.engine.session import DEPLOYED, Session
from trainwright.trainer.engine.strategy import Strategy
from trainwright.trainer.jobs.export import exporters
from trainwright.trainer.jobs.export.exporters import Free
from trainwright.trainer.jobs.export.inputs import (
    Inputs,
    RealRows,
    Rows,
    model_inputs,
    not_tensors,
    real_rows,
    rows_loader,
)
from trainwright.trainer.jobs.export.parity import Comparison, Worst, compare, is_repeatable, part, wanted_of
from trainwright.trainer.jobs.export.reasons import (
    beside_others,
    in_plain_words,
    no_forward,
    no_output,
    other_each_time,
    other_output,
    padded,
    refusal,
)
from trainwright.trainer.jobs.export.serving import Serving, is_close
from trainwright.trainer.objectives.contrastive import Contrastive
from trainwright.trainer.objectives.objective import NoObjective
from trainwright.trainer.objectives.supervised import CustomStep
from trainwright.trainer.run import RunDirectory
from trainwright.trainer.run.artifacts import Parity, Program
from trainwright.trainer.strategies.parallel import Ddp
from trainwright.trainer.user_code.guard import user_code
from trainwright.trainer.watch.silent.functions import calls_dropout

Batch = tuple[Any, Inputs]
"""One batch as the loader gives it, and the model's inputs in it."""
ALONE = 8
"""Rows that are called alone."""
FOLDER = "model"
"""Folder of the program, in the run's artifacts."""
COMPARING_SECONDS = 60.0
TRACED_ROWS = 3
LENGTHS_MEASURED = 64
HALF = (torch.float16, torch.bfloat16)
AT_THE_END = (exporters.FAST, exporters.DYNAMO, exporters.PROGRAM)
"""Order of the exporters at the end of training: the fastest first."""
FILES = {
    exporters.ONNX: "model.onnx",
    exporters.TORCH_EXPORT: "model.pt2",
    exporters.TORCHSCRIPT: "model.torchscript.pt",
}
FOR_TORCH = {exporters.TORCH_EXPORT: exporters.PROGRAM, exporters.TORCHSCRIPT: exporters.TRACE}
"""Exporter of each form that is written only where it is asked for."""


def export_program(session: Session) -> Program:
    """Write the best checkpoint's program into the run's artifacts. Training is over: the model moves to the CPU.

    Never fails: where there is no program, `problem` says why and `remedy` what to change.
    """
    started = time.perf_counter()
    try:
        with user_code("The model's export", session.context.code_root), seeding.preserved():
            seeding.seed_measurement(session.config.seed, 0)
            found = _exported(session)
    except Exception as error:  # noqa: BLE001 - whatever a model or an exporter raises: the run is complete
        problem, remedy = in_plain_words(error)
        found = Program(problem=problem, remedy=remedy)
    return found.model_copy(update={"seconds": round(time.perf_counter() - started, 3)})


def _exported(session: Session) -> Program:
    if type(session.strategy) not in {Strategy, Ddp}:
        raise ConfigurationError(
            "The weights are divided among processes, and this run does not gather them for an export.",
            remedy="The export run evaluates the model: export_model(project).",
        )
    checkpoint = DirectoryStore(session.run).open(best_checkpoint(session.run))
    load_deployed(session, checkpoint)
    serving, rows, batch = prepared(session)
    require_comparable(session, serving, rows, batch)
    tolerance = session.config.deployment.onnx_tolerance
    written = write_program(serving, rows, session.run.artifacts / FOLDER, AT_THE_END, tolerance)
    return written.record(session.run.artifacts, checkpoint, rows.caveat)


def best_checkpoint(source: RunDirectory) -> str:
    """Return the best checkpoint's name; the last's where the run keeps no best. Raises NotFoundError without one."""
    records = list_checkpoints(source)
    for tag in ("best", "last"):
        for record in records:
            if tag in record.tags:
                return record.name
    raise NotFoundError(
        f"Run {source.run_id} has no checkpoint.", remedy="Export a run that has ended, with checkpoints.save_best."
    )


def load_deployed(session: Session, checkpoint: LoadedCheckpoint) -> None:
    """Put a checkpoint's evaluated weights into the model. Raises IntegrityError where they do not fit."""
    try:
        session.load_components(checkpoint, DEPLOYED)
    except RuntimeError as error:
        raise IntegrityError(
            f"Checkpoint {checkpoint.name} does not fit the model: {str(error)[:300]}.",
            remedy="The model's code or arguments changed since the run; restore them.",
        ) from error
    session.model.eval()


def prepared(session: Session) -> tuple[Serving, RealRows, Batch]:
    """Return the serving model in evaluation mode, the rows that it takes, and a first batch with its inputs.

    Raises:
        ConfigurationError: rows are not what the model takes.
    """
    rows = real_rows(session)
    batch = next(rows_loader(session).batches(0))
    inputs = model_inputs(session, batch)
    if inputs is None:
        raise not_tensors()
    session.model._compiled_call_impl = None  # the plain one is exported
    names = list(inputs) if isinstance(batch, Mapping) else None
    serving = Serving(session, names, [value.dtype for value in inputs.values()]).eval()
    return serving, rows, (batch, inputs)


def require_comparable(session: Session, serving: Serving, rows: RealRows, batch: Batch) -> None:
    """Check that the model gives for inputs alone what the metrics compare; it moves to the CPU, halves to float32.

    Other values of the same shape are left to the evaluation of the program, which shows both figures.

    Raises:
        ConfigurationError: it gives something else, nothing, or something new at each call.
    """
    reported = _reported_output(session, batch[0])
    session.model.cpu()
    if any(value.dtype in HALF for value in session.model.parameters()):
        serving.float()
        reported = None
    inputs = rows.first(batch[1])
    found = _call(serving, inputs)
    if not is_repeatable(serving, inputs):
        raise other_each_time(drops=calls_dropout(serving.model, lambda: _call(serving, inputs)))
    is_found = reported is None or serving.find_prediction(reported, *inputs.values())
    is_the_users = isinstance(session.validation_objective, CustomStep)
    # other values of the same form are exported all the same: the evaluation apart then names both figures
    if reported is not None and not is_found and not is_the_users and found[0].shape != reported.shape:
        raise other_output(found[0], reported)
    if rows.ragged:
        _require_no_padding(serving, rows)
    else:
        _require_alone(serving, inputs)


def _call(serving: Serving, rows: Inputs) -> list[Tensor]:
    if type(serving.model).forward is nn.Module.forward:
        raise no_forward(serving.model)
    return wanted_of(serving, rows)


def _reported_output(session: Session, batch: object) -> Tensor | None:
    """Return the output of one batch as the metrics get it; None where that cannot be found out on the device.

    None too where the step reports none and the model is measured by the episodes that it plays, or by its features.

    Raises:
        ConfigurationError: the objective gives metrics no output.
    """
    objective = session.validation_objective
    if isinstance(objective, NoObjective):
        raise no_output("train_step")
    session.context.training = False
    outcome = None
    with suppress(Exception), torch.no_grad():
        outcome = objective(session.model, to_device(batch, session.device))
    plays = any(metric.episodes for metric in session.work.metrics) and not session.work.gathers
    is_measured_else = plays or isinstance(objective, Contrastive)
    if outcome is None or (is_measured_else and outcome.output is None):
        return None
    if not isinstance(outcome.output, Tensor):
        raise no_output(objective.name if isinstance(objective, CustomStep) else session.config.objective.name)
    return outcome.output


def _require_alone(serving: Serving, inputs: Inputs) -> None:
    """Check that a row's output depends on no other row of its batch, as the evaluation of the program does."""
    batched = wanted_of(serving, inputs)[0]
    for number in range(min(ALONE, len(batched))):
        same = {name: value[number : number + 1].repeat_interleave(2, 0) for name, value in inputs.items()}
        try:
            alone = wanted_of(serving, same)[0][:1]
        except Exception:  # noqa: BLE001 - a size written out in the model, of which the exporters speak
            return
        if not is_close(batched[number : number + 1], alone):
            raise beside_others(serving.model)


def _require_no_padding(serving: Serving, rows: RealRows) -> None:
    """Check that a row's output does not depend on the padding that longer rows of its batch bring."""
    batched = wanted_of(serving, next(rows.batches()))[0]
    for number, single in enumerate(rows.singles(8)):
        alone = wanted_of(serving, single)[0]
        beside = batched[(slice(number, number + 1), *(slice(size) for size in alone.shape[1:]))]
        if not is_close(beside, alone):
            raise padded()


@dataclass(frozen=True)
class Written:
    """A program that agrees with the model."""

    path: Path
    exporter: str
    inputs: list[str]
    outputs: list[str]
    parity: Parity

    def record(self, artifacts: Path, checkpoint: LoadedCheckpoint, caveat: TrainwrightError | None = None) -> Program:
        """Return the evidence; paths are below `artifacts`, and a caveat says why figures may differ."""
        beside = [path for path in (exporters.data_of(self.path),) if path.is_file()]
        return Program(
            form=exporters.FORMS[self.exporter],
            path=self.path.relative_to(artifacts).as_posix(),
            digest=sha256_of_file(self.path),
            data={path.name: sha256_of_file(path) for path in beside},
            bytes=sum(path.stat().st_size for path in (self.path, *beside)),
            inputs=self.inputs,
            outputs=self.outputs,
            checkpoint=checkpoint.name,
            checkpoint_digest=checkpoint.manifest["digest"],
            parity=self.parity,
            problem=caveat.message if caveat is not None else None,
            remedy=caveat.remedy if caveat is not None else None,
        )


def write_program(serving: Serving, rows: Rows, folder: Path, order: Sequence[str], tolerance: float) -> Written:
    """Write the program by the first exporter whose file agrees with the model.

    Raises:
        ConfigurationError: the model cannot be called so, or no exporter can write it.
        IntegrityError: what they wrote differs from the model.
    """
    first = next(rows.batches())
    try:
        wanted_of(serving, part(first, 0, TRACED_ROWS))  # which names the outputs
    except Exception as error:
        raise refusal([("the model", error)], tolerance) from error
    failed: list[tuple[str, Exception | Worst]] = []
    for exporter, free in _attempts(serving, rows, first, order):
        path = folder / FILES[exporters.FORMS[exporter]]
        try:
            call = exporters.write(exporter, serving, part(first, 0, TRACED_ROWS), free, path)
        except Exception as error:  # noqa: BLE001 - exporters raise errors of any kind; the next one may do it
            failed.append((exporter, error))
        else:
            found = Comparison(serving, call, tolerance, time.monotonic() + COMPARING_SECONDS)
            compare(found, rows)
            if found.passed:
                return Written(path, exporter, list(first), serving.output_names, found.as_evidence())
            failed.append((exporter, found.worst))
        for left in (path, exporters.data_of(path)):
            left.unlink(missing_ok=True)
    raise refusal(failed, tolerance)


def write_others(serving: Serving, rows: Rows, folder: Path, deployment: DeploymentSection) -> dict[str, Parity]:
    """Write programs for those who run PyTorch, where they are asked for; return their comparison with the model.

    Raises:
        ConfigurationError, IntegrityError: one cannot be written, or gives other outputs.
    """
    found = {}
    for form, exporter in FOR_TORCH.items():
        if form not in deployment.formats or (folder / FILES[form]).is_file():
            continue
        try:
            written = write_program(serving, rows, folder, (exporter,), deployment.onnx_tolerance)
        except TrainwrightError as error:
            others = [one for one in deployment.formats if one != form] or ["safetensors"]
            remedy = f"{error.remedy} Or leave {form} out of deployment.formats."
            details = error.details | {"changes": {"deployment.formats": others}}
            raise type(error)(f"{form}: {error.message}", remedy=remedy, details=details) from error
        found[written.path.name] = written.parity
    return found


def _attempts(serving: Serving, rows: Rows, first: Inputs, order: Sequence[str]) -> Iterator[tuple[str, Free]]:
    """Yield exporters with the dimensions to leave free: lengths too where rows have several, or may have."""
    free = lengths(rows, first) or _shorter(serving, first, rows.vocabulary)
    for exporter in order:
        if free:
            yield exporter, Free(free)
        if not rows.ragged or not free:
            yield exporter, Free({})


def lengths(rows: Rows, first: Inputs) -> dict[str, tuple[int, ...]]:
    """Return the dimensions behind the first whose size varies among ragged rows."""
    found: dict[str, set[int]] = {}
    for batch in rows.singles(LENGTHS_MEASURED):
        for name, value in batch.items():
            places = range(1, value.dim())
            differing = {place for place in places if value.shape[place] != first[name].shape[place]}
            found.setdefault(name, set()).update(differing)
    return {name: tuple(sorted(places)) for name, places in found.items() if places}


def _shorter(serving: Serving, first: Inputs, vocabulary: int | None) -> dict[str, tuple[int, ...]]:
    """Return the length of token inputs, their last dimension, where the model takes shorter ones."""
    if vocabulary is None or any(value.dim() not in {2, 3} or value.shape[-1] < 2 for value in first.values()):
        return {}
    with suppress(Exception):
        wanted_of(serving, {name: value[:2, ..., : value.shape[-1] // 2] for name, value in first.items()})
        return {name: (value.dim() - 1,) for name, value in first.items()}
    return {}
