"""Groups of processes on the device."""

from __future__ import annotations

import json
import socket
from typing import Any

from lane import RESUMED, Lane, check, differences, scenario

from trainwright.trainer.base import releases


def _group_of_one(lane: Lane, strategy: str) -> None:
    values: dict[str, Any] = {**scenario("augmented data, batch norm, dropout"), "distributed": {"strategy": strategy}}
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    placed = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1",
              "MASTER_PORT": port}  # fmt: skip
    whole = lane.work(lane.make("whole/killed", values, code_root=str(RESUMED)), **placed)
    states = [json.loads(path.read_text()) for path in whole.checkpoints.rglob("state.json")]
    assert states, whole.checkpoints
    assert all("ranks" in state for state in states), "no group was joined"
    run = lane.make("run/killed", values, code_root=str(RESUMED))
    lane.work(run, "step", "17", **placed)
    lane.work(run, **placed)
    assert not (found := differences(run, whole)), found


@check("ddp", 90)
def ddp(lane: Lane) -> None:
    """DDP in a group of one (NCCL on a card): trains, is killed, resumes to the same bits."""
    _group_of_one(lane, "ddp")


@check("fsdp2", 90, newer=releases.FSDP2)
def fsdp2(lane: Lane) -> None:
    """FSDP2 in a group of one (NCCL on a card): trains, is killed, resumes to the same bits."""
    _group_of_one(lane, "fsdp2")
