"""TensorBoard: event files in the run's folder `tensorboard`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainwright.trainer.config import TrainingConfig
from trainwright.trainer.run import RunDirectory


class TensorBoard:
    """Writes events through the writer of PyTorch, whose thread puts them into the file."""

    _writer: Any

    def start(self, run: RunDirectory, config: TrainingConfig) -> None:  # noqa: ARG002 - it shows numbers alone
        """Open an event file beside those of earlier attempts."""
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(run.path / "tensorboard"), max_queue=200, flush_secs=10)

    def log(self, values: Mapping[str, float], step: int, time: float) -> None:
        """Write the values as one event, of which add_scalar would make several."""
        from tensorboard.compat.proto.summary_pb2 import Summary

        numbers = [Summary.Value(tag=key, simple_value=value) for key, value in values.items()]
        self._writer.file_writer.add_summary(Summary(value=numbers), step, time)

    def close(self) -> None:
        """Wait for the thread."""
        self._writer.close()
