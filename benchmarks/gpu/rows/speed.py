"""Speed beside bare loops: a small GPT in bf16, compiled; a small MLP, bound by launches; deterministic mode."""

from __future__ import annotations

import statistics
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lane import Lane, check

TEXT_BYTES = 4_000_000


def _gpt(lane: Lane, *, deterministic: bool, compiled: bool) -> dict[str, Any]:
    sizes = {"layers": 6, "heads": 6, "width": 384} if lane.on_card else {"layers": 1, "heads": 2, "width": 32}
    return {
        "model": {"use": "gpt", "args": sizes},
        "data": {"use": "text", "args": {"path": "long.txt", "block_size": 256 if lane.on_card else 32}},
        "loss": "next_token",
        "loader": {"batch_size": 64 if lane.on_card else 4, "pin_memory": True},
        "training": {"precision": "bf16", "clip_norm": 1.0, **({"compile": {}} if compiled else {})},
        "logging": {"every_n_steps": 20, "tensorboard": False},
        "reproducibility": {"deterministic": deterministic},
    }


def _long_text(lane: Lane) -> None:
    import random

    drawn = random.Random(1)
    words = ["".join(drawn.choices("abcdefghijklmnop", k=drawn.randint(2, 9))) for _ in range(2000)]
    size = TEXT_BYTES if lane.on_card else 40_000
    lane.write("long.txt", " ".join(drawn.choices(words, k=size // 6)))


def _synchronize(lane: Lane) -> None:
    import torch

    if lane.on_card:
        torch.cuda.synchronize()


def _engine(lane: Lane, session: Any) -> Iterator[float]:
    """Yield milliseconds a step of windows of 20 steps, with the recorder at work as in a run."""
    from trainwright.trainer.engine.loop import take_step
    from trainwright.trainer.engine.observers.recorder import Recorder
    from trainwright.trainer.engine.trackers import Trackers
    from trainwright.trainer.jobs.probe.rates import endless
    from trainwright.trainer.supervision.sampling import SystemSampler

    recorder = Recorder(session.run.metrics(writer=True), Trackers(session.run, session.config, {}), SystemSampler())
    recorder.start(session)
    session.model.train()
    since = time.perf_counter()
    for number, group in enumerate(endless(session, 10**9), 1):
        recorder.step(session, take_step(session, group))
        if number % 20 == 0:
            _synchronize(lane)
            now = time.perf_counter()
            yield 1e3 * (now - since) / 20
            since = time.perf_counter()


def _bare(lane: Lane, session: Any) -> Iterator[float]:
    """Yield the same of a loop as it is written by hand: the session's model, data and optimizer, and nothing else."""
    import torch
    import torch.nn.functional as F  # noqa: N812 - the field's name for it

    model, device, config = session.model, session.device, session.config
    [optimizer] = [torch.optim.AdamW(model.parameters(), lr=1e-3, fused=lane.on_card)]
    precise = config.training.precision == "fp32"
    rows = [batch for batch, _ in zip(session.train_loader.batches(0), range(200), strict=False)]
    if lane.on_card:  # fetched and pinned beforehand, which the engine's are not
        rows = [tuple(one.pin_memory() for one in batch) for batch in rows]
    model.train()
    since, number = time.perf_counter(), 0
    while True:
        for batch in rows:
            inputs, targets = (one.to(device, non_blocking=True) for one in batch)
            with torch.autocast(device.type, dtype=torch.bfloat16, enabled=not precise):
                output = model(inputs)
                loss = F.cross_entropy(output.flatten(0, -2), targets.flatten())
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            number += 1
            if number % 20 == 0:
                loss.item()
                now = time.perf_counter()
                yield 1e3 * (now - since) / 20
                since = time.perf_counter()


def _interleaved(windows: dict[str, Iterator[float]], rounds: int) -> dict[str, float]:
    """Return the median milliseconds a step of each; they take turns, and the first two windows do not count."""
    found: dict[str, list[float]] = {name: [] for name in windows}
    for number in range(rounds + 2):
        for name, each in windows.items():
            value = next(each)
            if number >= 2:
                found[name].append(value)
    return {name: round(statistics.median(values), 4) for name, values in found.items()}


def _waits(lane: Lane, session: Any, number: int = 10) -> dict[str, float]:
    """Return how often a step waits for the device, by the line of Python: each wait shows its launches."""
    import torch
    from lane import steps

    if not lane.on_card:
        return {}
    steps(session, 2)
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            steps(session, number)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    places = Counter(f"{Path(one.filename).name}:{one.lineno}" for one in caught if "synchroniz" in str(one.message))
    return {place: count / number for place, count in places.most_common(8)}


def _fetching(session: Any, number: int = 200) -> float:
    """Return the milliseconds that it takes to make a batch, pinned where a run pins it, and to do nothing with it."""
    from trainwright.trainer.jobs.probe.rates import endless

    since = time.perf_counter()
    taken = sum(1 for _ in endless(session, number))
    return round(1e3 * (time.perf_counter() - since) / taken, 4)


@check("speed_gpt", 150, alone=True)
def speed_gpt(lane: Lane) -> None:
    """A small GPT in bf16, compiled, through the engine beside a bare loop: at least 0.99 of its speed."""
    _long_text(lane)
    values = _gpt(lane, deterministic=False, compiled=lane.on_card)
    windows = {name: loop(lane, lane.session(name, values)) for name, loop in (("engine", _engine), ("bare", _bare))}
    lane.figures["waits_a_step"] = _waits(lane, lane.session("waiting", values))
    lane.figures["ms_fetching"] = _fetching(lane.session("fetching", values), 200 if lane.on_card else 20)
    found = _interleaved(windows, 8 if lane.on_card else 1)
    lane.figures |= {f"ms_{name}": value for name, value in found.items()}
    lane.goal("of_bare_speed", found["bare"] / found["engine"], least=0.99)


@check("speed_deterministic", 120, alone=True)
def speed_deterministic(lane: Lane) -> None:
    """What deterministic mode costs a GPT and a convolution net in bf16: at most 5 %."""
    _long_text(lane)
    net = {
        "model": {"use": "resnet", "args": {"depth": 20, "width": 64 if lane.on_card else 4}},
        "data": {"use": "digits"},
        "loader": {"batch_size": 256 if lane.on_card else 16},
        "training": {"precision": "bf16"},
    }
    costs = {}
    for name, values in (("gpt", _gpt(lane, deterministic=True, compiled=False)), ("resnet", net)):
        times = {}
        for number in range(2):  # settings are the process's, so these two cannot take turns step by step
            for mode in (True, False):
                wanted = {**values, "reproducibility": {"deterministic": mode}}
                windows = _engine(lane, lane.session(f"{name}-{mode}-{number}", wanted))
                found = [next(windows) for _ in range(6 if lane.on_card else 2)]
                times.setdefault(mode, []).append(statistics.median(found[1:]))
        costs[name] = 100 * (min(times[True]) / min(times[False]) - 1)
        lane.figures[f"{name}_percent"] = round(costs[name], 2)
    lane.goal("largest_cost_percent", max(costs.values()), most=5.0)


@check("speed_mlp", 90, alone=True)
def speed_mlp(lane: Lane) -> None:
    """Steps of a small MLP, bound by launches, through the engine beside a bare loop: at least 0.9 of its speed."""
    values = {"model": {"use": "mlp", "args": {"hidden": [128, 64]}}, "data": {"use": "digits"},
              "loader": {"batch_size": 32}, "training": {"clip_norm": 1.0},
              "logging": {"every_n_steps": 20, "tensorboard": False}}  # fmt: skip
    windows = {name: loop(lane, lane.session(name, values)) for name, loop in (("engine", _engine), ("bare", _bare))}
    lane.figures["ms_fetching"] = _fetching(lane.session("fetching", values), 200 if lane.on_card else 20)
    found = _interleaved(windows, 20 if lane.on_card else 1)
    lane.figures |= {f"ms_{name}": value for name, value in found.items()}
    lane.goal("of_bare_speed", found["bare"] / found["engine"], least=0.9)
