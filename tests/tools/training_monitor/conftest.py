"""Run directories written as a worker writes them, with curves that a test chooses."""

from __future__ import annotations

import shutil

import pytest

from trainwright.tools.training_monitor import DOCUMENTS
from trainwright.trainer.config import config_digest, parse_config
from trainwright.trainer.run import RunDirectory, RunKind, RunSpecification, RunState, RunStatus

VALUES = {
    "model": {"use": "mlp", "args": {"dropout": 0.1}},
    "data": {"use": "digits"},
    "metrics": ["accuracy"],
    "selection": {"metric": "accuracy", "direction": "maximize"},
}


class Recorder:
    """Writes one run's record. Epoch series are lists, one value per epoch, `steps_per_epoch` steps apart."""

    def __init__(self, run, steps_per_epoch=10):
        self.run = run
        self.steps_per_epoch = steps_per_epoch

    def epochs(self, **series):
        """Record `train_loss`, `validation_loss`, `train_accuracy`, … by epoch."""
        names = {"train_loss": "train/epoch_loss"}
        count = max(len(values) for values in series.values())
        rows = [("epoch", e * self.steps_per_epoch, float(e), 0.0) for e in range(1, count + 1)]
        for name, values in series.items():
            key = names.get(name, name.replace("_", "/", 1))
            rows += [(key, e * self.steps_per_epoch, v, 0.0) for e, v in enumerate(values, start=1)]
        return self._write(rows)

    def steps(self, key, values, first=1):
        """Record one value per optimizer step."""
        return self._write([(key, step, value, 0.0) for step, value in enumerate(values, start=first)])

    def _write(self, rows):
        with self.run.metrics(writer=True) as metrics:
            metrics.write(rows)
        return self

    def ended(self, state=RunState.COMPLETED, **fields):
        """Write the last status."""
        self.run.write_status(RunStatus(state=state, **fields))
        return self


@pytest.fixture
def make_run(tmp_path):
    """Make a run directory; keyword arguments are laid over the configuration's sections."""

    def make(name="baseline-digits-1", kind=RunKind.BASELINE, steps_per_epoch=10, goal=None, chosen=(), **sections):
        config = parse_config({**VALUES, **sections})
        specification = RunSpecification(
            run_id=name,
            project="digits",
            kind=kind,
            config=config,
            config_digest=config_digest(config),
            code_root=str(tmp_path),
            goal=goal,
            chosen=list(chosen),
        )
        run = RunDirectory.create(tmp_path / name, specification)
        return Recorder(run, steps_per_epoch).ended()

    return make


@pytest.fixture
def healthy(make_run):
    """A run with nothing wrong: it learned, generalises, and its curves are flat at the end."""

    def make(name="healthy", **sections):
        losses = [1.0, 0.5, 0.3, 0.2, 0.15, 0.12, 0.11, 0.109, 0.108, 0.107]
        recorder = make_run(name, **sections)
        recorder.steps("train/loss", [2.3] * 5 + [0.5] * 95)
        recorder.steps("train/gradient_norm", [1.0] * 100)
        return recorder.epochs(
            train_loss=losses,
            validation_loss=[loss + 0.02 for loss in losses],
            train_accuracy=[0.7 + 0.03 * e for e in range(10)],
            validation_accuracy=[0.69 + 0.03 * e for e in range(10)],
        )

    return make


@pytest.fixture
def documents(tmp_path):
    """A copy of the diagnostic documents that a test may change."""
    return shutil.copytree(DOCUMENTS, tmp_path / "diagnostics")
