"""The batch-size finder: twice the batch, and twice again, as long as it fits and pays.

Each size is tried in a process of its own that is forked for it, under a limit on memory: a shortage there ends
that process and nothing else. On a GPU, which a fork cannot use, in this process; torch gives the memory back.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import psutil
import torch

from trainwright.trainer.base.errors import OutOfMemoryError, TrainwrightError
from trainwright.trainer.base.failures import known_failure
from trainwright.trainer.engine.loop import take_step
from trainwright.trainer.engine.memory import free_bytes
from trainwright.trainer.engine.session import Session
from trainwright.trainer.jobs.probe.rates import endless
from trainwright.trainer.run.results import SizeTest
from trainwright.trainer.user_code.guard import exit_now

WORTH_IT = 1.1
"""So much more throughput a doubled batch must give to be suggested."""
MEMORY_SHARE = 0.8
"""Of the free memory that one try may take."""
TRY_SECONDS = 60.0
MEASURED_SECONDS = 0.3
MAX_STEPS = 20


def find_batch_size(session: Session) -> SizeTest:
    """Try sizes from the configured one on; return each size's result, why it ended, and the suggested size."""
    start = session.train_loader.batch_size
    if start is None:
        return SizeTest(suggested=None, why="the data comes in batches already", tried=[])
    most = len(session.train_loader.samples) if not session.train_loader.is_stream else start * 64
    tried: list[dict[str, Any]] = []
    best, size, why = None, start, f"the train split has {most} samples"
    while size <= most:
        found = attempt(session, size)
        tried.append({"batch_size": size, **found})
        if "samples_per_second" not in found:
            why = found["failure"]
            break
        if best is not None and found["samples_per_second"] < WORTH_IT * best["samples_per_second"]:
            why = "throughput stopped growing"
            break
        best, size = tried[-1], size * 2
    return SizeTest(suggested=best["batch_size"] if best else None, why=why, tried=tried)


def attempt(session: Session, size: int) -> dict[str, Any]:
    """Return throughput and peak memory of a batch size, or its failure."""
    if session.device.type == "cuda":
        return _tried(session, size)
    return in_a_fork(lambda: _tried(session, size), int(MEMORY_SHARE * free_bytes(session.device)))


def in_a_fork(work: Callable[[], dict[str, Any]], memory_bytes: int) -> dict[str, Any]:
    """Return the result of `work` in a forked process under that memory limit, or how that process ended."""
    ready: list[Any] = []
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, signal.SIG_DFL)
            torch.set_num_threads(1)  # a pool of threads does not survive a fork
            limit = psutil.Process().memory_info().vms + memory_bytes
            with suppress(ValueError, OSError):  # macOS does not bound it: memory runs out there as it does
                resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
            os.write(writing, json.dumps(work()).encode())
        finally:
            exit_now(0)
    os.close(writing)
    try:
        ready, _, _ = select.select([reading], [], [], TRY_SECONDS)
        sent = os.read(reading, 65536) if ready else b""
    finally:
        os.close(reading)
        if not ready:
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    if sent:
        result: dict[str, Any] = json.loads(sent)
        return result
    return {"failure": "memory ran out" if ready else f"no step within {TRY_SECONDS:g} s"}


def _tried(session: Session, size: int) -> dict[str, Any]:
    from trainwright.trainer.evidence.run_evidence import peak_memory_bytes

    session.train_loader = replace(
        session.train_loader, batch_size=size, num_workers=0, persistent_workers=False, _kept=None
    )
    session.progress.batch = 0  # at a larger size an epoch has fewer batches than an earlier try took
    if session.device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(session.device)
    try:
        return {**_measured(session), "peak_memory_bytes": peak_memory_bytes(session.device)}
    except Exception as error:
        known = known_failure(error)
        if isinstance(known, OutOfMemoryError):
            if session.device.type == "cuda":
                torch.cuda.empty_cache()
            return {"failure": "memory ran out"}
        if isinstance(error, TrainwrightError):
            return {"failure": error.message[:200]}
        raise


def _measured(session: Session) -> dict[str, Any]:
    """Take one step to warm up, then time batches until it has lasted long enough."""
    size, samples, began = session.train_loader.batch_size, 0, 0.0
    for number, group in enumerate(endless(session, MAX_STEPS)):
        result = take_step(session, group)
        float(result.loss)
        if number == 0:
            began = time.perf_counter()
        elif result.samples >= (size or 1) * len(group):  # the last batch of an epoch may be smaller
            samples += result.samples
        if number and time.perf_counter() - began > MEASURED_SECONDS:
            break
    return {"samples_per_second": round(samples / max(time.perf_counter() - began, 1e-9), 1)}
