"""Real runs for the engine's tests: run directories, and workers as their own processes.

Most workers here are forked from the test process, which has imported torch already: a run then takes half a second.
Those whose start matters are started as the orchestrator starts them (`started`).
"""

from __future__ import annotations

import gc
import importlib.util
import itertools
import os
import signal
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.scheduling import polars_has_worked
from tests.trainer.users import MINE, PARTS
from tests.worlds.warm import import_for_worker, proving_by

from trainwright.trainer.run import RunDirectory
from trainwright.trainer.run.environment import launch_environment

_spec = importlib.util.spec_from_file_location("start_a_run", Path(__file__).with_name("start_a_run.py"))
assert _spec is not None
assert _spec.loader is not None
start_a_run = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(start_a_run)

MakeRun = Callable[..., RunDirectory]
Work = Callable[..., int]


@pytest.fixture(scope="session")
def digits() -> dict[str, Any]:
    """A small configuration that trains well: mlp on digits."""
    return dict(start_a_run.DIGITS)


@pytest.fixture(scope="session")
def make_run() -> MakeRun:
    """`make_run(folder, values, **fields)` writes a run directory."""
    made: MakeRun = start_a_run.make_run
    return made


@pytest.fixture(scope="session")
def started() -> Callable[..., Any]:
    """`started(run)` starts a worker as its own fresh process."""
    start: Callable[..., Any] = start_a_run.start_worker
    return start


@pytest.fixture(scope="session")
def work() -> Work:
    """`work(run, before=None)` works on a run in a forked process and returns how it ended (negative: a signal)."""
    import torch

    torch.set_num_threads(1)  # a pool of threads would not survive the fork
    import_for_worker()  # once, and not in every fork
    return _work_in_a_fork


@pytest.fixture(scope="session")
def begin(work: Work) -> Work:
    """`begin(run, before=None)` begins to work on a run in a forked process and returns its id."""
    return _begin_in_a_fork


def _work_in_a_fork(run: RunDirectory, before: Callable[[], None] | None = None) -> int:
    _, status = os.waitpid(_begin_in_a_fork(run, before), 0)
    return os.waitstatus_to_exitcode(status)


def _begin_in_a_fork(run: RunDirectory, before: Callable[[], None] | None = None) -> int:
    from trainwright.trainer import worker
    from trainwright.trainer.user_code.guard import exit_now

    assert not polars_has_worked(), "polars was used in this process: its threads would not survive the fork"
    child = os.fork()
    if child == 0:
        code = 70
        try:
            gc.freeze()  # collections would touch, and so copy, all that the test process holds
            signal.alarm(0)
            log = os.open(run.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.dup2(log, 1)
            os.dup2(log, 2)
            sys.stdout = sys.stderr = os.fdopen(log, "w", buffering=1)
            os.environ.update(launch_environment(run.specification().config))
            if before is not None:
                before()
            with proving_by():
                code = worker.main([str(run.path)])
        finally:
            exit_now(code)
    return child


@pytest.fixture
def open_session(tmp_path: Path, make_run: Any) -> Callable[..., Any]:
    """`open_session(values, name)` assembles a session in this process, as a worker does, without its supervision.

    Its code root is the test's tmp_path; without a name its run has one of its own.
    """
    from trainwright.trainer.assembly.assemble import assemble
    from trainwright.trainer.supervision.stop import StopRequest

    numbers = itertools.count(1)

    def opened(values: dict[str, Any], name: str = "", **fields: Any) -> Any:
        run = make_run(tmp_path / (name or f"run-{next(numbers)}"), values, code_root=str(tmp_path), **fields)
        return assemble(run.specification(), run, StopRequest(run.path / "stop_reason"))

    return opened


@pytest.fixture(scope="session")
def take_steps() -> Callable[[Any, int], list[Any]]:
    """`take_steps(session, number)` trains on, within the present epoch, and returns the losses."""
    from trainwright.trainer.engine.loop import take_step

    def take(session: Any, number: int) -> list[Any]:
        session.model.train()
        return [take_step(session, group).loss for _, group in zip(range(number), session.groups(), strict=False)]

    return take


def metrics_of(run: RunDirectory, *keys: str) -> dict[str, list[tuple[int, str]]]:
    """Return recorded values by key, as text that tells every bit apart."""
    store = run.metrics()
    return {key: [(point.step, repr(point.value)) for point in store.series(key)] for key in keys}


@pytest.fixture(scope="session")
def recorded() -> Callable[..., dict[str, list[tuple[int, str]]]]:
    """`recorded(run, *keys)` returns metric series that can be compared bit by bit."""
    return metrics_of


@pytest.fixture(scope="session")
def digits_run(tmp_path_factory: pytest.TempPathFactory, digits: dict[str, Any], started: Any) -> RunDirectory:
    """One whole run of mlp on digits, in a process of its own."""
    run: RunDirectory = start_a_run.make_run(tmp_path_factory.mktemp("digits") / "run-1", digits)
    assert started(run).wait(120) == 0, run.log.read_text()
    return run


@pytest.fixture
def mine() -> str:
    """The text of a user's own module."""
    return MINE


@pytest.fixture
def prepared(tmp_path: Path, make_run: MakeRun) -> MakeRun:
    """`prepared(code, values)` writes mine.py and the directory of a run over it."""

    def prepare(code: str, values: dict[str, Any] | None = None, **fields: Any) -> RunDirectory:
        root = tmp_path / "project"
        root.mkdir(exist_ok=True)
        (root / "mine.py").write_text(MINE + textwrap.dedent(code))
        return make_run(tmp_path / "run", values or PARTS, code_root=str(root), **fields)

    return prepare


@pytest.fixture
def ended(prepared: MakeRun, work: Work) -> MakeRun:
    """`ended(code, values)` writes mine.py, works on a run in a process of its own, and returns its directory."""

    def run_it(*args: Any, **fields: Any) -> RunDirectory:
        run = prepared(*args, **fields)
        work(run)
        return run

    return run_it


@pytest.fixture
def ended_here(prepared: MakeRun) -> MakeRun:
    """`ended_here(code, values)` is `ended` in this process, without provenance and guards (whole_runs.py)."""
    from tests.trainer.whole_runs import work_here

    def run_it(*args: Any, **fields: Any) -> RunDirectory:
        run = prepared(*args, **fields)
        work_here(run)
        return run

    return run_it


@pytest.fixture
def assert_resumes_exactly(open_session: Any, take_steps: Any) -> Callable[..., Any]:
    """`assert_resumes_exactly(values)`: saved in mid-epoch and taken up by a fresh session is never interrupted.

    Compares model, optimizers, totals and generators bit for bit; returns the resumed session.
    """
    import torch
    from tests.trainer.saving import checkpoint_of

    def check(values: dict[str, Any], before: int = 3, after: int = 3) -> Any:
        whole = open_session(values, "whole")
        take_steps(whole, before + after)
        model, state, tensors = whole.state()
        first = open_session(values, "first")
        take_steps(first, before)
        checkpoint = checkpoint_of(first)
        resumed = open_session(values, "resumed")
        resumed.load(checkpoint)
        take_steps(resumed, after)
        model_again, state_again, tensors_again = resumed.state()
        for ours, theirs in ((model_again, model), (tensors_again, tensors)):
            assert ours.keys() == theirs.keys()
            assert all(torch.equal(value, theirs[name]) for name, value in ours.items())
        assert {**state_again, "progress": None} == {**state, "progress": None}  # which holds times
        assert resumed.progress.step == before + after
        return resumed

    return check


@pytest.fixture
def assert_halted_ends_the_same(tmp_path: Path, make_run: MakeRun) -> Callable[..., RunDirectory]:
    """`assert_halted_ends_the_same(values, halt_at, *keys)`: a run halted at a step and resumed ends as it would have.

    Both train in this process, with tmp_path as code root (tests/trainer/whole_runs.py). Returns the one not halted.
    """
    from tests.trainer.whole_runs import Halted, assert_same_end, train_here

    def check(values: dict[str, Any], halt_at: int, *keys: str) -> RunDirectory:
        whole, run = (make_run(tmp_path / name, values, code_root=str(tmp_path)) for name in ("whole", "halted"))
        train_here(whole)
        with pytest.raises(Halted):
            train_here(run, halt_at)
        train_here(run)
        assert 0 < run.events("resumed")[0].data["step"] < halt_at
        assert_same_end(run, whole, *keys)
        return whole

    return check
