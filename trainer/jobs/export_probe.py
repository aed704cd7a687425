"""Export probe of a smoke run: its model is written as ONNX and compared with itself on a few rows.

A model that cannot leave the house would else show after the final run and its replay. ONNX is tried whether or not
`deployment.formats` has it, so that another choice of formats needs no other smoke run.
"""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

from trainwright.trainer.base import seeding
from trainwright.trainer.base.errors import TrainwrightError
from trainwright.trainer.engine.session import Session
from trainwright.trainer.engine.strategy import Strategy
from trainwright.trainer.frameworks.framework import framework_in
from trainwright.trainer.jobs.export.exporters import DYNAMO, FAST
from trainwright.trainer.jobs.export.inputs import Inputs, Rows
from trainwright.trainer.jobs.export.parity import part, wanted_of
from trainwright.trainer.jobs.export.program import write_program
from trainwright.trainer.jobs.export.reasons import WITHOUT_ONNX, in_plain_words
from trainwright.trainer.jobs.export.served import Served, rows_to_call_with, served_of
from trainwright.trainer.jobs.own_probe import probe_own
from trainwright.trainer.run.artifacts import ExportProbe
from trainwright.trainer.strategies.parallel import Ddp
from trainwright.trainer.user_code.guard import user_code

MAX_BYTES = 1 << 29
"""Of weights and buffers: a larger model takes more than a few seconds, and three times its memory."""
SLOW_SECONDS = 0.5
"""For one row: a probe takes about forty."""
ROWS = 4
"""In a batch: one more than programs are traced with."""
FOLDER = "export_probe"


def probe_export(session: Session) -> ExportProbe:
    """Try the export of a session that has ended: the model moves to the CPU, in evaluation mode.

    Never fails: `problem` says why there is no ONNX, `remedy` and `changes` what to change, `reason` why it was not
    tried; what begins with `own` is of the user's `data.prepare` and `data.present`.
    """
    started, served = time.perf_counter(), None
    found = ExportProbe(reason=_not_tried(session))
    try:
        with user_code("The model's export", session.context.code_root), seeding.preserved():
            seeding.seed_measurement(session.config.seed, 0)
            if not found.reason:
                served = _served(session)
                found = _tried(session, served)
    except Exception as error:  # noqa: BLE001 - whatever a model or an exporter raises: training worked
        found = _refused(error)
    own = probe_own(session, None if found.reason else served)
    return found.model_copy(update={**own, "seconds": round(time.perf_counter() - started, 3)})


def _not_tried(session: Session) -> str:
    if type(session.strategy) not in {Strategy, Ddp}:
        return "its weights are divided among processes"
    size = sum(value.nbytes for value in (*session.model.parameters(), *session.model.buffers()))
    if size > MAX_BYTES:
        return f"its weights take {size / 2**20:,.0f} MiB, and an export of more than {MAX_BYTES >> 20} is not tried"
    return ""


def _served(session: Session) -> Served:
    """Return the model as an export calls it, on the first rows alone. Raises as that."""
    if (framework := framework_in(session.work)) is not None:
        framework.unwrap()
    session.model.eval()
    session.model.cpu()
    if session.work.batch_size is not None:
        session.work = replace(session.work, batch_size=min(ROWS, session.work.batch_size))
    rows, are_real = rows_to_call_with(session)
    return served_of(session, rows, are_real=are_real)


def _tried(session: Session, served: Served) -> ExportProbe:
    """Write and compare as the export does. Raises as that."""
    served.require_servable()
    first, began = _First(served.rows), time.perf_counter()
    wanted_of(served.serving, part(next(first.batches()), 0, 1))
    if (took := time.perf_counter() - began) > SLOW_SECONDS:
        return ExportProbe(reason=f"a row takes the model {took:.1f} s on the CPU, and {SLOW_SECONDS:g} s is the most")
    folder, tolerance = session.run.artifacts / FOLDER, session.config.deployment.onnx_tolerance
    try:
        written = write_program(served.serving, first, folder, (FAST, DYNAMO), tolerance)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return ExportProbe(parity=written.parity, difference=written.parity.ratio)


def _refused(error: Exception) -> ExportProbe:
    problem, remedy = in_plain_words(error)
    known = error if isinstance(error, TrainwrightError) else None
    details = known.details if known is not None else {}
    ratio = details.get("ratio")
    return ExportProbe(
        problem=problem,
        remedy=remedy,
        changes=details.get("changes", WITHOUT_ONNX["changes"]),
        difference=ratio if ratio is not None and math.isfinite(ratio) else None,
    )


@dataclass(frozen=True)
class _First:
    """The first rows alone."""

    rows: Rows

    @property
    def ragged(self) -> bool:
        return self.rows.ragged

    @property
    def vocabulary(self) -> int | None:
        return self.rows.vocabulary

    def batches(self) -> Iterator[Inputs]:
        yield part(next(self.rows.batches()), 0, ROWS)

    def singles(self, count: int) -> list[Inputs]:
        return self.rows.singles(min(count, ROWS))
