"""Inspectors of a run: the moments of an inspected step at which they are called, and what they may report of it.

An inspector is one class in one file of trainer/watch/inspectors/, and one entry of the list there. It must draw no
random number, change nothing that the next step depends on, and call no other process.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from trainwright.trainer.engine.observers.observer import EpochResult, StepResult
from trainwright.trainer.engine.session import Session

MAX_LAYERS, MAX_ROWS = 10, 20
"""Names and rows that a finding carries."""


class Handle(Protocol):
    """What registering a hook returns."""

    def remove(self) -> None:
        """Take the hook away."""


@dataclass(frozen=True)
class Finding:
    """A fact about the run, under the id of the diagnostic document that explains it."""

    id: str
    measured: float | None = None
    layers: tuple[str, ...] = ()
    rows: tuple[int, ...] = ()
    """Rows of the train split."""
    detail: str = ""


class ModuleHook:
    """A forward hook of one inspected step. In a copy of the module, which nobody clears, it is nothing."""

    Act = Callable[[nn.Module, Any, Any], None]

    def __init__(self, look: Look, act: Act) -> None:
        self.look, self.act, self.owner = look, act, look.present

    def __call__(self, module: nn.Module, given: Any, output: Any) -> None:
        """Measure; an inspector's error is kept for after the step, and never the run's."""
        with self.look.timed(), torch.no_grad():
            try:
                self.act(module, given, output)
            except Exception as error:  # noqa: BLE001 - whatever a model hands over, its run goes on
                self.look.errors.append((self.owner, error))

    def __reduce__(self) -> tuple[type[Nothing], tuple[()]]:
        return Nothing, ()


class Nothing:
    """Stands for a hook in a copy of a module."""

    def __call__(self, module: nn.Module, given: Any, output: Any) -> None:
        """Do nothing."""


@dataclass
class Look:
    """One inspected step: what is found and measured of it."""

    session: Session
    step: int
    """Its number, from 1."""
    epoch: int
    batch: int
    """Number of its first micro-batch in the epoch."""
    is_early: bool = False
    """Whether the gradients before the update are older ones: the optimizer measures the step's inside its update."""
    values: dict[str, Tensor | float] = field(default_factory=dict)
    """Numbers by key, scalars; tensors are read from the device together, after the step."""
    findings: list[Finding] = field(default_factory=list)
    hooks: list[Handle] = field(default_factory=list)
    """Taken away when the step is over."""
    kept: dict[Any, Any] = field(default_factory=dict)
    """What an inspector keeps from one moment of the step to the next, by itself."""

    present: Inspector | None = None
    """The inspector that is called now."""
    errors: list[tuple[Inspector | None, Exception]] = field(default_factory=list)
    """Of hooks, with whose they are."""
    seconds: float = 0.0
    """What the inspection has cost so far."""

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Count the time inside as the inspection's: for hooks, which run within the step."""
        began = time.perf_counter()
        yield
        self.seconds += time.perf_counter() - began

    def watch(self, module: nn.Module, act: ModuleHook.Act) -> None:
        """Call `act(module, arguments, output)` after each forward pass of a module in this step, and time it."""
        self.hooks.append(module.register_forward_hook(ModuleHook(self, act)))

    def find(
        self,
        id: str,  # noqa: A002 - the event's word
        *,
        measured: float | None = None,
        layers: Sequence[str] = (),
        rows: Sequence[int] = (),
        detail: str = "",
    ) -> None:
        """Report a fact. It becomes an event once, however often it is found."""
        self.findings.append(
            Finding(id, measured, tuple(layers)[:MAX_LAYERS], tuple(int(row) for row in rows)[:MAX_ROWS], detail)
        )

    def rows(self, micro_batches: int = 1) -> list[int]:
        """Return the rows of the train split that the step trains on, in order."""
        numbers = range(self.batch, self.batch + micro_batches)
        return [row for number in numbers for row in self.session.train_loader.indices(self.epoch, number)]


class Inspector:
    """Inspects steps; each moment does nothing unless an inspector needs it."""

    def unjudged(self) -> list[str]:
        """Say what cannot be inspected in this run, and why: one sentence each."""
        return []

    def begin(self, look: Look) -> None:
        """Before anything of the step has run. Hooks that are put in place go into `look.hooks`."""

    def before_update(self, look: Look, optimizer: Optimizer) -> None:
        """The optimizer has not moved its parameters; gradients are complete and clipped unless `look.is_early`."""

    def after_update(self, look: Look, optimizer: Optimizer) -> None:
        """The optimizer has moved its parameters."""

    def end(self, look: Look, result: StepResult) -> None:
        """After the step; its hooks are gone. Tensors may still be put into `look.values`."""

    def judge(self, look: Look, values: dict[str, float]) -> None:
        """The numbers of all inspectors have been read; further ones may be put into `look.values`."""

    def epoch(self, look: Look, result: EpochResult) -> None:
        """After every epoch, validated where it is due; the model may be in evaluation mode."""


Make = Callable[[Session], Inspector]


def named_parameters(session: Session) -> dict[str, nn.Parameter]:
    """Return all parameters of model and objective by name; a shared one has its first name."""
    found = dict(session.model.named_parameters())
    held = {id(parameter) for parameter in found.values()}
    beside = session.auxiliary.modules.named_parameters(prefix="objective")
    return found | {name: parameter for name, parameter in beside if id(parameter) not in held}


def is_compiled(session: Session) -> bool:
    """Whether torch.compile has the model or a part of it, by the configuration or the user's code: it keeps hooks."""
    if session.config.training.compile is not None:
        return True
    return any(
        type(module).__name__ == "OptimizedModule" or module._compiled_call_impl is not None
        for module in session.model.modules()
    )


def read_scalars(scalars: Sequence[Tensor]) -> list[Any]:
    """Return scalars of one type as numbers, in their order, read from each device in one transfer."""
    by_device: dict[torch.device, list[int]] = {}
    for place, scalar in enumerate(scalars):
        by_device.setdefault(scalar.device, []).append(place)
    found: dict[int, Any] = {}
    for places in by_device.values():
        found |= zip(places, torch.stack([scalars[place] for place in places]).tolist(), strict=True)
    return [found[place] for place in range(len(scalars))]


def parameters_of(optimizer: Optimizer) -> list[nn.Parameter]:
    """Return all that an optimizer updates."""
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def local(tensor: Tensor) -> Tensor:
    """Return this process's part of a tensor of any shape that is divided among processes; else the tensor."""
    to_local = getattr(tensor, "to_local", None)
    return tensor.detach() if to_local is None else to_local().detach()
