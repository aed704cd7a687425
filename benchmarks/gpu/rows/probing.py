"""Finders and profiler on the device."""

from __future__ import annotations

from lane import Lane, check

PROJECT = """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self, width=256):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
                                    nn.Linear(width, 10))
    def forward(self, x):
        return self.layers(x.flatten(1))
"""


@check("probe", 120, alone=True)
def probe(lane: Lane) -> None:
    """Batch-size finder, learning-rate range test, and the profiler with the bottleneck named."""
    from trainwright.trainer.run import RunKind
    from trainwright.trainer.run.results import Probe

    lane.write("net.py", PROJECT)
    values = {"model": {"use": "net.py:Net"}, "data": {"use": "digits"}, "loader": {"batch_size": 32}}
    run = lane.trained("probe", values, kind=RunKind.PROBE)
    found = run.part(Probe)
    tried = found.batch_size.tried
    lane.figures |= {
        "step_ms": found.profile.step_ms, "phases_percent": found.profile.phases_percent,
        "bottleneck": found.profile.bottleneck.phase, "suggested_batch": found.batch_size.suggested,
        "suggested_rate": found.learning_rate.suggested, "tried": tried, "ended": found.batch_size.why,
    }  # fmt: skip
    assert found.profile.bottleneck.phase
    assert abs(sum(found.profile.phases_percent.values()) - 100) < 1
    assert len(tried) > 1
    assert 1e-5 < (found.learning_rate.suggested or 0) < 1
    peaks = [one["peak_memory_bytes"] for one in tried if "peak_memory_bytes" in one]
    assert not lane.on_card or peaks == sorted(peaks)


@check("trace", 60)
def trace(lane: Lane) -> None:
    """A trace of PyTorch's profiler holds the device's kernels."""
    import gzip
    import json

    lane.write("net.py", PROJECT)
    values = {"model": {"use": "net.py:Net"}, "data": {"use": "digits"}, "training": {"epochs": 1},
              "logging": {"trace_steps": 3, "tensorboard": False}}  # fmt: skip
    run = lane.trained("traced", values)
    [path] = run.path.rglob("*.pt.trace.json.gz")
    text = gzip.decompress(path.read_bytes())
    kinds = {event.get("cat") for event in json.loads(text)["traceEvents"]}
    assert ("kernel" in kinds) == lane.on_card, kinds
