"""Curves: the validation metric by epoch of one configuration, trained whole by the engine, once.

They lie in a folder outside the repository, keyed by the configuration's digest (seed and data are part of it), so a
benchmark that was ended goes on where it was. A run that stops at a rung and is resumed has the same values bit for bit
(`make bench-resume`), so a pruned trial's values are the beginning of its curve.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tasks import METRIC, Task

from trainwright.tools.gates.study_check import epoch_values
from trainwright.trainer.config import TrainingConfig, apply_changes, config_digest, parse_config

if TYPE_CHECKING:
    from collections.abc import Mapping


def default_folder() -> Path:
    """Return the folder of the curves: beside the user's other caches."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "trainwright-bench-tuner"


@dataclass
class Curves:
    """The curves of one task under one seed, by what a trial changes."""

    task: Task
    seed: int
    folder: Path
    trained: int = 0
    """Configurations that were not in the folder."""
    seconds: float = 0.0
    _seen: dict[str, dict[int, float]] = field(default_factory=dict)

    @cached_property
    def base(self) -> dict[str, Any]:
        """The configuration that trials change."""
        return self.task.configuration(self.seed)

    @cached_property
    def code_root(self) -> Path:
        """A folder with the task's files."""
        folder = self.folder / self.task.name / "files"
        folder.mkdir(parents=True, exist_ok=True)
        if not any(folder.iterdir()):
            self.task.prepare(folder)
        return folder

    def __call__(self, parameters: Mapping[str, Any]) -> dict[int, float]:
        """Return value by epoch; a curve that was never trained is trained."""
        config = parse_config(apply_changes(self.base, dict(parameters)))
        digest = config_digest(config)
        if digest not in self._seen:
            self._seen[digest] = self._found_or_trained(config, digest)
        return self._seen[digest]

    def _found_or_trained(self, config: TrainingConfig, digest: str) -> dict[int, float]:
        path = self.folder / self.task.name / f"{digest.rpartition(':')[2]}.json"
        if not path.exists():
            began = time.monotonic()
            values = train(config, self.code_root)
            self.trained, self.seconds = self.trained + 1, self.seconds + time.monotonic() - began
            draft = path.with_suffix(".draft")
            draft.write_text(json.dumps(values))
            draft.replace(path)
        return {int(epoch): float(value) for epoch, value in json.loads(path.read_text()).items()}


def train(config: TrainingConfig, code_root: Path) -> dict[int, float]:
    """Train as a worker does, without its checkpoints and its heartbeat's proofs; return the metric by epoch.

    Raises:
        DivergenceError: the loss is not finite, which the spaces here do not lead to.
    """
    from trainwright.trainer.assembly.assemble import assemble
    from trainwright.trainer.base import seeding
    from trainwright.trainer.engine.loop import train as train_engine
    from trainwright.trainer.engine.observers.checkpointing import Selection
    from trainwright.trainer.engine.observers.observer import Observers
    from trainwright.trainer.engine.observers.recorder import Recorder, Reporter
    from trainwright.trainer.engine.trackers import trackers_of
    from trainwright.trainer.reproducibility import determinism
    from trainwright.trainer.run import RunDirectory, RunKind, RunSpecification
    from trainwright.trainer.supervision.heartbeat import Heartbeat
    from trainwright.trainer.supervision.sampling import SystemSampler
    from trainwright.trainer.supervision.stop import StopRequest

    with tempfile.TemporaryDirectory() as scratch:
        specification = RunSpecification(
            run_id="run", project="tuner", kind=RunKind.TRIAL, config=config, config_digest=config_digest(config),
            code_root=str(code_root),
        )  # fmt: skip
        directory = RunDirectory.create(Path(scratch) / "run", specification)
        determinism.apply_settings(config.reproducibility)
        seeding.seed_everything(config.seed)
        stop = StopRequest(directory.path / "stop_reason")
        session = assemble(specification, directory, stop)
        recorder = Recorder(directory.metrics(writer=True), trackers_of(session), SystemSampler())
        observers = Observers(
            [recorder, Selection(), Reporter(Heartbeat(directory, specification, 1, stop))], lambda _stage: None
        )
        try:
            train_engine(session, observers)
        finally:
            observers.close()
        return epoch_values(directory, METRIC)
