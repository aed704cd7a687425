"""What the driver says of a run, and the limits that follow from it."""

from __future__ import annotations

from typing import Any

from lane import Lane, check

from rows.foundations import CNN

BUSY = """
import torch
from torch import nn
class Busy(nn.Module):
    '''One small layer many times: much to compute, and little to save at an epoch's end.'''
    def __init__(self, width, times):
        super().__init__()
        self.layer, self.head, self.times = nn.Linear(width, width), nn.Linear(width, 2), times
    def forward(self, x):
        for _ in range(self.times):
            x = x + 0.01 * torch.tanh(self.layer(x))
        return self.head(x)
def rows(width, count=8192):
    x = torch.randn(count, width, generator=torch.Generator().manual_seed(0))
    return torch.utils.data.TensorDataset(x, (x[:, 0] > 0).long())
class Slow(torch.utils.data.Dataset):
    def __init__(self, width=64):
        self.x = torch.randn(640, width)
    def __len__(self):
        return len(self.x)
    def __getitem__(self, index):
        import time
        time.sleep(0.001)
        return self.x[index], int(self.x[index, 0] > 0)
"""


def _trained(lane: Lane, name: str, steps: int, data: dict[str, Any], batch: int, **model: int) -> Any:
    values = {"model": {"use": "busy.py:Busy", "args": model}, "data": data, "loader": {"batch_size": batch},
              "training": {"epochs": 10_000, "max_steps": steps, "validate_every_n_epochs": 20},
              "early_stopping": {"enabled": False}}  # fmt: skip
    return lane.trained(name, values)


@check("utilisation", 90, alone=True)
def utilisation(lane: Lane) -> None:
    """NVML's figures over a run that keeps the card busy and over one that waits for data; the latter is told apart."""
    from trainwright.trainer.run.evidence import Summary

    lane.write("busy.py", BUSY)
    width, times = (4096, 200) if lane.on_card else (64, 4)
    rows = {"use": "busy.py:rows", "args": {"width": width}}
    busy = _trained(lane, "busy", 75 if lane.on_card else 10, rows, 512, width=width, times=times)
    waiting = _trained(lane, "waiting", 150 if lane.on_card else 20, {"use": "busy.py:Slow"}, 64, width=64, times=1)
    for run in (busy, waiting):
        summary = run.part(Summary)
        lane.figures[run.run_id] = {
            "gpu_percent": summary.gpu_percent_mean, "gpus": summary.gpus_sampled,
            "data_wait": summary.data_wait_fraction,
        }  # fmt: skip
    assert waiting.part(Summary).data_wait_fraction > 0.5
    if lane.on_card:
        assert busy.part(Summary).gpus_sampled == 1
        assert waiting.part(Summary).gpu_percent_mean < min(60, busy.part(Summary).gpu_percent_mean - 20)
        keys = {key.removeprefix("system/") for key in busy.metrics().keys() if key.startswith("system/gpu")}  # noqa: SIM118
        assert {"gpu_percent", "gpu_memory_bytes", "gpu0_percent"} <= keys, keys
        lane.figures["power_watts"] = _last(busy, "system/gpu0_power_watts")
        lane.figures["temperature_celsius"] = _last(busy, "system/gpu0_temperature_celsius")
        lane.goal("busy_gpu_percent", busy.part(Summary).gpu_percent_mean, least=70)


def _last(run: Any, key: str) -> float | None:
    point = run.metrics().last(key)
    return None if point is None else round(point.value, 1)


@check("gpu_hours", 60, only_on_card="GPU hours count devices")
def gpu_hours(lane: Lane) -> None:
    """GPU hours that are used up end the worker with a checkpoint, and what it used is what it may."""
    from trainwright.trainer.run import Limits, RunState

    values = {**CNN, "training": {"epochs": 100_000}, "early_stopping": {"enabled": False}}
    run = lane.trained("run", values, limits=Limits(gpu_hours=15.0 / 3600))
    status = run.status()
    assert (status.state, status.stop_reason) == (RunState.STOPPED, "gpu_hours_limit")
    assert (run.checkpoints / f"step-{status.step:08d}" / "manifest.json").exists()
    lane.figures["seconds_worked"] = round(run.seconds_worked(), 1)
    assert 15 <= run.seconds_worked() < 30


@check("inventory", 60, only_on_card="there is no driver to ask")
def inventory(lane: Lane) -> None:
    """NVML's inventory agrees with torch: names, memory, identity; and doctor shows it."""
    import subprocess
    import sys

    import torch

    from trainwright.server import cli
    from trainwright.tools.gpus.inventory import machine_gpus
    from trainwright.trainer.supervision.sampling import open_gpus, reading_of

    found = {device.gpu.id.removeprefix("GPU-"): device for device in machine_gpus()}
    names = set()
    for number in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(number)
        device = found[str(properties.uuid)]
        assert device.gpu.name == properties.name
        assert 0 < device.free_bytes <= device.gpu.memory_bytes
        names.add(properties.name)
    [handle] = open_gpus(1)
    reading = reading_of(handle)
    assert reading["gpu_memory_bytes"] > 0
    assert 0 <= reading["gpu_percent"] <= 100
    assert reading.keys() <= {
        "gpu_memory_bytes", "gpu_percent", "power_watts", "temperature_celsius", "throttled", "power_capped",
    }  # fmt: skip
    command = [sys.executable, "-P", "-m", cli.__name__, "doctor"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=lane.folder, check=False)
    assert names, found
    assert all(name in done.stdout for name in names), done.stdout[-2000:] + done.stderr[-1000:]
    lane.figures["gpus"] = [f"{device.gpu.name}, {device.gpu.memory_bytes >> 30} GiB" for device in found.values()]
