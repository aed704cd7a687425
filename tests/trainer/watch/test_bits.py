"""Inspecting every step leaves every bit of a run's state as it is, over objectives, updates and ways to train."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from tests.contracts.test_objectives import LEAST, ROWS, bits_of, values_of
from tests.variants import variants

from trainwright.trainer.base import releases
from trainwright.trainer.engine.loop import take_step
from trainwright.trainer.engine.observers.observer import Observers
from trainwright.trainer.engine.observers.recorder import Recorder
from trainwright.trainer.engine.session import Session
from trainwright.trainer.engine.trackers import Trackers
from trainwright.trainer.models.small import MLP
from trainwright.trainer.supervision.sampling import SystemSampler
from trainwright.trainer.watch.inspector import Nothing, is_compiled
from trainwright.trainer.watch.schedule import Schedule
from trainwright.trainer.watch.watch import Watch, watching

MORE_CODE = """
import copy
from torch.nn.utils.parametrizations import weight_norm
from torch.utils.checkpoint import checkpoint

class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.act = nn.Linear(4, 4), nn.ReLU()
        self.last = nn.Linear(4, 2)
        self.again = self.first
    def forward(self, x):
        x = checkpoint(lambda v: self.act(self.first(v)), x, use_reentrant=False)
        return self.last(torch.tanh(self.again(x)))
def tied(**_):
    return Tied()

def realness(model, batch, context):
    return {"loss": -model["judge"](batch[0]).log().mean()}
def two_players(config):
    made = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4))
    judge = nn.Sequential(nn.Linear(4, 1), nn.Sigmoid())
    model = nn.ModuleDict({"made": made, "judge": judge})
    g, d = torch.optim.Adam(made.parameters(), lr=0.01), torch.optim.SGD(judge.parameters(), lr=0.1)
    kept = {}
    def train_step(model, batch, context):
        kept.setdefault("copy", copy.deepcopy(model))
        real = batch[0]
        for _ in range(2):
            d.zero_grad()
            loss = -(judge(real).log() + (1 - judge(made(torch.randn_like(real)).detach())).log()).mean()
            loss.backward()
            d.step()
        def again():
            g.zero_grad()
            lost = (1 - judge(made(torch.randn_like(real)))).log().mean()
            lost.backward()
            return lost
        g.step(again)
        return {"loss": loss.detach()}
    return {"model": model, **kinds(), "train_step": train_step, "validation_step": realness, "optimizers": [g, d]}

def lbfgs(parameters, **_):
    return torch.optim.LBFGS(parameters, lr=0.1, max_iter=3)
"""
CLIPPING = {"training": {"epochs": 5, "accumulation_steps": 2, "clip_norm": 0.1}}
WAYS: dict[str, dict[str, Any]] = {
    **{name: values_of(name) for name in LEAST},
    "accumulating": values_of("supervised", around=CLIPPING),
    "bf16": values_of("supervised", around={"training": {"epochs": 5, "precision": "bf16", "clip_value": 0.01}}),
    "averaging": values_of("contrastive", around={"optimizer": {"name": "muon"}, "weight_averaging": {"name": "ema"}}),
    "tied weights, recomputed": values_of("supervised", around={"model": {"use": "rows:tied"}}),
    "a closure": values_of("supervised", around={"optimizer": {"name": "own", "use": "rows:lbfgs"}}),
    "two players": {
        **{key: value for key, value in values_of("supervised").items() if key not in {"model", "data", "objective"}},
        "task": {"use": "rows:two_players"},
    },
}  # fmt: skip


class Always(Schedule):
    """Every step."""

    def is_due(self, step: int) -> bool:
        return step > 0


@pytest.fixture(autouse=True)
def root(tmp_path: Path) -> Path:
    """A code root with rows of two kinds, models and players, and the weights of a teacher that was not trained."""
    (tmp_path / "rows.py").write_text(ROWS + MORE_CODE)
    torch.manual_seed(3)
    save_file(MLP((4,), 2, hidden=(24,)).state_dict(), tmp_path / "teacher.safetensors")
    return tmp_path


def observed(session: Session, *, inspects: bool) -> Observers:
    """The recorder, and the watch at every step or none."""
    recorder = Recorder(session.run.metrics(writer=True), Trackers(session.run, session.config, {}), SystemSampler())
    before, after = watching(session, recorder) if inspects else ([], [])
    for watch in before:
        assert isinstance(watch, Watch)
    return Observers([*before, recorder, *after], lambda _: None)


def trained(session: Session, steps: int, *, inspects: bool) -> Observers:
    """Take steps as the loop does, every one of them inspected or none."""
    observers = observed(session, inspects=inspects)
    session.model.train()
    observers.start(session)
    for watch in observers.observers:
        if isinstance(watch, Watch):
            watch.schedule = Always(0)
    for _, group in zip(range(steps), session.groups(), strict=False):
        observers.step(session, take_step(session, group))
    observers.close()
    return observers


@pytest.mark.requirement("DIAG-11", "REPRO-6")
@pytest.mark.parametrize("way", variants(WAYS, quick=list(WAYS)[:3], newer={"averaging": releases.MUON}))
def test_a_run_of_which_every_step_is_inspected_has_the_same_state(way: str, open_session: Any) -> None:
    values = WAYS[way]
    open_session(values, "warm")
    plain = open_session(values, "plain")
    trained(plain, 6, inspects=False)
    inspected = open_session(values, "inspected")
    trained(inspected, 6, inspects=True)
    assert bits_of(inspected) == bits_of(plain)
    assert not inspected.run.events("unjudged"), inspected.run.events("unjudged")
    store = inspected.run.metrics()
    ratios = [key for key in store.keys() if key.startswith("layers/update_ratio/")]  # noqa: SIM118 - no mapping
    names = {name for name, p in inspected.model.named_parameters() if p.requires_grad}
    assert names <= {key.removeprefix("layers/update_ratio/") for key in ratios}
    assert [point.step for point in store.series("watch/activation_max")] == [1, 2, 3, 4, 5, 6]


def hooks_of(session: Session) -> int:
    """Count the hooks on modules and optimizers."""
    on_modules = sum(len(module._forward_hooks) for module in session.model.modules())
    optimizers = session.optimizers.values()
    return on_modules + sum(len(o._optimizer_step_pre_hooks) + len(o._optimizer_step_post_hooks) for o in optimizers)


@pytest.mark.requirement("DIAG-11")
def test_steps_between_have_no_hooks_and_read_nothing(open_session: Any) -> None:
    session = open_session(values_of("supervised"))
    before = hooks_of(session)
    observers = observed(session, inspects=True)
    [watch] = [each for each in observers.observers if isinstance(each, Watch)]
    observers.start(session)
    counts = []
    for number, group in zip(range(5), session.groups(), strict=False):
        if number == 3:
            watch.schedule.wait_until = 1_000_000  # nothing is due any more
        observers.step(session, take_step(session, group))
        counts.append(hooks_of(session) - before)
    observers.close()
    assert [count > 0 for count in counts] == [True, True, False, False, False]
    assert [point.step for point in session.run.metrics().series("watch/update_ratio_median")] == [1, 2, 3]


@pytest.mark.requirement("DIAG-11")
def test_a_device_that_cannot_be_read_ends_the_watch_and_not_the_run(open_session: Any) -> None:
    session = open_session(values_of("supervised"))
    observers = observed(session, inspects=True)
    [watch] = [each for each in observers.observers if isinstance(each, Watch)]
    observers.start(session)
    assert watch.look is not None
    watch.look.values["layers/odd/one"] = torch.zeros(2)  # no scalar
    for _, group in zip(range(2), session.groups(), strict=False):
        observers.step(session, take_step(session, group))
    observers.close()
    assert watch.inspectors == []
    [event] = session.run.events("unjudged")
    assert "failed at step 1" in event.data["text"]


@pytest.mark.requirement("DIAG-11")
def test_a_model_that_the_user_compiles_is_known(open_session: Any) -> None:
    session = open_session(values_of("supervised"))
    assert not is_compiled(session)
    next(iter(session.model.children())).compile()
    assert is_compiled(session)


@pytest.mark.requirement("DIAG-11")
def test_a_copy_of_an_inspected_model_has_hooks_that_do_nothing(open_session: Any) -> None:
    session = open_session(values_of("supervised"))
    observers = observed(session, inspects=True)
    observers.start(session)
    copied = copy.deepcopy(session.model)
    observers.close()
    assert not hooks_of(session)
    x = torch.randn(3, 4)
    assert torch.equal(copied.eval()(x), session.model.eval()(x))
    assert all(isinstance(h, Nothing) for m in copied.modules() for h in m._forward_hooks.values())
