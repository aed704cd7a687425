"""Updates of the parameters during a step: which have gradients, which were carried over, and which bits change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from trainwright.trainer.watch.inspector import local, parameters_of
from trainwright.trainer.watch.silent.tensors import checksums, total


@dataclass
class Update:
    """One step of one optimizer.

    Attributes:
        parameters: names of those that it holds and that require a gradient.
        missing: parameters without a gradient; `zero`: with one that is zero everywhere; `unchanged`: whose bits are
            the same after it, although there were a gradient and a rate.
        carried: parameters whose gradient has an earlier update's in it.
        rate: the highest of its groups; `has_schedule` whether a schedule of torch will set another.
        arrived, applied: norm of the gradients after the backward pass (None: not seen) and at the update.
    """

    optimizer: str
    rate: float
    parameters: set[str] = field(default_factory=set)
    missing: set[str] = field(default_factory=set)
    zero: set[str] = field(default_factory=set)
    unchanged: set[str] = field(default_factory=set)
    carried: set[str] = field(default_factory=set)
    arrived: float | None = None
    applied: float = 0.0
    has_schedule: bool = False

    @property
    def has_arrived(self) -> bool:
        """Whether a backward pass has made gradients that are not zero."""
        return self.arrived is not None and self.arrived > 0


class UpdateWatch:
    """Follows gradients from update to update. It is to live as long as inspected steps follow each other."""

    def __init__(self, named: Mapping[str, nn.Parameter], optimizers: Mapping[str, Optimizer]) -> None:
        """Prepare.

        Args:
            named: all parameters of the model; optimizers may hold others.
        """
        self.named, self.optimizers = dict(named), dict(optimizers)
        self.names = {id(parameter): name for name, parameter in named.items()}
        self.used: set[int] = set()
        """Parameters whose present gradient an optimizer has used."""
        self.stale: dict[int, int] = {}
        """Of used gradients that nobody has zeroed: their version before the backward pass under way."""
        self.carried: set[int] = set()
        """Of these, those to which a backward pass has added."""
        self.arrived: dict[str, float] = {}
        self.updates: list[Update] = []
        self.unheld: set[str] = set()
        """Parameters that had a gradient and that no optimizer holds."""
        self.backwards = self.dropped = 0
        """Backward passes of this step; and those whose gradients were cleared before any update."""
        self._waiting = False
        self._before: dict[int, list[int]] = {}

    def begin(self) -> None:
        """A step begins."""
        self.updates, self.unheld, self.backwards, self.dropped = [], set(), 0, 0

    def forget(self) -> None:
        """Forget earlier gradients: steps went by unseen."""
        self.used, self.carried, self.stale, self._waiting = set(), set(), {}, False

    @property
    def held(self) -> dict[str, nn.Parameter]:
        """Return the parameters of the model that an optimizer holds, by name."""
        held = {id(parameter) for optimizer in self.optimizers.values() for parameter in parameters_of(optimizer)}
        return {name: parameter for name, parameter in self.named.items() if id(parameter) in held}

    @torch.no_grad()
    def before_backward(self) -> None:
        """Note which gradients of earlier updates nobody has zeroed."""
        grads = {id(p): p.grad for p in self.held.values() if p.grad is not None}
        kept = [key for key in self.used if key in grads]
        nonzero = _nonzero([grads[key] for key in kept])
        self.used = {key for key, is_left in zip(kept, nonzero, strict=True) if is_left}
        self.carried &= self.used
        self.stale = {key: grads[key]._version for key in self.used}
        if self._waiting and not any(_nonzero(list(grads.values()))):
            self.dropped += 1

    @torch.no_grad()
    def after_backward(self) -> None:
        """Note what the backward pass has added."""
        held = self.held
        for parameter in held.values():
            key, gradient = id(parameter), parameter.grad
            if key in self.stale and gradient is not None and gradient._version != self.stale[key]:
                self.carried.add(key)
        for name, optimizer in self.optimizers.items():
            self.arrived[name] = total(_grads(parameters_of(optimizer)))
        self.backwards += 1
        self._waiting = True
        self._note_unheld(held)

    @torch.no_grad()
    def before_update(self, optimizer: Optimizer) -> None:
        """Note the gradients that an optimizer is about to use."""
        self._note_unheld(self.held)
        parameters = [p for p in parameters_of(optimizer) if p.requires_grad]
        present = [p for p in parameters if p.grad is not None]
        nonzero = _nonzero(_grads(present))
        name = next((name for name, each in self.optimizers.items() if each is optimizer), "optimizer")
        rate = max((float(group["lr"]) for group in optimizer.param_groups), default=0.0)
        arrived, applied = self.arrived.pop(name, None), total(_grads(present))
        update = Update(name, rate, self._named(parameters), arrived=arrived, applied=applied)
        update.has_schedule = any(float(group.get("initial_lr") or 0.0) > 0 for group in optimizer.param_groups)
        update.missing = self._named([p for p in parameters if p.grad is None])
        update.zero = self._named([p for p, is_there in zip(present, nonzero, strict=True) if not is_there])
        update.carried = self._named([p for p in present if id(p) in self.carried])
        self.updates.append(update)
        self._before[id(optimizer)] = checksums(map(local, parameters))

    @torch.no_grad()
    def after_update(self, optimizer: Optimizer) -> None:
        """Note which parameters have changed."""
        before = self._before.pop(id(optimizer), None)
        parameters = [p for p in parameters_of(optimizer) if p.requires_grad]
        self.used |= {id(p) for p in parameters if p.grad is not None}
        self.carried -= {id(p) for p in parameters}
        self._waiting = False
        if before is None or not self.updates or len(before) != len(parameters):
            return
        rates = {id(p): float(group["lr"]) for group in optimizer.param_groups for p in group["params"]}
        update, after = self.updates[-1], checksums(map(local, parameters))
        same = [p for p, old, new in zip(parameters, before, after, strict=True) if old == new and rates[id(p)] > 0]
        update.unchanged = self._named(same) - update.missing - update.zero

    def _note_unheld(self, held: Mapping[str, nn.Parameter]) -> None:
        self.unheld |= {name for name, p in self.named.items() if name not in held and p.grad is not None}

    def _named(self, parameters: Sequence[nn.Parameter]) -> set[str]:
        return {self.names[id(p)] for p in parameters if id(p) in self.names}


def _grads(parameters: Sequence[nn.Parameter]) -> list[Tensor]:
    return [_plain(parameter.grad) for parameter in parameters if parameter.grad is not None]


def _plain(gradient: Tensor) -> Tensor:
    found = local(gradient)
    return found.coalesce().values() if found.is_sparse else found


def _nonzero(gradients: Sequence[Tensor]) -> list[bool]:
    """Return for each gradient whether any entry is not zero, read from the device at once."""
    if not gradients:
        return []
    found = [_plain(each).ne(0).any() for each in gradients]
    return [bool(each) for each in torch.stack([each.to(found[0].device) for each in found]).tolist()]
