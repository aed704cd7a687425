"""The true peak of one configuration's first steps.

Our engine trains for real: the same assembly, the trial of the first batch, three updates. The peak is counted from
the reports that torch's CPU allocator itself makes to the profiler: one for every block that it hands out and takes
back, kernels' working space included. That is another measure than the estimator's, which follows tensors in Python
and never sees an allocator. Counted from the moment at which the model is built: the data set is not part of it.
"""

from __future__ import annotations

import gc
import tempfile
import time
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile

from trainwright.trainer.assembly.assemble import assemble
from trainwright.trainer.assembly.model import Building
from trainwright.trainer.config import parse_config
from trainwright.trainer.engine.loop import take_step
from trainwright.trainer.reproducibility import determinism
from trainwright.trainer.run import RunDirectory, RunKind, RunSpecification
from trainwright.trainer.run.rank import Placement
from trainwright.trainer.strategies import share
from trainwright.trainer.strategies.group import join
from trainwright.trainer.supervision.stop import StopRequest

STEPS = 3


class Watched(Building):
    """Real parts; the allocator is listened to from the first one on."""

    def __init__(self) -> None:
        self.profiler = profile(activities=[ProfilerActivity.CPU], profile_memory=True)
        self.listening = False

    def model(self) -> AbstractContextManager[object]:
        """Begin to listen."""
        if not self.listening:
            self.listening = True
            self.profiler.__enter__()
        return nullcontext()


def measure(config: dict[str, Any], code_root: Path, rank: int = 0, store: str | None = None) -> dict[str, Any]:
    """Train a few steps; return the peak's bytes, the seconds of the fastest step, and whether all reports came.

    A block whose last owner is a thread of gloo's goes back without one: then more is held than tensors live.

    Args:
        rank: of this process, among those that meet at the file `store`.
    """
    parsed = parse_config(config)
    if store is not None:
        processes = parsed.distributed.processes
        join(Placement(rank, processes, rank, processes, store), parsed)
    determinism.apply_settings(parsed.reproducibility)
    specification = RunSpecification(
        run_id="measured",
        project="bench",
        kind=RunKind.PROBE,
        config=parsed,
        config_digest="",
        code_root=str(code_root),
    )
    building = Watched()
    folder = Path(tempfile.mkdtemp())
    session = assemble(specification, RunDirectory(folder), StopRequest(folder / "stop"), building)
    share(session)
    session.model.train()
    seconds: list[float] = []
    for number, group in enumerate(session.groups()):
        started = time.perf_counter()
        take_step(session, group)
        seconds.append(time.perf_counter() - started)
        if number + 1 == STEPS:
            break
    building.profiler.__exit__(None, None, None)
    highest, held = peak(building.profiler)
    return {"peak_bytes": highest, "step_seconds": min(seconds), "is_whole": held <= living_bytes()}


def living_bytes() -> int:
    """Return the bytes of all tensors of this process."""
    gc.collect()
    storages = {}
    for thing in gc.get_objects():
        if type(thing) in {Tensor, nn.Parameter}:
            storage = thing.untyped_storage()
            storages[storage.data_ptr()] = storage.nbytes()
    return sum(storages.values())


def peak(profiler: Any) -> tuple[int, int]:
    """Return the highest and the last sum of the allocator's reports, in the order in which they were made."""
    events = profiler.profiler.kineto_results.events()
    reports = sorted(
        (event.start_ns(), number, event.nbytes())
        for number, event in enumerate(events)
        if event.name() == "[memory]" and event.device_type() == torch.autograd.DeviceType.CPU
    )
    held = highest = 0
    for _, _, size in reports:
        held += size
        highest = max(highest, held)
    return highest, held
