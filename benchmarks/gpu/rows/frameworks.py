"""Trainers of other libraries as they are, on the device, killed and resumed."""

from __future__ import annotations

import signal
import time
from typing import Any

from lane import RESUMED, Lane, check, differences, scenario

from trainwright.trainer.base import releases


def _killed(lane: Lane, name: str, *, after: int = 5) -> None:
    values: dict[str, Any] = scenario(name)
    whole = lane.trained("whole/killed", values, code_root=str(RESUMED))
    run = lane.make("run/killed", values, code_root=str(RESUMED))
    process = lane.begin(run)
    while process.poll() is None and run.last_status().step < after:
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL, "it ended before it could be killed"
    lane.figures["killed_at_step"] = run.last_status().step
    lane.work(run)
    assert not (found := differences(run, whole)), found


@check("trainer", 120, newer=releases.TRAINER)
def trainer(lane: Lane) -> None:
    """transformers.Trainer, killed and resumed: the same bits."""
    _killed(lane, "trainer")


@check("lightning", 120, needs=("lightning",))
def lightning(lane: Lane) -> None:
    """A LightningModule, killed and resumed: the same bits."""
    _killed(lane, "lightning")


@check("trl", 120, needs=("trl", "datasets"), newer=releases.TRAINER)
def trl(lane: Lane) -> None:
    """TRL's SFTTrainer, killed and resumed: the same bits."""
    _killed(lane, "sft")
