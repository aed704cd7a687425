"""Memory of the device: recorded, estimated, and what is advised when it runs out."""

from __future__ import annotations

import gc
from typing import Any

from lane import ROOT, Lane, check, importable, steps

PAIRS = (
    "gpt2 3 M / full fp32, AdamW", "gpt2 3 M / recomputed", "llama 3 M / full bf16, AdamW", "llama 3 M / LoRA bf16",
    "llama 3 M / Adafactor", "llama 3 M, 1024 tokens / recomputed", "llama 18 M, 32k words / full fp32, AdamW",
    "bert 4 M / SGD, momentum", "resnet-20 w64 / full bf16, AdamW", "mlp 9 M / full fp32, AdamW",
)  # fmt: skip
MEMORY = ROOT / "benchmarks" / "memory"


@check("memory_estimate", 240, alone=True)
def memory_estimate(lane: Lane) -> None:
    """The allocator's peak on ten pairs of model and strategy: within 3 % of the trace, below trace and margin."""
    from trainwright.trainer.config import parse_config
    from trainwright.trainer.estimation.memory import CONTEXT_BYTES, estimate

    with importable(MEMORY):
        from pairs import pairs, write_data

    write_data(lane.folder)
    errors: dict[str, float] = {}
    rooms: list[float] = []
    for pair in (one for one in pairs() if one.name in PAIRS):
        config = parse_config(lane.config(pair.config))
        (folder := lane.folder / pair.name.replace("/", "-")).mkdir()
        found = estimate(config, lane.folder, folder, device_kind=lane.device).memory
        bound = found.peak_bytes - CONTEXT_BYTES[lane.device]
        traced = bound - found.parts["margin"]
        measured = _peak(lane, pair.name, pair.config) if lane.on_card else _peak_on_cpu(lane, pair.config)
        errors[pair.name], room = (100 * (each / measured - 1) for each in (traced, bound))
        rooms.append(room)
        lane.figures[pair.name] = {
            "measured_mib": round(measured / 2**20, 1), "error_percent": round(errors[pair.name], 2),
            "with_margin_percent": round(room, 2),
        }  # fmt: skip
    assert len(errors) == len(PAIRS)
    lane.goal("largest_error_percent", max(map(abs, errors.values())), most=3.0, always=True)
    lane.goal("least_room_percent", min(rooms), least=0.0, always=True)


def _peak(lane: Lane, name: str, values: dict[str, Any]) -> int:
    """Return the most bytes that the allocator held in three steps."""
    import torch

    gc.collect()
    torch._C._cuda_clearCublasWorkspaces()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    session = lane.session(name.replace("/", "-") + "-measured", values)
    steps(session, 3)
    peak = int(torch.cuda.max_memory_allocated()) - before
    del session
    return peak


def _peak_on_cpu(lane: Lane, values: dict[str, Any]) -> int:
    """Return the same of the CPU's allocator, by its own reports."""
    with importable(MEMORY):
        from measure import measure

    return int(measure(lane.config(values), lane.folder)["peak_bytes"])


@check("memory_recorded", 60, only_on_card="there is no allocator of a device")
def memory_recorded(lane: Lane) -> None:
    """Bytes allocated and reserved are recorded over a run, and its peak is that of the allocator."""
    from rows.foundations import CNN
    from trainwright.trainer.run.evidence import Summary

    run = lane.trained("run", {**CNN, "logging": {"every_n_steps": 5, "tensorboard": False}})
    allocated, reserved = (
        [point.value for point in run.metrics().series(f"system/gpu_memory_{kind}_bytes")]
        for kind in ("allocated", "reserved")
    )
    peak = run.part(Summary).peak_memory_bytes
    assert len(allocated) > 3
    assert all(0 < one <= whole for one, whole in zip(allocated, reserved, strict=True))
    assert max(allocated) <= peak <= max(reserved)
    lane.figures |= {"peak_mib": round(peak / 2**20, 1), "reserved_mib": round(max(reserved) / 2**20, 1)}


BOUND = """
import torch
torch.cuda.set_per_process_memory_fraction({bytes} / torch.cuda.get_device_properties(0).total_memory)
"""


@check("out_of_memory", 90, needs=("pytest",), only_on_card="tests/trainer/acceleration plays it on the CPU")
def out_of_memory(lane: Lane) -> None:
    """A run that asks for more than the card gives says what would fit, and that fits."""
    with importable(ROOT):
        from tests.trainer.acceleration.test_shortage import HUNGRY

    lane.write("hungry.py", BOUND.format(bytes=1 << 29) + HUNGRY)
    values: dict[str, Any] = {"model": {"use": "hungry:Hungry"}, "data": {"use": "hungry:data"},
                              "loader": {"batch_size": 256}, "training": {"epochs": 1}}  # fmt: skip
    failure = lane.work(lane.make("whole", values), expected=1).status().failure
    assert failure.category == "out_of_memory", failure.message
    changes = failure.details["changes"]
    size, parts = changes["loader.batch_size"], changes["training.accumulation_steps"]
    assert size * parts == 256
    lane.figures |= {"advised_batch": size, "message": failure.message}
    lane.trained("advised", {**values, "loader": {"batch_size": size},
                             "training": {"epochs": 1, "accumulation_steps": parts}})  # fmt: skip


def _allocated() -> int:
    import torch

    gc.collect()
    return int(torch.cuda.memory_allocated())


@check("memory_leak", 60)
def memory_leak(lane: Lane) -> None:
    """Two hundred steps and ten validations later the device holds as much as after twenty steps."""
    from rows.foundations import CNN
    from trainwright.trainer.engine.evaluation import evaluate_split

    with importable(MEMORY):
        from measure import living_bytes

    session, held = lane.session("run", {**CNN, "loader": {"batch_size": 64}}), []
    for _ in range(10):
        steps(session, 20)
        session.totals.reset()
        evaluate_split(session, session.validation_loader)
        held.append(_allocated() if lane.on_card else living_bytes())
    lane.figures["held_mib"] = round(held[-1] / 2**20, 2)
    assert 0 < held[-1] <= held[0] + (64 << 10), held
