"""TensorBoard: event files in the run's folder `tensorboard`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainwright.trainer.config import TrainingConfig, flatten
from trainwright.trainer.run import Event, RunDirectory

PLAIN = (bool, int, float, str)
"""Values that TensorBoard's table takes as they are."""


class TensorBoard:
    """Writes events through the writer of PyTorch, whose thread puts them into the file."""

    _writer: Any

    def start(self, run: RunDirectory, config: TrainingConfig) -> None:
        """Open an event file beside those of earlier attempts, with the hyperparameters for the page's table."""
        from torch.utils.tensorboard import SummaryWriter
        from torch.utils.tensorboard.summary import hparams

        self._writer = SummaryWriter(str(run.path / "tensorboard"), max_queue=200, flush_secs=10)
        values = flatten(config.model_dump(mode="json", exclude={"search"}))
        plain = {key: value if isinstance(value, PLAIN) else str(value) for key, value in values.items()}
        judged = dict.fromkeys(("validation/loss", f"validation/{config.selection.metric}"), 0.0)
        for summary in hparams(plain, judged)[:2]:  # the table's columns, and this run's values; its end comes with it
            self._writer.file_writer.add_summary(summary)

    def log(self, values: Mapping[str, float], step: int, time: float) -> None:
        """Write the values as one event, of which add_scalar would make several."""
        from tensorboard.compat.proto.summary_pb2 import Summary

        numbers = [Summary.Value(tag=key, simple_value=value) for key, value in values.items()]
        self._writer.file_writer.add_summary(Summary(value=numbers), step, time)

    def alert(self, event: Event) -> None:
        """Write an alert or a finding as a text under its id."""
        facts = "\n".join(f"- {name}: {value}" for name, value in event.data.items() if value not in (None, [], ""))
        name = f"{event.kind}/{event.data.get('id', 'unnamed')}"
        self._writer.add_text(name, facts, event.data.get("step"), walltime=event.time)

    def close(self) -> None:
        """Wait for the thread."""
        self._writer.close()
