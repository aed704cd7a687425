"""State that Lightning keeps between steps: loop counters, what was logged in the epoch, callbacks, the data module."""

from __future__ import annotations

import builtins
import importlib
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any

import torch
from torch import nn

OF_A_RESULT = ("value", "cumulated_batch_size", "_forward_cache", "_computed", "has_reset", "_update_count")
"""Attributes of a logged value that change as values come in."""
NO_CHECKPOINT = ("state_dict", "epoch", "global_step", "loops", "callbacks", "optimizer_states", "lr_schedulers")
"""Entries of Lightning's checkpoint that its hooks may look at, and that are other components here."""


class Loops:
    """Counters of the loops, which the library's progress classes declare."""

    def __init__(self, trainer: Any) -> None:
        self.trainer = trainer
        self.pending: dict[str, Any] = {}

    def state_dict(self) -> dict[str, Any]:
        """Return the counters."""
        return dict(self.trainer.fit_loop.state_dict())

    def load_state_dict(self, state: dict[str, Any], /) -> None:
        """Keep them until `apply`."""
        self.pending = state

    def apply(self) -> None:
        """Put them back, so that the loops do not know that they are resumed."""
        pending, self.pending = self.pending, {}
        if pending:
            self.trainer.fit_loop.load_state_dict(pending)
            _forget_resume(self.trainer.fit_loop, type(self.trainer.fit_loop).__mro__[-2])


def _forget_resume(loop: Any, base: type) -> None:
    loop._restarting = loop._loaded_from_state_dict = loop._resuming_from_checkpoint = False
    for each in vars(loop).values():
        if isinstance(each, base):
            _forget_resume(each, base)


class Results:
    """Values that were logged since the epoch began: their running means are watched at its end."""

    def __init__(self, trainer: Any, package: str, logged: dict[str, float]) -> None:
        self.trainer, self.package, self.logged = trainer, package, logged
        self.pending: list[dict[str, Any]] = []

    def state_dict(self) -> dict[str, Any]:
        """Return each value with how it is reduced."""
        results = [self._saved(key, each) for key, each in self._live.items()]
        return {"results": results, "logged": dict(self.logged)}

    def load_state_dict(self, state: dict[str, Any], /) -> None:
        """Keep them until `apply`."""
        self.pending = state["results"]
        self.logged.update(state["logged"])

    def apply(self) -> None:
        """Put them back."""
        pending, self.pending = self.pending, []
        for saved in pending:
            self._live[saved["key"]] = self._made(saved)

    @property
    def _live(self) -> Any:
        return self.trainer.fit_loop.epoch_loop._results

    def _saved(self, key: str, result: Any) -> dict[str, Any]:
        meta, sync = result.meta, result.meta.sync
        described = {each.name: getattr(meta, each.name) for each in fields(meta) if each.name != "_sync"}
        reduced_by = meta.reduce_fx
        described["reduce_fx"] = reduced_by.__name__
        values = {name: getattr(result, name) for name in OF_A_RESULT if hasattr(result, name)}
        if not result.is_tensor:
            values = {"has_reset": result.has_reset, "_update_count": result._update_count}
        return {
            "key": key,
            "meta": described,
            "of_torch": reduced_by is getattr(torch, reduced_by.__name__, None),
            "sync": [sync._should, sync.rank_zero_only],
            "is_tensor": result.is_tensor,
            "values": values,
        }

    def _made(self, saved: dict[str, Any]) -> Any:
        library = importlib.import_module(f"{self.package}.trainer.connectors.logger_connector.result")
        meta = dict(saved["meta"])
        meta["reduce_fx"] = getattr(torch if saved["of_torch"] else builtins, meta["reduce_fx"])
        made = library._Metadata(**meta)
        should, rank_zero_only = saved["sync"]
        made.sync = library._Sync(_should=should, fn=self.trainer.strategy.reduce, rank_zero_only=rank_zero_only)
        result = library._ResultMetric(made, saved["is_tensor"])
        if not saved["is_tensor"]:
            result.value = dict(self.trainer.lightning_module.named_modules())[made.metric_attribute]
            result._forward_cache = result.value._forward_cache
        for name, value in saved["values"].items():
            setattr(result, name, value)
        return result


class Declared:
    """State that callbacks, the data module and the precision plugin declare, and what checkpoint hooks add."""

    def __init__(self, trainer: Any) -> None:
        self.trainer = trainer
        self.pending: dict[str, Any] = {}

    def state_dict(self) -> dict[str, Any]:
        """Return the declared states."""
        trainer = self.trainer
        found = {name: each.state_dict() for name, each in self._owners().items()}
        checkpoint = self._checkpoint()
        before = set(checkpoint)
        for callback in trainer.callbacks:
            callback.on_save_checkpoint(trainer, trainer.lightning_module, checkpoint)
        trainer.lightning_module.on_save_checkpoint(checkpoint)
        added = {name: value for name, value in checkpoint.items() if name not in before}
        return {"states": {name: state for name, state in found.items() if state}, "added": added}

    def load_state_dict(self, state: dict[str, Any], /) -> None:
        """Keep them until `apply`."""
        self.pending = state

    def apply(self) -> None:
        """Give them back to their owners."""
        pending, self.pending = self.pending, {}
        if not pending:
            return
        trainer, owners = self.trainer, self._owners()
        checkpoint = self._checkpoint() | pending["added"]
        trainer.lightning_module.on_load_checkpoint(checkpoint)
        for callback in trainer.callbacks:
            callback.on_load_checkpoint(trainer, trainer.lightning_module, checkpoint)
        for name, state in pending["states"].items():
            if name in owners:
                owners[name].load_state_dict(state)

    def _owners(self) -> dict[str, Any]:
        trainer = self.trainer
        found = {f"{number} {type(each).__name__}": each for number, each in enumerate(trainer.callbacks)}
        if trainer.datamodule is not None:
            found["datamodule"] = trainer.datamodule
        return found | {"precision": trainer.precision_plugin}

    def _checkpoint(self) -> dict[str, Any]:
        trainer = self.trainer
        found: dict[str, Any] = {name: {} for name in NO_CHECKPOINT}
        return found | {"epoch": trainer.current_epoch, "global_step": trainer.global_step}


class Each:
    """Objects with a state, in their order, as one component."""

    def __init__(self, objects: Callable[[], Sequence[Any]]) -> None:
        self.objects = objects

    def state_dict(self) -> dict[str, Any]:
        """Return their states."""
        return {"states": [each.state_dict() for each in self.objects()]}

    def load_state_dict(self, state: dict[str, Any], /) -> None:
        """Put them back."""
        for each, saved in zip(self.objects(), state["states"], strict=True):
            each.load_state_dict(saved)


def objects_of(trainer: Any) -> dict[str, Any]:
    """Return by name the objects whose plain attributes may change while it trains."""
    module: nn.Module = trainer.lightning_module
    found: dict[str, Any] = {f"module {name}": each for name, each in module.named_modules()}
    found |= {f"callback {number} {type(each).__name__}": each for number, each in enumerate(trainer.callbacks)}
    if trainer.datamodule is not None:
        found["datamodule"] = trainer.datamodule
    return found | {"trainer": trainer, "logged": trainer._logger_connector}
