"""Measured work of a project's own runs: seconds of a step, an epoch, a start and a resume, from sealed records.

Nothing of it is reported by an agent: a run counts once the server has sealed it, while its record is unchanged.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.run_evidence import RunEvidence
from trainwright.trainer.base.errors import ConfigurationError, IntegrityError
from trainwright.trainer.checkpoints.index import list_checkpoints
from trainwright.trainer.config import TrainingConfig
from trainwright.trainer.run import RunDirectory, RunKind
from trainwright.trainer.run.results import Probe

KINDS = (RunKind.FINAL, RunKind.BASELINE)
"""Whole trainings, the best witness first."""
SAME = ("model", "adapter", "data", "loader", "loss", "task", "trainer", "objective", "optimizer", "distributed")
"""Sections of a configuration on which the work of a step depends; of the optimizer, its name."""
OF_TRAINING = ("precision", "accumulation_steps", "compile", "gradient_checkpointing", "channels_last", "device")
SHORT_SECONDS = 30.0
"""Of training, below which the seconds of a step are less sure."""
SURE, UNSURE = 0.05, 0.2
"""Spread around measured steps of a run that took long, or not."""


@dataclass(frozen=True)
class Measured:
    """What one sealed run of this configuration took."""

    run: str
    kind: str
    step_seconds: float
    """Of an update, waiting for data included."""
    steps_per_epoch: float
    other_seconds: float
    """Of an epoch beside its steps: validation, checkpoints."""
    start_seconds: float
    """From the worker's start to its first step."""
    data_wait_share: float
    spread: float
    """Share by which the seconds of another run may differ."""
    is_on_gpu: bool
    gpus: int
    hardware: dict[str, Any]
    """As the worker found it: cpu, cores, memory_bytes, gpus."""


def measured_work(evidence: Evidence) -> Measured | None:
    """Return the work of the newest whole run of the present configuration, else of its probe; None without either."""
    for kind in KINDS:
        run = evidence.newest(kind)
        if run is not None and _counts(run, evidence):
            found = _of_training(run)
            if found is not None:
                return found
    probe = evidence.newest(RunKind.PROBE, config=evidence.config_digest)
    return _of_probe(probe) if probe is not None and _counts(probe, evidence) else None


def _counts(run: RunEvidence, evidence: Evidence) -> bool:
    """Return whether a run is sealed, unchanged, and did the work of the present configuration."""
    if not run.is_complete:
        return False
    try:
        config = run.directory.specification().config
        return _work_of(config) == _work_of(evidence.config) and not run.differences
    except (ConfigurationError, IntegrityError):
        return False


def _work_of(config: TrainingConfig) -> dict[str, Any]:
    values = config.model_dump(mode="json")
    training, optimizer = values["training"], dict(values["optimizer"])
    own = {name: training.get(name) for name in OF_TRAINING}
    return {name: values.get(name) for name in SAME} | own | {"optimizer": optimizer.get("name")}


def _of_training(run: RunEvidence) -> Measured | None:
    summary, per_epoch = run.summary, run.resolved.steps_per_epoch
    if not summary.steps or not per_epoch or summary.train_seconds <= 0:
        return None
    start = _start_seconds(run.directory)
    rest = max(run.directory.seconds_worked() - summary.train_seconds - start, 0.0)
    ended = max(math.ceil(summary.steps / per_epoch), 1)  # one that max_steps cut short was validated and saved too
    return Measured(
        run=run.id,
        kind=str(run.row.kind),
        step_seconds=summary.train_seconds / summary.steps,
        steps_per_epoch=float(per_epoch),
        other_seconds=rest / ended,
        start_seconds=start,
        data_wait_share=summary.data_wait_fraction or 0.0,
        spread=SURE if summary.train_seconds >= SHORT_SECONDS else UNSURE,
        **_device(run),
    )


def _of_probe(run: RunEvidence) -> Measured | None:
    profile, steps = run.part(Probe).profile, run.resolved.steps_per_epoch
    if profile.step_ms is None or not steps:
        return None
    waits = (profile.phases_percent or {}).get("data", 0.0)
    step = profile.step_ms / 1e3
    return Measured(
        run=run.id, kind=str(run.row.kind), step_seconds=step, steps_per_epoch=float(steps),
        other_seconds=max((profile.epoch_seconds or 0.0) - step * steps, 0.0),
        start_seconds=_start_seconds(run.directory), data_wait_share=min(waits / 100.0, 1.0), spread=UNSURE,
        **_device(run),
    )  # fmt: skip


def _device(run: RunEvidence) -> dict[str, Any]:
    is_on_gpu = str(run.resolved.device or "cpu").startswith("cuda")
    world = (run.environment.fingerprint_basis or {}).get("world_size", 1)
    hardware = run.environment.hardware
    return {"is_on_gpu": is_on_gpu, "gpus": int(world) if is_on_gpu else 0, "hardware": hardware}


def _start_seconds(directory: RunDirectory) -> float:
    """Return the seconds from the first attempt's start to its first recorded step; 0 where nothing says."""
    started = next(iter(directory.events("started")), None)
    first = directory.metrics().head("train/loss", 1)
    return max(first[0].time - started.time, 0.0) if started is not None and first else 0.0


@dataclass(frozen=True)
class Restart:
    """What a resume of this project's own runs took."""

    seconds: float
    """Median, from the worker's start to the first new step."""
    resumes: int


def measured_restart(evidence: Evidence) -> Restart | None:
    """Return what the project's own resumes took, by the records of its runs; None where none was resumed."""
    found = [seconds for run_id in evidence.facts.started if (run := evidence.run(run_id)) is not None
             for seconds in _resumes(run.directory)]  # fmt: skip
    return Restart(statistics.median(found), len(found)) if found else None


def _resumes(directory: RunDirectory) -> list[float]:
    """Return the seconds of each resume of a run, from the start of its attempt to its first step."""
    events = [event for event in directory.events() if event.kind in {"started", "resumed"}]
    found = []
    for before, event in pairwise(events):
        if (before.kind, event.kind) != ("started", "resumed"):
            continue
        points = directory.metrics().next_points("train/loss", int(event.data.get("step", 0)), 1)
        if points and points[0].time >= before.time:
            found.append(points[0].time - before.time)
    return found


def measured_latency_seconds(evidence: Evidence) -> tuple[float, str] | None:
    """Return the seconds of a prediction of one sample on the exporting machine's processor, and the run's id."""
    run = evidence.newest(RunKind.EXPORT)
    if run is None or not run.is_complete:
        return None
    found = (run.exported.latency_ms or {}).get("batch_size_1_median")
    return (found / 1e3, run.id) if found else None


def checkpoint_bytes(run: RunEvidence) -> tuple[int, int]:
    """Return the bytes of a run's largest checkpoint, and of all that it keeps."""
    sizes = [record.bytes for record in list_checkpoints(run.directory)]
    return max(sizes, default=0), sum(sizes)
