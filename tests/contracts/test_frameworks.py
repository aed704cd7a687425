"""What every `Framework` promises: the seven points of trainer/frameworks/framework.py, over each library's trainer."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.releases import param
from tests.trainer.killing import kill_at_call

from trainwright.trainer.assembly.assemble import assemble
from trainwright.trainer.base import releases
from trainwright.trainer.base.errors import ConfigurationError, DivergenceError
from trainwright.trainer.checkpoints.packing import pack
from trainwright.trainer.data.fingerprint import sample_digest, weights_digest
from trainwright.trainer.engine.observers.observer import EpochResult, Observer, Observers, StepResult
from trainwright.trainer.engine.observers.recorder import Recorder
from trainwright.trainer.engine.session import Session
from trainwright.trainer.frameworks.framework import Framework, framework_in
from trainwright.trainer.frameworks.loop import Moments, train
from trainwright.trainer.jobs.evaluation.record import evaluation
from trainwright.trainer.supervision.stop import StopRequest

pytestmark = [pytest.mark.requirement("TRAIN-7"), pytest.mark.slow]

SCRIPTS = Path(__file__).parent / "own_trainers"
EXAMPLES = {"transformers": "trainer_of_transformers.py", "lightning": "module_of_lightning.py"}
NEWER = {"transformers": releases.TRAINER}
"""What is needed of a library beyond its oldest supported release."""
PER_EPOCH, EPOCHS = 5, 2
"""Updates of an epoch: 40 samples in batches of 4, two of which are an update; and the epochs."""

Opened = Callable[..., Session]


@pytest.fixture(scope="module", params=[param(name, NEWER.get(name)) for name in EXAMPLES])
def example(request: Any) -> str:
    """The script of a library, which is imported once and not again in every fork."""
    __import__({"transformers": "transformers", "lightning": "lightning.pytorch"}[request.param])
    return EXAMPLES[request.param]


def values_of(example: str, **args: Any) -> dict[str, Any]:
    """Return the configuration of a run of it."""
    return {
        "trainer": {"use": f"{example}:make_trainer", "args": args},
        "checkpoints": {"checkpoint_every_n_steps": 1},
        "logging": {"every_n_steps": 1, "tensorboard": False},
    }


@pytest.fixture
def opened(example: str, tmp_path: Path, make_run: Any) -> Opened:
    """`opened(**args)` assembles a session in this process."""
    numbers = iter(range(10))

    def open_one(**args: Any) -> Session:
        run = make_run(tmp_path / f"run{next(numbers)}", values_of(example, **args), code_root=str(SCRIPTS))
        return assemble(run.specification(), run, StopRequest(run.path / "stop_reason"))

    return open_one


def framework_of(session: Session) -> Framework:
    """Return the framework of a session."""
    framework = framework_in(session.work)
    assert framework is not None
    return framework


def made_by(framework: Framework) -> list[bool]:
    """Return the script's list of the calls of its function."""
    module: Any = sys.modules[type(framework.model).__module__]
    found: list[bool] = module.MADE
    return found


class Watch(Observer):
    """Keeps the position and the digest of all state at each step, and stops after `last`."""

    def __init__(self, last: int | None = None) -> None:
        self.last = last
        self.steps: list[tuple[int, int, int, float]] = []
        self.states: list[str] = []
        self.epochs: list[EpochResult] = []
        self.ended: list[str] = []

    def step(self, session: Session, result: StepResult) -> None:
        tensors: dict[str, torch.Tensor] = {}
        states = {name: each.state_dict() for name, each in session.components.items() if name != "totals"}
        states["position"] = {**states.get("position", {}), "train_seconds": 0, "data_wait_seconds": 0}
        packed = pack(_without_clocks(states), "state", tensors)
        self.states.append(sample_digest(str(packed)) + weights_digest(tensors))
        self.steps.append((result.step, result.epoch, result.batch, float(result.loss)))
        if result.step == self.last:
            session.stop.ask("user_request")

    def epoch(self, session: Session, result: EpochResult) -> None:
        assert session.progress.epoch == result.epoch
        self.epochs.append(result)

    def stop(self, session: Session, reason: str) -> None:
        assert session.progress.step == len(self.steps)
        self.ended.append(reason)


def _without_clocks(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_clocks(each) for name, each in value.items() if "seconds" not in str(name)}
    return value


def watched(session: Session, last: int | None = None) -> Watch:
    """Train a session; return what was seen."""
    watch = Watch(last)
    train(session, Observers([watch], lambda _: None))
    return watch


def test_1_it_is_made_once_and_decides_the_plan(opened: Opened) -> None:
    session = opened(epochs=3)
    framework = framework_of(session)
    before = len(made_by(framework))
    watched(session, last=1)
    assert len(made_by(framework)) == before, "training makes nothing again"
    assert session.config.training.epochs == framework.plan.epochs == 3
    assert framework.plan.total_steps == 3 * PER_EPOCH
    assert (framework.plan.batch_size, framework.plan.accumulation_steps) == (4, 2)


def test_2_the_test_rows_are_gone_before_anything_is_trained(opened: Opened) -> None:
    session = opened()
    gc.collect()
    samples = session.work.splits.samples
    assert {name: len(split) for name, split in samples.items()} == {"train": 40, "validation": 10}
    kind = type(samples["train"])
    held = [each for each in gc.get_objects() if type(each) is kind and torch.equal(each.x, kind(50, 60, 0.0).x)]
    assert not held, "no object of this process has them"


def test_3_a_batch_is_a_function_of_its_position_and_leaves_the_generators_alone(opened: Opened) -> None:
    one, other = (framework_of(opened()).loader for _ in range(2))
    before = torch.get_rng_state()
    whole = [sample_digest(batch) for batch in one.batches(1)]
    assert [sample_digest(batch) for batch in other.batches(1, 7)] == whole[7:]
    assert len(set(whole)) == len(whole) == 2 * PER_EPOCH
    assert one.order(0) != one.order(1)
    assert torch.equal(torch.get_rng_state(), before)


def test_4_and_5_two_runs_that_did_the_same_have_the_same_state_at_every_step(opened: Opened) -> None:
    runs = [watched(opened()) for _ in range(2)]
    assert runs[0].states == runs[1].states
    assert len(set(runs[0].states)) == EPOCHS * PER_EPOCH
    assert [step for step, *_ in runs[0].steps] == list(range(1, EPOCHS * PER_EPOCH + 1))
    places = [(epoch, batch) for _, epoch, batch, _ in runs[0].steps]
    assert places == [(epoch, batch) for epoch in range(EPOCHS) for batch in range(0, 2 * PER_EPOCH, 2)]
    assert [each.epoch for each in runs[0].epochs] == [1, 2]
    assert all("loss" in (each.validation or {}) for each in runs[0].epochs)
    assert runs[0].ended == ["completed"]


def test_5_it_ends_where_it_must(opened: Opened) -> None:
    watch = watched(opened(), last=3)
    assert len(watch.steps) == 3
    assert watch.epochs == [], "the epoch is not over"
    assert len(watch.ended) == 1


def test_5_a_stop_that_comes_while_an_epoch_ends_leaves_the_epoch_whole(opened: Opened) -> None:
    class Late(Watch):
        def trained(self, session: Session) -> None:
            session.stop.ask("requested")

    session, watch = opened(), Late()
    train(session, Observers([watch], lambda _: None))
    assert [each.epoch for each in watch.epochs] == [1]
    assert len(watch.steps) == PER_EPOCH
    assert (session.progress.epoch, session.progress.batch) == (1, 0)
    assert watch.ended == ["requested"]


def test_5_a_request_that_comes_after_a_step_counts_for_all_from_the_next_one_on(opened: Opened) -> None:
    session = opened()
    moments = Moments(session, Observers([], lambda _: None))
    took = {"rate": 0.1, "micro_batches": 2, "samples": 8}
    moments.step(torch.ones(()), None, **took)
    session.stop.ask("requested")
    assert not moments.leaves, "what the library does after the step"
    assert not moments.must_stop, "agrees with what it is told next"
    moments.step(torch.ones(()), None, **took)
    assert moments.leaves
    assert moments.must_stop


@pytest.mark.forks
def test_5_a_killed_run_ends_with_the_bits_of_one_that_was_not(
    example: str, tmp_path: Path, make_run: Any, work: Any, recorded: Any
) -> None:
    runs = [make_run(tmp_path / folder / "run", values_of(example), code_root=str(SCRIPTS)) for folder in "ab"]
    assert work(runs[0]) == 0, runs[0].log.read_text()
    assert work(runs[1], kill_at_call(Recorder.step, 8)) == -9
    assert work(runs[1]) == 0, runs[1].log.read_text()
    (resumed,) = [event.data["step"] for event in runs[1].events() if event.kind == "resumed"]
    assert resumed % PER_EPOCH, "in the middle of an epoch"
    keys = ("train/loss", "train/gradient_norm", "validation/loss")
    assert recorded(runs[0], *keys) == recorded(runs[1], *keys)
    assert runs[0].evidence("summary")["weights_digest"] == runs[1].evidence("summary")["weights_digest"]


def test_6_a_loss_that_is_not_finite_ends_the_run_before_the_update(opened: Opened) -> None:
    session = opened(bad_from=4)
    seen: list[str] = []

    class Weights(Observer):
        def step(self, session: Session, result: StepResult) -> None:
            seen.append(weights_digest(session.model.state_dict()))

    with pytest.raises(DivergenceError) as raised:
        train(session, Observers([Weights()], lambda _: None))
    assert raised.value.details["step"] == 4
    assert len(seen) == 3
    assert weights_digest(session.model.state_dict()) == seen[-1]


def test_7_what_is_other_is_told_and_what_cannot_be_is_refused(opened: Opened) -> None:
    session = opened()
    framework = framework_of(session)
    framework.lost.append("a sentence of the framework's")
    watched(session, last=1)
    told = [event.data["text"] for event in session.run.events() if event.kind == "note"]
    assert told == [*framework.changed, *framework.lost]
    assert framework.changed
    with pytest.raises(ConfigurationError, match="LBFGS") as raised:
        opened(closure=True)
    assert raised.value.remedy
    assert raised.value.document


@pytest.mark.requirement("TRACK-1")
def test_its_validation_rows_are_evaluated_at_the_end(opened: Opened, example: str) -> None:
    found = evaluation(opened())
    if example == EXAMPLES["lightning"]:  # a module that has a validation_step and no forward
        assert 'missing the required "forward" function' in str(found.problem)
        return
    assert found.problem is None
    assert found.rows > 0
    assert found.worst[0].loss >= found.best[0].loss
