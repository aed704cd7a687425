"""Calls of a model's modules during a step: in which mode, with gradients or without, on what, and with what result."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from trainwright.trainer.watch.inspector import Nothing
from trainwright.trainer.watch.silent.tensors import Facts, alike_rows, facts_of, tensors_in

MAX_OUTPUT_ROWS = 16
FAST_PATHS = (nn.MultiheadAttention, nn.TransformerEncoderLayer, nn.TransformerEncoder)
"""Modules that compute otherwise in evaluation while somebody watches torch's functions."""


@dataclass
class Call:
    """One call of a module by user code, not by another module.

    Attributes:
        inputs: facts of the tensors that it was given, by name or number.
        alike: whether the output's rows are all the same though the inputs' are not.
        inner: whether each module's float inputs were so, up to the first module that dropout or statistics change.
    """

    module: str
    with_gradients: bool
    inputs: dict[str, Facts] = field(default_factory=dict)
    alike: bool = False
    inner: list[bool] = field(default_factory=list)


@dataclass
class Calls:
    """Everything that was called in a step.

    Attributes:
        called: names of all modules that were called; `with_gradients` those of them that could learn then.
        modes: for modules that dropout or batch statistics make different in training: whether each was in training.
        in_evaluation: names of all modules in evaluation mode when a module in `modes` was called.
    """

    outermost: list[Call] = field(default_factory=list)
    called: set[str] = field(default_factory=set)
    with_gradients: set[str] = field(default_factory=set)
    modes: dict[str, bool] = field(default_factory=dict)
    in_evaluation: set[str] = field(default_factory=set)


def depends_on_mode(module: nn.Module) -> bool:
    """Whether the module itself computes something else in training than in evaluation."""
    if isinstance(module, _DropoutNd):
        return module.p > 0
    if isinstance(module, _BatchNorm):
        return module.track_running_stats
    rate = getattr(module, "dropout", 0.0)
    return isinstance(module, nn.RNNBase | nn.MultiheadAttention) and isinstance(rate, float) and rate > 0


class Hook:
    """A hook of one step. In a copy of the module, which nobody clears, it is nothing."""

    def __init__(self, act: Callable[[nn.Module, Any, Any], None]) -> None:
        self.act = act

    def __call__(self, module: nn.Module, given: Any, other: Any) -> None:
        """Write down what is seen."""
        self.act(module, given, other)

    def __reduce__(self) -> tuple[type[Nothing], tuple[()]]:
        return Nothing, ()


class ModuleWatch:
    """Hooks on all modules of a model that write down their calls."""

    def __init__(
        self, model: nn.Module, suspend: Callable[[], None] = lambda: None, resume: Callable[[], None] = lambda: None
    ) -> None:
        """Prepare.

        Args:
            suspend: called before a module that must not be watched from inside; `resume` after it.
        """
        self.model, self.suspend, self.resume = model, suspend, resume
        self.timed: Callable[[], AbstractContextManager[None]] = nullcontext
        """Counts the time that is spent in it."""
        self.is_training = True
        """Whether modes are those of calls with gradients: a step may predict without them in evaluation mode."""
        self.calls = Calls()
        self.stack: list[nn.Module] = []
        """Modules that are being computed, the outermost first."""

    @contextmanager
    def watching(self, *, is_full: bool = True) -> Iterator[Calls]:
        """Write down the calls inside the context; unless `is_full`, only keep out of modules with fast paths."""
        self.calls, self.stack = Calls(), []
        with ExitStack() as hooks:
            for name, module in self.model.named_modules():
                if isinstance(module, torch.jit.ScriptModule) or not (is_full or isinstance(module, FAST_PATHS)):
                    continue
                before, after = self._before(name), self._after(name)
                hooks.callback(module.register_forward_pre_hook(before, prepend=True, with_kwargs=True).remove)
                hooks.callback(module.register_forward_hook(after, always_call=True).remove)
            yield self.calls

    @property
    def inside_switchable(self) -> bool:
        """Whether the module that is being computed is one whose mode is known."""
        return bool(self.stack) and depends_on_mode(self.stack[-1])

    def _before(self, name: str) -> Hook:
        def see(module: nn.Module, args: Any, kwargs: Any) -> None:
            with suppress(Exception), self.timed():  # whatever the inputs are, the call itself goes on
                self._note(name, module, args, kwargs)
            self.stack.append(module)
            if isinstance(module, FAST_PATHS) and not module.training:
                self.suspend()

        return Hook(see)

    def _note(self, name: str, module: nn.Module, args: Any, kwargs: Any) -> None:
        calls, learns = self.calls, torch.is_grad_enabled()
        calls.called.add(name)
        if learns:
            calls.with_gradients.add(name)
        if depends_on_mode(module) and learns is self.is_training and name not in calls.modes:
            calls.modes[name] = module.training
            if not module.training:
                calls.in_evaluation |= {other for other, each in self.model.named_modules() if not each.training}
        if self.stack and calls.outermost and not calls.modes and not any(module.children()):
            self._note_inner(calls.outermost[-1], args)
        if not self.stack:
            calls.outermost.append(call := Call(name, learns))
            given = dict(tensors_in(args)) | dict(tensors_in(kwargs))
            call.inputs = {key: facts_of(value) for key, value in given.items()}

    def _note_inner(self, call: Call, args: Any) -> None:
        """Note whether a module inside of a call is given the same in all rows, where the call is not."""
        given = [value for _, value in tensors_in(args) if value.is_floating_point()]
        rows = {facts.rows for facts in call.inputs.values()}
        if given and rows == {len(given[0])} and not all(facts.alike for facts in call.inputs.values()):
            call.inner.append(alike_rows(given[0].detach().reshape(len(given[0]), -1)[:MAX_OUTPUT_ROWS].double()))

    def _after(self, name: str) -> Hook:
        def see(module: nn.Module, _inputs: Any, output: Any) -> None:
            if isinstance(module, FAST_PATHS) and not module.training:
                self.resume()
            if self.stack:
                self.stack.pop()
            call = self.calls.outermost[-1] if self.calls.outermost else None
            if not self.stack and call is not None and call.module == name:
                with suppress(Exception), self.timed():
                    call.alike = _ignores_inputs(call, output)

        return Hook(see)


def _ignores_inputs(call: Call, output: Any) -> bool:
    """Whether the first output that has the inputs' rows is the same in each of them, and the inputs are not."""
    rows = {facts.rows for facts in call.inputs.values()}
    if len(rows) != 1 or all(facts.alike for facts in call.inputs.values()) or min(rows) < 4:
        return False
    for _, value in tensors_in(output):
        if value.is_floating_point() and len(value) in rows:
            return alike_rows(value.detach()[:MAX_OUTPUT_ROWS].reshape(min(len(value), MAX_OUTPUT_ROWS), -1).double())
    return False
