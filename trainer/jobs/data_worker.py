"""Data worker: a fork of the worker that builds the data and writes its rows, before any user code is in the worker.

The worker waits, hears stop requests and limits, takes the digests of what was written itself, and signs them with a
key that it then forgets: what user code does later in either process changes no row without being found.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from trainwright.trainer.assembly.raw_splits import build_raw_splits
from trainwright.trainer.base.errors import TrainwrightError
from trainwright.trainer.evidence.fixed_rows import digested, first_samples, write_fixed_rows
from trainwright.trainer.evidence.validation import require_valid, validation_of
from trainwright.trainer.jobs.fork import POLL_SECONDS, Fork, Say
from trainwright.trainer.run import Failure, RunDirectory, RunKind, RunSpecification
from trainwright.trainer.run.artifacts import FixedRows
from trainwright.trainer.run.key import rows_statement
from trainwright.trainer.run.validation import Validation
from trainwright.trainer.supervision.heartbeat import overrun_of_user_code
from trainwright.trainer.supervision.stop import StopRequest
from trainwright.trainer.user_code import guard, import_record
from trainwright.trainer.user_code.clock import clock


class DataWorkerError(Exception):
    """The data worker ended the run: the user's code took longer than it may."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


def fix_rows(run: RunDirectory, specification: RunSpecification, attempt: int, stop: StopRequest) -> None:
    """Fix the rows of a smoke run's first attempt, and forget the key that signs them; of other runs, only forget.

    Raises:
        Abandoned: a stop was requested, or a limit reached.
        DataWorkerError: the user's code took longer than it may; the run has failed.
    """
    if specification.kind is RunKind.SMOKE and attempt == 1:
        draw = run.key.rows_draw if run.key is not None else int.from_bytes(os.urandom(8), "little")
        started = time.monotonic()
        record, validation = _fixed(run, specification, stop, draw)
        seconds = round(time.monotonic() - started, 3)
        record = record.model_copy(update={"seconds": seconds, "validation": validation.digest()})
        run.write_evidence(validation)
        if run.key is not None:
            statement = rows_statement(run.run_id, record.as_dict())
            record = record.model_copy(update={"signature": run.key.sign_rows(statement)})
        run.write_evidence(record)
        require_valid(validation, specification.project)
    if run.key is not None:
        run.key.forget_rows()


def _fixed(
    run: RunDirectory, specification: RunSpecification, stop: StopRequest, draw: int
) -> tuple[FixedRows, Validation]:
    answer = _answer(run, specification, stop, draw)
    if "failure" in answer:
        raise DataWorkerError(Failure.model_validate(answer["failure"]))
    try:
        validation = Validation.model_validate(answer.get("validation"))
        return digested(FixedRows.model_validate(answer.get("rows")), run.artifacts), validation
    except (TrainwrightError, ValidationError, OSError) as error:
        problem = _problem(error)
        return problem, Validation(problem=problem.problem, remedy=problem.remedy)


def _problem(error: BaseException) -> FixedRows:
    if isinstance(error, TrainwrightError):
        return FixedRows(problem=guard.cut(error.message), remedy=guard.cut(error.remedy))
    return FixedRows(
        problem=guard.cut(f"The rows could not be read: {type(error).__name__}: {error}"),
        remedy="worker.log has the traceback. Start the smoke run again once it is corrected.",
    )


def _answer(run: RunDirectory, specification: RunSpecification, stop: StopRequest, draw: int) -> dict[str, Any]:
    """Let a fork write the rows, and return its answer. Raises Abandoned."""
    answer, code = Fork.of(lambda say: _work(run, specification, draw, say)).answer(stop)
    return answer if answer is not None else _ended(code)


def _ended(code: int) -> dict[str, Any]:
    how = f"signal {-code}" if code < 0 else f"exit code {code}"
    problem = FixedRows(
        problem=f"The process that reads the rows ended without an answer ({how}).",
        remedy="worker.log has its last lines; with signal 9 the machine may have been out of memory.",
    )
    return _both(problem, Validation(problem=problem.problem, remedy=problem.remedy))


def _both(rows: FixedRows, validation: Validation) -> dict[str, Any]:
    return {"rows": rows.as_dict(), "validation": validation.model_dump(mode="json", exclude_unset=True)}


def _work(run: RunDirectory, specification: RunSpecification, draw: int, say: Say) -> None:
    """Be the data worker: write the rows, and answer with their record."""
    if run.key is not None:
        run.key.forget_rows()
    run.key, root = None, Path(specification.code_root)
    guard.install()
    import_record.install(root)
    clock.restart()
    limit = run.limits().user_code_seconds
    threading.Thread(target=_watch, args=(limit, root, say), name="clock", daemon=True).start()
    say(_written(run, specification, draw))


def _written(run: RunDirectory, specification: RunSpecification, draw: int) -> dict[str, Any]:
    validation, root = Validation(), Path(specification.code_root)
    try:
        raw = build_raw_splits(specification)
        first = first_samples(specification, raw)
        validation = validation_of(specification.config, root, raw.samples, raw.data_seed)
        rows = write_fixed_rows(run, specification, raw, draw)
        return _both(rows.model_copy(update={"first": first} if first else {}), validation)
    except BaseException as error:  # noqa: BLE001 - the run goes on, and meets the same error
        sys.stderr.write("rows: " + "".join(traceback.format_exception(error)))
        problem = _problem(error)
        known = validation or Validation(problem=problem.problem, remedy=problem.remedy)
        return _both(problem, known)


def _watch(limit_seconds: float, root: Path, say: Say) -> None:
    """Answer with the failure, and end, where user code takes longer than it may."""
    while True:
        time.sleep(POLL_SECONDS)
        found = overrun_of_user_code(limit_seconds, root)
        if found is not None:
            error, frames = found
            say({"failure": Failure(**error.as_dict(), traceback=frames).model_dump(mode="json")})
            guard.exit_now(1)
