"""Steps as users write them: each silent error is found within one step, and sound ones raise nothing."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from trainwright.trainer.watch.silent.checks import check
from trainwright.trainer.watch.silent.parameters_check import unheld_parameters
from trainwright.trainer.watch.silent.record import Instrument, StepRecord, hidden_parameters

ROWS, INPUTS, CLASSES = 32, 6, 3
Step = Callable[[Any, Tensor, Tensor, dict[str, Any]], None]


def train(model: nn.Module, optimizers: dict[str, Any], step: Step, steps: int = 4) -> dict[str, int]:
    """Make steps under the instruments; return the step at which each finding was first made."""
    instrument = Instrument(model, dict(model.named_parameters()) | hidden_parameters(model), optimizers)
    hooks = []
    for optimizer in optimizers.values():
        hooks.append(optimizer.register_step_pre_hook(lambda o, *_: instrument.updates.before_update(o)))
        hooks.append(optimizer.register_step_post_hook(lambda o, *_: instrument.updates.after_update(o)))
    history, found = [], {}
    draws = torch.Generator().manual_seed(0)
    for number in range(1, steps + 1):
        x, y = torch.randn(ROWS, INPUTS, generator=draws), torch.randint(0, CLASSES, (ROWS,), generator=draws)
        instrument.begin(number)
        with instrument.step([(x, y)]), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of broadcast shapes, which nobody reads
            step(model, x, y, optimizers)
        history.append(instrument.end())
        for finding in check(history[-3:]):
            found.setdefault(finding.id, number)
    return found


def net() -> nn.Sequential:
    return nn.Sequential(nn.Linear(INPUTS, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, CLASSES))


def sgd(model: nn.Module, rate: float = 0.1) -> dict[str, Any]:
    return {"all": torch.optim.SGD(model.parameters(), rate)}


def update(loss: Tensor, o: dict[str, Any]) -> None:
    o["all"].zero_grad()
    loss.backward()
    o["all"].step()


def sound(m: Any, x: Tensor, y: Tensor, o: dict[str, Any]) -> None:
    update(F.cross_entropy(m(x), y), o)


# faults: a step, or a model with the usual one


def not_zeroed(m: Any, x: Tensor, y: Tensor, o: dict[str, Any]) -> None:
    F.cross_entropy(m(x), y).backward()
    o["all"].step()


def not_stepped(m: Any, x: Tensor, y: Tensor, o: dict[str, Any]) -> None:
    o["all"].zero_grad()
    F.cross_entropy(m(x), y).backward()


def cleared_before_step(m: Any, x: Tensor, y: Tensor, o: dict[str, Any]) -> None:
    F.cross_entropy(m(x), y).backward()
    o["all"].zero_grad()
    o["all"].step()


def zeroed_before_step(m: Any, x: Tensor, y: Tensor, o: dict[str, Any]) -> None:
    F.cross_entropy(m(x), y).backward()
    o["all"].zero_grad(set_to_none=False)
    o["all"].step()


def detached(m: Any, x: Tensor, y: Tensor, o: dict[str, Any]) -> None:
    update(F.cross_entropy(m[3](m[:3](x).detach()), y), o)


def without_gradients(m: Any, x: Tensor, y: Tensor, o: dict[str, Any]) -> None:
    with torch.no_grad():
        features = m[:3](x)
    update(F.cross_entropy(m[3](features), y), o)


def made_anew(m: Any, x: Tensor, y: Tensor, o: dict[str, Any]) -> None:
    update(torch.tensor(F.cross_entropy(m(x), y).item(), requires_grad=True), o)


def in_evaluation(m: Any, x: Tensor, y: Tensor, o: dict[str, Any]) -> None:
    m.eval()
    sound(m, x, y, o)


def softmax_twice(m: Any, x: Tensor, y: Tensor, o: dict[str, Any]) -> None:
    update(nn.CrossEntropyLoss()(nn.Softmax(dim=1)(m(x)), y), o)


def no_logarithm(m: Any, x: Tensor, y: Tensor, o: dict[str, Any]) -> None:
    update(F.nll_loss(m(x).softmax(1), y), o)


def over_the_batch(m: Any, x: Tensor, y: Tensor, o: dict[str, Any]) -> None:
    update(F.nll_loss(F.log_softmax(m(x), dim=0), y), o)


def summed(m: Any, x: Tensor, y: Tensor, o: dict[str, Any]) -> None:
    update(F.cross_entropy(m(x), y, reduction="sum"), o)


def summed_by_hand(m: Any, x: Tensor, y: Tensor, o: dict[str, Any]) -> None:
    update(0.5 * F.cross_entropy(m(x), y, reduction="none").sum(), o)


def all_pairs(m: Any, x: Tensor, y: Tensor, o: dict[str, Any]) -> None:
    update(F.mse_loss(m(x)[:, :1], y.float()), o)


def all_pairs_by_hand(m: Any, x: Tensor, y: Tensor, o: dict[str, Any]) -> None:
    update(((m(x)[:, :1] - y.float()) ** 2).mean(), o)


def clipped_away(m: Any, x: Tensor, y: Tensor, o: dict[str, Any]) -> None:
    o["all"].zero_grad()
    F.cross_entropy(m(x), y).backward()
    nn.utils.clip_grad_norm_(m.parameters(), 1e-6)
    o["all"].step()


def holes(m: Any, x: Tensor, y: Tensor, o: dict[str, Any]) -> None:
    x[3, 2] = torch.nan
    update(F.cross_entropy(m(x)[4:], y[4:]), o)


@pytest.mark.requirement("DIAG-7")
@pytest.mark.parametrize(
    ("step", "name", "at"),
    [
        (not_zeroed, "gradients_not_zeroed", 2),
        (not_stepped, "frozen_parameters", 2),
        (cleared_before_step, "frozen_parameters", 1),
        (zeroed_before_step, "frozen_parameters", 1),
        (detached, "frozen_parameters", 1),
        (without_gradients, "frozen_parameters", 1),
        (made_anew, "loss_without_gradient", 2),
        (in_evaluation, "training_in_eval_mode", 1),
        (softmax_twice, "wrong_loss_input", 1),
        (no_logarithm, "wrong_loss_input", 1),
        (over_the_batch, "wrong_loss_input", 1),
        (summed, "wrong_loss_reduction", 1),
        (summed_by_hand, "wrong_loss_reduction", 1),
        (all_pairs, "loss_broadcast", 1),
        (all_pairs_by_hand, "loss_broadcast", 1),
        (clipped_away, "gradients_clipped_away", 1),
        (holes, "non_finite_inputs", 1),
    ],
)
def test_a_silent_error_in_a_step_is_found(step: Step, name: str, at: int) -> None:
    model = net()
    found = train(model, sgd(model), step)
    assert found.get(name) == at
    assert found.keys() <= {name, "frozen_parameters"}, "and nothing else is claimed"


class Rounded(nn.Sequential):
    def forward(self, x: Tensor) -> Any:
        return self[1](torch.round(3 * self[0](x)))


class Ignoring(nn.Sequential):
    def forward(self, x: Tensor) -> Any:
        return self[1](self[0](torch.ones_like(x)))


class Listed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = [nn.Linear(INPUTS, INPUTS)]
        self.head = nn.Linear(INPUTS, CLASSES)

    def forward(self, x: Tensor) -> Any:
        return self.head(self.layers[0](x).relu())


def two_layers(kind: type[nn.Sequential]) -> nn.Sequential:
    return kind(nn.Linear(INPUTS, 8), nn.Linear(8, CLASSES))


@pytest.mark.requirement("DIAG-7")
@pytest.mark.parametrize(
    ("model", "name"),
    [
        (two_layers(Rounded), "frozen_parameters"),
        (two_layers(Ignoring), "constant_output"),
        (Listed(), "optimizer_without_parameters"),
    ],
    ids=["rounded", "ignoring", "listed"],
)
def test_a_silent_error_in_a_model_is_found_at_its_first_step(model: nn.Module, name: str) -> None:
    assert train(model, sgd(model), sound) == {name: 1}


@pytest.mark.requirement("DIAG-7")
def test_what_the_optimizer_lacks_and_a_rate_of_zero_are_found() -> None:
    model = net()
    head = {"all": torch.optim.SGD(model[3].parameters(), 0.1)}
    assert train(model, head, sound) == {"optimizer_without_parameters": 1}
    model = net()
    assert train(model, sgd(model, 0.0), sound) == {"learning_rate_zero": 2}


@pytest.mark.requirement("DIAG-7")
def test_an_optimizer_of_another_model_is_named_as_what_it_is() -> None:
    assert train(net(), sgd(net()), sound) == {"optimizer_without_parameters": 1}
    sizes, words = {"a.weight": 4, "b.weight": 4}, "another model's, or a copy's"
    [partly] = unheld_parameters([StepRecord(1, sizes, held={"b.weight"}, unheld={"a.weight"})])
    [whole] = unheld_parameters([StepRecord(1, sizes, held=set(), unheld={*sizes})])
    assert (partly.measured, words in partly.detail) == (0.5, False)
    assert (whole.measured, words in whole.detail) == (1.0, True)


@pytest.mark.requirement("DIAG-7")
def test_a_batch_without_positives_is_no_loss_without_gradient() -> None:
    model, numbers = net(), iter(range(4))

    def step(m: Any, x: Tensor, y: Tensor, o: dict[str, Any]) -> None:
        loss = torch.zeros((), requires_grad=True) if next(numbers) == 1 else F.cross_entropy(m(x), y)
        update(loss, o)

    assert train(model, sgd(model), step) == {}


# sound variants


def accumulating(m: Any, x: Tensor, y: Tensor, o: dict[str, Any]) -> None:
    for part in range(2):
        (F.cross_entropy(m(x[part::2]), y[part::2]) / 2).backward()
    o["all"].step()
    o["all"].zero_grad()


def batch_statistics_held(m: Any, x: Tensor, y: Tensor, o: dict[str, Any]) -> None:
    m[1].eval()
    sound(m, x, y, o)


def with_penalty(m: Any, x: Tensor, y: Tensor, o: dict[str, Any]) -> None:
    update(F.cross_entropy(m(x), y) + 1e-3 * sum((p**2).sum() for p in m.parameters()), o)


def sum_over_counts(m: Any, x: Tensor, y: Tensor, o: dict[str, Any]) -> None:
    mask = (y > 0).float()
    update((F.cross_entropy(m(x), y, reduction="none") * mask).sum() / mask.sum(), o)


def distilling(m: Any, x: Tensor, y: Tensor, o: dict[str, Any]) -> None:
    with torch.no_grad():
        wanted = m["teacher"](x).softmax(1)
    logits = m["student"](x)
    update(F.cross_entropy(logits, y) + F.kl_div(F.log_softmax(logits, 1), wanted, reduction="batchmean"), o)
    with torch.no_grad():
        for old, new in zip(m["teacher"].parameters(), m["student"].parameters(), strict=True):
            old.mul_(0.9).add_(new, alpha=0.1)


def adversarial(m: Any, x: Tensor, y: Tensor, o: dict[str, Any]) -> None:
    made = m["maker"](torch.randn(len(x), 4))
    one, zero = torch.ones(len(x), 1), torch.zeros(len(x), 1)
    bce = F.binary_cross_entropy_with_logits
    o["judge"].zero_grad()
    (bce(m["judge"](x), one) + bce(m["judge"](made), zero)).backward()  # reaches the maker too
    o["judge"].step()
    o["maker"].zero_grad()
    bce(m["judge"](m["maker"](torch.randn(len(x), 4))), one).backward()
    o["maker"].step()


def bound(m: Any, x: Tensor, y: Tensor, o: dict[str, Any]) -> None:
    mean, log_variance = m["encoder"](x).chunk(2, dim=1)
    made = m["decoder"](mean + torch.randn_like(mean) * (0.5 * log_variance).exp())
    divergence = -0.5 * torch.sum(1 + log_variance - mean.pow(2) - log_variance.exp())
    update(F.mse_loss(made, x, reduction="sum") + divergence, o)


def mixed(m: Any, x: Tensor, y: Tensor, o: dict[str, Any]) -> None:
    other = torch.randperm(len(x))
    logits = m(0.7 * x + 0.3 * x[other])
    update(0.7 * F.cross_entropy(logits, y) + 0.3 * F.cross_entropy(logits, y[other]), o)


class Experts(nn.Module):
    def __init__(self, *weights: float) -> None:
        super().__init__()
        self.experts = nn.ModuleList(nn.Linear(INPUTS, CLASSES) for _ in range(4))
        self.calls, self.weights = 0, weights

    def forward(self, x: Tensor) -> Any:
        self.calls += 1
        weighted = [weight * expert(x) for weight, expert in zip(self.weights, self.experts, strict=False)]
        return sum(weighted) if weighted else self.experts[self.calls % 2](x)


class Adapted(nn.Module):
    """A frozen layer with a low-rank part that begins at zero."""

    def __init__(self) -> None:
        super().__init__()
        self.base = nn.Linear(INPUTS, CLASSES).requires_grad_(False)
        self.down, self.up = nn.Linear(INPUTS, 2, bias=False), nn.Linear(2, CLASSES, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x: Tensor) -> Any:
        return self.base(x) + self.up(self.down(x))


def from_zero() -> nn.Sequential:
    model = net()
    nn.init.zeros_(model[3].weight)
    nn.init.zeros_(model[3].bias)
    return model


def normed() -> nn.Sequential:
    return nn.Sequential(nn.Linear(INPUTS, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, CLASSES))


def teacher_and_student() -> nn.ModuleDict:
    student = net()
    return nn.ModuleDict({"student": student, "teacher": copy.deepcopy(student)})


HEALTHY: dict[str, tuple[nn.Module, Step]] = {
    "plain": (net(), sound),
    "head from zero": (from_zero(), sound),
    "batch norm": (normed(), sound),
    "batch statistics held": (normed(), batch_statistics_held),
    "accumulating": (net(), accumulating),
    "penalty": (net(), with_penalty),
    "sum over counts": (net(), sum_over_counts),
    "mixing": (net(), mixed),
    "experts": (Experts(), sound),
    "experts of weight 0": (Experts(0.3, 0.3, 0.0, 0.4), sound),
    "low rank": (Adapted(), sound),
    "bound": (nn.ModuleDict({"encoder": nn.Linear(INPUTS, 4), "decoder": nn.Linear(2, INPUTS)}), bound),
}


@pytest.mark.requirement("DIAG-7")
@pytest.mark.parametrize("name", HEALTHY)
def test_sound_steps_raise_nothing(name: str) -> None:
    model, step = copy.deepcopy(HEALTHY[name])
    assert train(model, {"all": torch.optim.Adam([p for p in model.parameters() if p.requires_grad], 1e-3)}, step) == {}


@pytest.mark.requirement("DIAG-7")
def test_two_networks_against_each_other_and_a_moving_teacher_raise_nothing() -> None:
    pair = nn.ModuleDict({"maker": nn.Linear(4, INPUTS), "judge": nn.Sequential(nn.Linear(INPUTS, 8), nn.Linear(8, 1))})
    assert train(pair, {name: torch.optim.Adam(pair[name].parameters()) for name in pair}, adversarial) == {}
    both = teacher_and_student()
    assert train(both, {"all": torch.optim.SGD(both["student"].parameters(), 0.1)}, distilling) == {}


@pytest.mark.requirement("DIAG-7")
def test_a_rate_that_warms_up_from_zero_is_no_rate_of_zero() -> None:
    model = from_zero()
    optimizers = sgd(model)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizers["all"], lambda step: step / 4)

    def step(m: Any, x: Tensor, y: Tensor, o: dict[str, Any]) -> None:
        sound(m, x, y, o)
        schedule.step()

    assert train(model, optimizers, step, steps=5) == {}


@pytest.mark.requirement("DIAG-11")
def test_a_copy_that_is_made_in_a_watched_step_carries_no_hook_of_it() -> None:
    copies: list[Any] = []

    def step(m: Any, x: Tensor, y: Tensor, o: dict[str, Any]) -> None:
        copies.append(copy.deepcopy(m))
        sound(m, x, y, o)

    model = net()
    assert train(model, sgd(model), step, steps=1) == {}
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    acts = [hook for module in copies[0].modules() for hook in module._forward_hooks.values()]
    assert {type(hook).__name__ for hook in acts} == {"Nothing"}
