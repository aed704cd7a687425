"""The worker process: `python -P -m trainwright.trainer.worker RUN_DIR`, or `handover`, which brings the run's key.

Takes the run's lock, trains or exports as `run.json` says, and always leaves a terminal status. The exit
code (0 completed or stopped, 1 failed, 2 refused) is a courtesy; the record is status.json.
"""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import sqlite3
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from typing import IO, NoReturn, cast

from trainwright.trainer.base.errors import ConflictError, TrainwrightError, UserCodeError
from trainwright.trainer.base.failures import known_failure
from trainwright.trainer.base.paths import allow_links
from trainwright.trainer.base.releases import require_supported
from trainwright.trainer.checkpoints.store import DirectoryStore
from trainwright.trainer.data import cache, marks
from trainwright.trainer.data.remote import connections
from trainwright.trainer.evidence.opened_files import record_opened
from trainwright.trainer.jobs.fork import Fork
from trainwright.trainer.jobs.ranks import Leader, SilentHeartbeat, SilentRun
from trainwright.trainer.run import Failure, ProcessIdentity, RunDirectory, RunKey, RunKind, RunSpecification, RunState
from trainwright.trainer.run.environment import verify_launch_environment
from trainwright.trainer.run.rank import (
    LOST_PEER,
    Failures,
    Placement,
    configuration_of,
    is_lost_peer,
    processes_of,
    take_launch_environment,
)
from trainwright.trainer.run.split_rows import KeptSides
from trainwright.trainer.supervision.heartbeat import Ballast, Heartbeat
from trainwright.trainer.supervision.stop import Abandoned, StopRequest
from trainwright.trainer.user_code import guard, import_record, opened_files, write_guard


def main(arguments: list[str] | None = None, seed: bytearray | None = None) -> int:
    """Work on one run directory. Returns the process's exit code.

    Args:
        arguments: the run directory; the command line's by default.
        seed: the run's key, as the launcher handed it over, which is overwritten; None where it hands over none.
    """
    given = sys.argv[1:] if arguments is None else arguments
    if len(given) != 1:
        sys.stderr.write("usage: python -P -m trainwright.trainer.worker RUN_DIR\n")
        return 2
    faulthandler.enable()
    run = RunDirectory(Path(given[0]), RunKey(seed) if seed else None)
    try:
        placement = Placement.of_environment()
        specification = run.specification()
        _use_cache(run, specification)
        if placement is not None and not placement.is_first:
            return _follow(run, specification, placement)
        with run.lock() as held:
            before = run.last_status()
            if before.state is RunState.COMPLETED:
                raise ConflictError(
                    f"Run {run.run_id} is completed.", remedy="Start a new run with start_training(project, kind)."
                )
            if placement is None and processes_of(specification) > 1:
                return _lead(run, specification, before.attempt + 1, held)
            return _work(run, specification, attempt=before.attempt + 1, placement=placement)
    except TrainwrightError as error:
        sys.stderr.write(f"refused: {error.message} {error.remedy}\n")
        return 2


def _use_cache(run: RunDirectory, specification: RunSpecification) -> None:
    """Set the data cache, the sides that rows keep, and the access to data elsewhere.

    A smoke run relies on nothing in the cache that is older than its own plan.
    """
    allow_links(specification.linked_roots, snapshot_of=specification.snapshot_of)
    if specification.data_cache is not None:
        since = (run.path / "run.json").stat().st_mtime_ns if specification.kind is RunKind.SMOKE else 0
        folder = Path(specification.data_cache)
        folder.mkdir(parents=True, exist_ok=True)  # the write guard frees what is below it, and not it
        cache.use(cache.DataCache(folder, specification.data_cache_bytes, since))
    marks.use(KeptSides(specification.sides) if specification.sides else None)
    access = connections.Access(specification.data_of or specification.run_id, specification.connections)
    data = specification.config.data
    connections.use(connections.taken({} if data is None else data.args, access))


def _lead(run: RunDirectory, specification: RunSpecification, attempt: int, held: IO[bytes]) -> int:
    """Lead the processes of a run on this machine; this one holds the lock and takes the signals."""
    leader = ProcessIdentity.current()

    def work(placement: Placement, attempt: int) -> int:
        if placement.is_first:
            return _work(run, specification, attempt, placement=placement, leader=leader)
        return _follow(run, specification, placement)

    def fail(attempt: int, failure: Failure) -> None:
        heartbeat = Heartbeat(run, specification, attempt, StopRequest(run.stop_reason), process=leader)
        _record_failure(run, heartbeat, failure)

    group = Leader(run, processes_of(specification), work=work, leave=_leave, held=held)
    return group.lead(attempt, specification.config.distributed.restarts, fail)


def _follow(run: RunDirectory, specification: RunSpecification, placement: Placement) -> int:
    """Train as a process that leaves the records to the first one."""
    failures = Failures(run.path)
    failures.clear(placement.rank)
    stop = StopRequest(run.stop_reason)
    stop.listen()
    if run.key is not None:
        run.key.forget_rows()  # the first process fixes them
    try:
        opened_files.install(run.path, Path(specification.code_root))
        _prepare(run, specification)
        _dispatch(SilentRun(run), specification, cast("Heartbeat", SilentHeartbeat()), stop, placement)
    except Abandoned:
        return 0
    except BaseException as error:  # noqa: BLE001 - any error has to be reported to the first process
        sys.stderr.write(f"rank {placement.rank}: " + "".join(traceback.format_exception(error)))
        if is_lost_peer(error):
            return LOST_PEER
        failures.report(placement.rank, _failure_of(error, Path(specification.code_root)))
        return 1
    return 0


def _work(
    run: RunDirectory,
    specification: RunSpecification,
    attempt: int,
    *,
    placement: Placement | None = None,
    leader: ProcessIdentity | None = None,
) -> int:
    process, stop = os.getpid(), StopRequest(run.stop_reason)
    stop.listen()
    ballast = Ballast(run.path)
    heartbeat = Heartbeat(run, specification, attempt, stop, process=leader)
    try:
        heartbeat.start()
        run.append_event("started", attempt=attempt, pid=heartbeat.pid)
        require_supported()
        ballast.hold()
        DirectoryStore(run).recover()  # before any other process of the run reads them
        opened_files.install(run.path, Path(specification.code_root))
        if specification.kind is RunKind.SMOKE:
            heartbeat.stage("fixing rows")
        _fix_rows(run, specification, attempt, stop)
        fork = _fork(run, specification, attempt) if placement is None else None
        _prepare(run, specification)
        reason = _dispatch(run, specification, heartbeat, stop, placement, fork=fork)
        record_opened(run, specification)
    except Abandoned:
        stop.hear_nothing_more()
        for child in multiprocessing.active_children():  # before the loaders that would wait for them are let go
            child.kill()
        reason = stop.reason
    except BaseException as error:  # noqa: BLE001 - the last record must be written after any error
        guard.end_copy_of(process)
        stop.hear_nothing_more()
        ballast.drop()
        if placement is not None and is_lost_peer(error):
            sys.stderr.write("".join(traceback.format_exception(error)))
            reported = Failures(run.path).wait() if leader is None else None  # a leader asks itself
            if reported is None:
                return LOST_PEER
            _record_failure(run, heartbeat, reported[1])
            return 1
        _fail(run, specification, heartbeat, error)
        return 1
    guard.end_copy_of(process)
    stop.hear_nothing_more()
    ballast.drop()
    finished = reason in {"completed", "early_stopping", "max_steps"}
    heartbeat.end(RunState.COMPLETED if finished else RunState.STOPPED, stop_reason=reason)
    return 0


def _fix_rows(run: RunDirectory, specification: RunSpecification, attempt: int, stop: StopRequest) -> None:
    """Fix validation and test rows before any user code is imported here (of a smoke run), and forget their key."""
    from trainwright.trainer.catalog.first_modules import first_modules
    from trainwright.trainer.jobs.data_worker import fix_rows
    from trainwright.trainer.jobs.first_imports import import_first

    config = specification.config
    import_first(
        first_modules(config.data, config.model, tensorboard=config.logging.tensorboard)
    )  # which the fork then need not do
    fix_rows(run, specification, attempt, stop)


def _fork(run: RunDirectory, specification: RunSpecification, attempt: int) -> Fork | None:
    """Fork the process that a smoke run of user code is held to, before any of it is imported here."""
    from trainwright.trainer.jobs import resume_probe

    return resume_probe.begin(run, specification, attempt)


def _prepare(run: RunDirectory, specification: RunSpecification) -> None:
    guard.install()
    import_record.install(Path(specification.code_root))
    write_guard.install(run.path, Path(specification.code_root))
    verify_launch_environment(specification.config)


def _dispatch(
    run: RunDirectory,
    specification: RunSpecification,
    heartbeat: Heartbeat,
    stop: StopRequest,
    placement: Placement | None,
    *,
    fork: Fork | None = None,
) -> str:
    if specification.kind is RunKind.EXPORT:
        from trainwright.trainer.jobs.export.work import export_run

        return export_run(run, specification, heartbeat, stop)
    if placement is not None:
        from trainwright.trainer.strategies.group import join

        join(placement, configuration_of(specification))
    from trainwright.trainer.jobs.train import train_run

    return train_run(run, specification, heartbeat, stop, fork)


def _fail(run: RunDirectory, specification: RunSpecification, heartbeat: Heartbeat, error: BaseException) -> None:
    """Write the failure: classified, with the user's part of the traceback."""
    sys.stderr.write("".join(traceback.format_exception(error)))
    with suppress(Exception):  # for the next run, which may read what this one left
        record_opened(run, specification)
    _record_failure(run, heartbeat, _failure_of(error, Path(specification.code_root)))


def _failure_of(error: BaseException, code_root: Path) -> Failure:
    if isinstance(reported := getattr(error, "failure", None), Failure):  # by the data worker
        return reported
    known = classify(error, code_root)
    fields = {**known.as_dict(), "message": guard.cut(known.message)}
    return Failure(**fields, traceback=guard.user_traceback(error, code_root))


def _record_failure(run: RunDirectory, heartbeat: Heartbeat, failure: Failure) -> None:
    try:
        if failure.category == "divergence":
            named = {"severity": "critical", "layers": failure.details.get("parameters", [])}
            run.append_event("alert", id="nan_loss", message=failure.message, **named, **failure.details)
        run.append_event("failed", **failure.model_dump(exclude={"traceback"}))
    except OSError as full:
        sys.stderr.write(f"events.jsonl: {full}\n")
    heartbeat.end(RunState.FAILED, failure=failure)


def classify(error: BaseException, code_root: Path) -> TrainwrightError:
    """Return the error as one of ours: its own, a library's known one, the user's, or ours to fix."""
    known = known_failure(error) or guard.wrong_call(error, code_root)
    if known is not None:
        return known
    if isinstance(error, SystemExit | guard.ExitCalled):
        return UserCodeError(
            f"The user's code ended the process (exit code {error.code!r}) during training.",
            remedy="Remove the exit call; raise an error instead.",
            details={"exit_code": error.code if isinstance(error.code, int | str) else None},
        )
    text = f"{type(error).__name__}: {str(error)[:500]}"
    if guard.user_traceback(error, code_root) is not None:
        return UserCodeError(
            f"The user's code raised {text}",
            remedy=guard.AT_ITS_LINE,
            details={"exception": type(error).__name__},
        )
    if isinstance(error, sqlite3.Error):
        text = f"the metrics could not be written ({text})"
    return TrainwrightError(
        f"The worker failed: {text}",
        remedy="Read the last lines of worker.log. The same configuration would fail again: change what they name with "
        "configure(project, changes, reason), then start a new run.",
        details={"exception": type(error).__name__},
    )


def _leave(code: int) -> NoReturn:
    """End the process at once: threads that user code left behind would keep it, and the GPU, for ever.

    Processes that multiprocessing started are ended too, as an ordinary exit would end them.
    """
    for child in multiprocessing.active_children():
        child.terminate()
    cache.end(os.getpid())
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):  # user code may have replaced or closed it
            stream.flush()
    guard.exit_now(code)


def main_and_leave(seed: bytearray | None = None) -> NoReturn:
    """Work on the run directory of the command line, and end the process."""
    code = 1
    try:
        if seed is None and len(sys.argv) == 2:
            take_launch_environment("trainwright.trainer.worker", RunDirectory(Path(sys.argv[1])))
        code = main(seed=seed)
    except BaseException:  # noqa: BLE001 - a status that could not be written; the log has it
        traceback.print_exc()
    finally:
        _leave(code)


if __name__ == "__main__":
    main_and_leave()
