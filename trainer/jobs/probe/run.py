"""A probe run: everything is measured on the real work, put back after each part, and nothing is saved."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

from trainwright.trainer.base.errors import ConfigurationError, DivergenceError
from trainwright.trainer.engine.components import snapshot, untouched
from trainwright.trainer.engine.loop import take_step
from trainwright.trainer.engine.memory import explained_shortage
from trainwright.trainer.engine.observers.recorder import Recorder
from trainwright.trainer.engine.session import Progress, Session
from trainwright.trainer.engine.trackers import Trackers
from trainwright.trainer.jobs.probe import rates
from trainwright.trainer.jobs.probe.rates import endless, profile
from trainwright.trainer.jobs.probe.sizes import find_batch_size
from trainwright.trainer.optimization.schedules import planned_schedule, plot_schedule
from trainwright.trainer.run import RunState
from trainwright.trainer.run.results import Probe, Profile, RateTest, Suggestion, ThreadTest
from trainwright.trainer.supervision.heartbeat import Heartbeat
from trainwright.trainer.supervision.sampling import SystemSampler, allowed_cores

PROFILED_STEPS = 20
SWEPT_STEPS = 100
PLOT = "learning_rate_range.png"
SCHEDULE_PLOT = "planned_schedule.png"
CLOSE = 3.0
"""A configured rate within this factor of the suggested one is left as it is."""


def probe(session: Session, heartbeat: Heartbeat) -> str:
    """Measure and write the `probe` evidence; return the stop reason. The configuration's bounds do not apply.

    Raises:
        ConfigurationError: a library's own loop makes the steps.
        OutOfMemoryError: not even the configured batch fits. And the user code's errors.
    """
    if session.work.framework is not None:
        raise ConfigurationError(
            "A probe repeats single steps and puts them back, which a handed-over trainer's own loop does not allow.",
            remedy="start_training(project, kind='smoke') measures its throughput and memory.",
            document="configs/own_trainer.md",
        )
    steps = session.specification.max_steps or PROFILED_STEPS
    session.step_bound = None
    session.weight_observers = []
    session.model.train()
    heartbeat.set(state=RunState.RUNNING, stage="measuring steps", total_steps=steps)
    tests: dict[str, Suggestion] = {}
    with explained_shortage(session):
        with put_back(session):
            profiled = _profiled(session, steps)
        if not session.stop.asked:
            heartbeat.stage("sweeping rates")
            with put_back(session):
                tests["learning_rate"] = _swept(session)
    if not session.stop.asked:
        heartbeat.stage("trying batch sizes")
        with put_back(session):
            tests["batch_size"] = find_batch_size(session)
    if not session.stop.asked:
        heartbeat.stage("trying threads")
        with put_back(session):
            tests["threads"] = find_threads(session)
    rate = tests["learning_rate"].suggested if "learning_rate" in tests else None
    changes = suggested_changes(session, profiled, rate)
    if (threads := tests["threads"].suggested if "threads" in tests else None) is not None:
        changes["reproducibility.threads"] = threads
    session.run.write_evidence(Probe(profile=profiled, schedule_plot=_planned(session), changes=changes, **tests))
    heartbeat.set(step=profiled.steps)
    return session.stop.reason if session.stop.asked else "completed"


def _profiled(session: Session, steps: int) -> Profile:
    sampler = SystemSampler(gpus=int(session.device.type == "cuda"))
    recorder = Recorder(session.run.metrics(writer=True), Trackers(session.run, session.config, {}), sampler)
    try:
        recorder.start(session)
        return profile(session, recorder, steps)
    finally:
        recorder.close()


def _swept(session: Session) -> RateTest:
    if session.rule.is_users:
        return RateTest(suggested=None, why="train_step sets its own rates", points=[])
    found = rates.sweep(session, SWEPT_STEPS)
    if not found.points:
        return found
    present = max(rate for own in session.base_rates.values() for rate in own)
    return found.model_copy(update={"plot": rates.plot(found, session.run.artifacts / PLOT, present).name})


def _planned(session: Session) -> str:
    peak = max(rate for own in session.base_rates.values() for rate in own)
    points = planned_schedule(session.config.schedule, session.total_steps, peak)
    return plot_schedule(points, session.run.artifacts / SCHEDULE_PLOT).name


def suggested_changes(session: Session, profiled: Profile, rate: float | None) -> dict[str, Any]:
    """Return the changes that can be made without another thought: a far-off rate, and the bottleneck's remedy.

    A larger batch is suggested beside them only: it changes the training of an epoch.
    """
    changes = dict(profiled.bottleneck.changes)
    held = session.config.optimizer.rate()
    if rate is not None and held is not None and not held[1] / CLOSE <= rate <= held[1] * CLOSE:
        changes[held[0]] = rate
    return changes


@contextmanager
def put_back(session: Session) -> Iterator[None]:
    """Begin at the run's beginning, and leave model, optimizers, generators and position as they were."""
    schedule, loader = session.schedule, session.train_loader
    with snapshot(session.components, "optimizers", "scaler", "progress", "totals"):
        session.progress.load_state_dict(Progress().state_dict())
        session.totals.reset()
        with untouched(session):
            yield
    session.schedule, session.train_loader = schedule, loader
    session.context.epoch, session.context.step = session.progress.epoch, session.progress.step


# Threads of the CPU: how many a step is fastest with, measured in turns, and put back.
#
# Each number gives other last bits, so the number is a part of the configuration, and is changed before a baseline.

WORTH_IT = 1.2
"""So much faster a step must be to suggest another number."""
NEARLY = 1.1
"""A number within this factor of the fastest is as good: fewer threads leave cores to others."""
ROUNDS, STEPS = 3, 4
MAX_SECONDS = 20.0


def find_threads(session: Session) -> ThreadTest:
    """Time steps with one thread, two, four, … up to the cores that this process may use; return what helps."""
    present, cores = session.config.reproducibility.threads, max(1, int(allowed_cores()))
    if session.device.type != "cpu":
        return ThreadTest(why="the steps are computed on a GPU")
    counts = sorted({present, cores, *(2**power for power in range(cores.bit_length()))})
    if len(counts) == 1:
        return ThreadTest(why="this process may use one core")
    try:
        found = _timed(session, counts)
    finally:
        torch.set_num_threads(present)
    milliseconds = {count: round(1e3 * statistics.median(times), 3) for count, times in found.items() if times}
    return ThreadTest(tried=milliseconds, **suggestion(milliseconds, present))


def suggestion(milliseconds: Mapping[int, float], present: int) -> dict[str, object]:
    """Return the fewest threads that are nearly as fast as the fastest, where they are worth the change."""
    if len(milliseconds) < 2 or present not in milliseconds:
        return {"suggested": None, "why": "too few steps could be taken to try several numbers"}
    fastest = min(milliseconds.values())
    fewest = min(count for count, each in milliseconds.items() if each <= NEARLY * fastest)
    gain = milliseconds[present] / milliseconds[fewest]
    if fewest == present or gain < WORTH_IT:
        return {"suggested": None, "why": f"{present} are nearly as fast as any number up to {max(milliseconds)}"}
    return {"suggested": fewest, "why": f"a step is {gain:.2g} times as fast as with {present}"}


def _timed(session: Session, counts: list[int]) -> dict[int, list[float]]:
    """Return the seconds of steps by number of threads, which take turns; the first step of each turn is left out.

    It ends early where time is up or training diverges, with what was measured until then.
    """
    found: dict[int, list[float]] = {count: [] for count in counts}
    started, groups = time.monotonic(), endless(session, ROUNDS * len(counts) * (STEPS + 1))
    for count in counts * ROUNDS:
        torch.set_num_threads(count)
        for step in range(STEPS + 1):
            is_late = time.monotonic() - started > MAX_SECONDS
            if is_late or session.stop.asked or (group := next(groups, None)) is None:
                return found
            since = time.perf_counter()
            try:
                take_step(session, group)
            except DivergenceError:
                return found
            found[count] += [time.perf_counter() - since] if step else []
    return found
