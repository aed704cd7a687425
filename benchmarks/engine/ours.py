"""The engine as a worker runs it: heartbeat, sampler, recorder with TensorBoard, selection, checkpoints."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from clock import Moment, now
from workload import CLIP_NORM, LEARNING_RATE, LOG_EVERY, Workload


def values_of(workload: Workload, folder: Path, *, deterministic: bool = False) -> dict[str, Any]:
    """Return the configuration: everything on that is recorded, judged or saved."""
    return {
        "model": {"use": "mlp", "args": {"hidden": list(workload.hidden)}},
        "data": {
            "use": "npz",
            "args": {"path": str(workload.save(folder)), "standardize": False},
            "split": {"validation": 0.02, "test": 0.0, "stratify": False},
        },
        "metrics": ["accuracy"],
        "selection": {"metric": "accuracy", "direction": "maximize"},
        "optimizer": {"name": "adamw", "learning_rate": LEARNING_RATE, "decay_norms_and_biases": True},  # one group
        "schedule": {"name": "cosine", "warmup_fraction": 0.05},
        "loader": {"batch_size": workload.batch_size},
        "training": {"epochs": 1, "clip_norm": CLIP_NORM},
        "logging": {"every_n_steps": LOG_EVERY, "tensorboard": True},
        "reproducibility": {"deterministic": deterministic},
    }


def train(workload: Workload, number: int, *, deterministic: bool = False) -> list[Moment]:
    """Train one epoch as a worker does; return the moment after each step."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        return run(folder, {**values_of(workload, folder, deterministic=deterministic), "seed": number})


Between = Callable[[int, Sequence[Any]], None]
"""What is called before the first step and after each: with the number of steps so far, and the watch's observers."""


def run(
    folder: Path, values: dict[str, Any], code_root: Path | None = None, between: Between = lambda _steps, _watch: None
) -> list[Moment]:
    """Assemble and train what the configuration says, with all of a worker's observers.

    The run is written into `folder`; data and code lie there too unless `code_root` says otherwise.
    """
    from trainwright.tools.training_monitor.documents import watched_by_worker
    from trainwright.trainer.assembly.assemble import assemble
    from trainwright.trainer.config import config_digest, parse_config
    from trainwright.trainer.engine.loop import train as train_engine
    from trainwright.trainer.engine.observers.checkpointing import Checkpointing, Selection
    from trainwright.trainer.engine.observers.observer import Observer, Observers
    from trainwright.trainer.engine.observers.recorder import Recorder, Reporter
    from trainwright.trainer.engine.trackers import trackers_of
    from trainwright.trainer.frameworks.loop import train as train_framework
    from trainwright.trainer.reproducibility import determinism
    from trainwright.trainer.run import RunDirectory, RunKind, RunSpecification, RunState
    from trainwright.trainer.supervision.heartbeat import Heartbeat
    from trainwright.trainer.supervision.sampling import SystemSampler
    from trainwright.trainer.supervision.stop import StopRequest
    from trainwright.trainer.watch.watch import watching

    class Clock(Observer):
        """Last of the observers: what it sees is the whole step."""

        def start(self, session: Any) -> None:  # noqa: ARG002 - the moment's form
            between(0, before)

        def step(self, session: Any, result: Any) -> None:  # noqa: ARG002 - the moment's form
            ends.append(now())
            between(len(ends), before)

    ends: list[Moment] = []
    config = parse_config(values)
    specification = RunSpecification(
        run_id="run", project="bench", kind=RunKind.TRIAL, config=config, config_digest=config_digest(config),
        code_root=str(code_root or folder), watch=watched_by_worker(),
    )  # fmt: skip
    directory = RunDirectory.create(folder / "run", specification)
    stop = StopRequest(directory.path / "stop_reason")
    determinism.apply_settings(config.reproducibility)
    heartbeat, sampler = Heartbeat(directory, specification, 1, stop), SystemSampler()
    heartbeat.start()
    session = assemble(specification, directory, stop)
    recorder = Recorder(directory.metrics(writer=True), trackers_of(session), sampler)
    before, after = watching(session, recorder)
    watched = [*before, recorder, *after, Selection(), Reporter(heartbeat), Checkpointing(), Clock()]
    observers = Observers(watched, heartbeat.stage)
    sampler.start()
    try:
        (train_engine if session.work.framework is None else train_framework)(session, observers)
    finally:
        sampler.close()
        observers.close()
        heartbeat.end(RunState.COMPLETED, stop_reason="completed")
    return ends
