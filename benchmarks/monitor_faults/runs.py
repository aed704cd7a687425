"""Runs of the suite: the worker's own code in forks of a warm process, some at a time, and what the monitor says."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trainwright.tools.training_monitor.documents import watched_by_worker
from trainwright.trainer import worker
from trainwright.trainer.config import apply_changes, config_digest, parse_config
from trainwright.trainer.run import RunDirectory, RunKind, RunSpecification
from trainwright.trainer.run.environment import launch_environment
from trainwright.trainer.user_code.guard import exit_now

CODE = Path(__file__).with_name("code")
AT_ONCE = 2


@dataclass(frozen=True)
class Job:
    """One run to be made."""

    name: str
    values: dict[str, Any]
    validates: bool = False
    """Whether the run validates its data, which takes longer than most of these runs."""
    code_root: Path = CODE
    fields: dict[str, Any] = field(default_factory=dict)
    """Further fields of the run's plan."""


def warm_up() -> None:
    """Import what every worker imports, once; no thread may be started before a fork."""
    import torch
    from sklearn import datasets
    from torch import _dynamo
    from transformers import BertForSequenceClassification, LlamaForCausalLM, T5ForConditionalGeneration

    from trainwright.trainer.jobs import train

    torch.set_num_threads(1)
    logging.debug(
        "warm: %s",
        [
            one.__name__
            for one in (
                datasets,
                _dynamo,
                train,
                BertForSequenceClassification,
                LlamaForCausalLM,
                T5ForConditionalGeneration,
            )
        ],
    )


def train_all(jobs: Iterable[Job], folder: Path, at_once: int = AT_ONCE) -> Iterator[tuple[Job, RunDirectory]]:
    """Train each job in a fork of this process, so many at a time; yield them as they end."""
    at_work: dict[int, tuple[Job, RunDirectory]] = {}
    for job in jobs:
        if len(at_work) >= at_once:
            yield _one_ended(at_work)
        run = make_run(job, folder)
        at_work[_begin(run)] = (job, run)
    while at_work:
        yield _one_ended(at_work)


def _one_ended(at_work: dict[int, tuple[Job, RunDirectory]]) -> tuple[Job, RunDirectory]:
    pid, _ = os.waitpid(-1, 0)
    return at_work.pop(pid)


def make_run(job: Job, folder: Path) -> RunDirectory:
    """Write the run directory of a job, in a project folder of its own."""
    config = parse_config(job.values)
    fields = {"validated_by": None if job.validates else "planning", **job.fields}
    specification = RunSpecification(
        run_id="run", project=job.name, kind=RunKind.BASELINE, config=config, config_digest=config_digest(config),
        code_root=str(job.code_root), watch=watched_by_worker(), **fields,
    )  # fmt: skip
    return RunDirectory.create(folder / job.name / "runs" / "run", specification)


def with_changes(job: Job, changes: dict[str, Any]) -> Job:
    """Return the same job with changes of its configuration by dotted key, as `configure` would apply them."""
    values = apply_changes(parse_config(job.values).model_dump(mode="json"), changes)
    return Job(f"{job.name}-changed", values, job.validates, job.code_root, job.fields)


def _begin(run: RunDirectory) -> int:
    child = os.fork()
    if child:
        return child
    code = 70
    try:
        log = os.open(run.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(log, 1)
        os.dup2(log, 2)
        sys.stdout = sys.stderr = os.fdopen(log, "w", buffering=1)
        os.environ.update(launch_environment(run.specification().config))
        code = worker.main([str(run.path)])
    finally:
        exit_now(code)
    return 0
