"""State that a library's objects keep as plain attributes between steps: counters, buffers, running metrics.

A trainer, its callbacks and its subclasses keep such state without declaring it. What differs from the beginning of
training is saved; everything else the user's function makes anew, the same each time.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from trainwright.trainer.base.canonical import digest_json
from trainwright.trainer.base.errors import UserCodeError
from trainwright.trainer.checkpoints.packing import is_storable, pack
from trainwright.trainer.config.goal import corrected_metric
from trainwright.trainer.data.fingerprint import sample_digest, weights_digest
from trainwright.trainer.frameworks.generators import KINDS, LIBRARIES, is_generator, put_state, state_of

OF_THE_CLOCK = re.compile(
    r"(\w+_)?(runtime|(samples|steps|tokens)_per_second|jit_compilation_time|model_preparation_time)"
    r"|(train_|eval_)?step_time|_current_train_step_time|_train_start_time|_last_val_time|_last_time_checked"
)
"""The libraries' names of what a clock measures, whole: no two runs have the same, and no step depends on them."""
PLAIN = (bool, int, float, str)
OF_A_MODULE = frozenset({
    *(vars(nn.Module()).keys() - {"training"}), "_metric_attributes", "_current_fx_name", "_dtype", "_device",
    "_should_prevent_trainer_and_dataloaders_deepcopy", "_defaults", "_persistent", "_reductions",
})  # fmt: skip
"""Attributes of a module that are kept elsewhere, or made anew."""


class _NotPlainError(Exception):
    """A value that no checkpoint can hold."""


class Attributes:
    """The plain attributes of some objects, as far as training changes them.

    Args:
        objects: by name, those of the present moment.
        without: attributes that are kept elsewhere, or made anew.
    """

    def __init__(self, objects: Callable[[], dict[str, Any]], without: Iterable[str] = ()) -> None:
        self.objects, self.without = objects, frozenset(without)
        self.first: dict[tuple[str, str], str] = {}
        """Digest of each attribute before the first step."""
        self.pending: dict[str, Any] = {}

    def begin(self) -> None:
        """Note what everything is like before training."""
        self.first = {place: _digest(value) for place, value in self._plain()}

    def state_dict(self) -> dict[str, Any]:
        """Return the attributes that are other than at the beginning."""
        found: dict[str, Any] = {}
        for (owner, name), value in self._plain():
            if self.first.get((owner, name)) != _digest(value):
                found.setdefault(owner, {})[name] = value
        return found

    def load_state_dict(self, state: dict[str, Any], /) -> None:
        """Keep them until `apply`."""
        self.pending = state

    def apply(self) -> None:
        """Put them in place, containers in the form that they have there."""
        pending, self.pending = self.pending, {}
        objects = self.objects()
        for owner, values in pending.items():
            for name, value in values.items() if owner in objects else ():
                setattr(objects[owner], name, refilled(getattr(objects[owner], name, None), value))

    def left_out(self) -> list[str]:
        """Return a sentence that names the attributes of the user's own types, where there are such."""
        found = [
            f"{owner}.{name} ({type(value).__name__})"
            for owner, each in self.objects().items()
            for name, value in vars(each).items()
            if name not in self.without and _is_of_the_user(value)
        ]
        if not found:
            return []
        return [f"Not in the checkpoint, and in a resumed run as the function makes them: {', '.join(found)}."]

    def _plain(self) -> list[tuple[tuple[str, str], Any]]:
        found = []
        for owner, each in self.objects().items():
            for name, value in vars(each).items():
                if name in self.without or OF_THE_CLOCK.fullmatch(name):
                    continue
                try:
                    found.append(((owner, name), plain(value)))
                except _NotPlainError:
                    continue
        return found


class Modules:
    """Modules beside the trained one (a reference, a reward model), saved where training changed them."""

    def __init__(self, modules: Callable[[], dict[str, nn.Module]]) -> None:
        self.modules = modules
        self.first: dict[str, str] = {}
        self.pending: dict[str, Any] = {}

    def begin(self) -> None:
        """Note their weights before training."""
        self.first = {name: weights_digest(module.state_dict()) for name, module in self.modules().items()}

    def state_dict(self) -> dict[str, Any]:
        """Return the weights of those that changed, and the digest of the others' first ones."""
        states = {name: module.state_dict() for name, module in self.modules().items()}
        changed = {name: state for name, state in states.items() if self.first.get(name) != weights_digest(state)}
        return {"first": dict(self.first), "changed": changed}

    def load_state_dict(self, state: dict[str, Any], /) -> None:
        """Keep it until `apply`."""
        self.pending = state

    def apply(self) -> None:
        """Put the weights back.

        Raises:
            UserCodeError: a module began with other weights than in the run that is resumed.
        """
        pending, self.pending = self.pending, {}
        for name, digest in pending.get("first", {}).items():
            if self.first.get(name) != digest:
                raise UserCodeError(
                    f"`{name}` of the trainer has other weights than when the run began: it is not made the same "
                    "each time.",
                    remedy="Build it from a file, or from draws of torch's seeded generator, and start a new run.",
                )
        for name, module in self.modules().items():
            if name in pending.get("changed", {}):
                module.load_state_dict(pending["changed"][name])


def named(values: Mapping[str, Any]) -> dict[str, float]:
    """Return measured values by the names that a run has for them: without `eval_`, without clocks and counts."""
    found = {name.removeprefix("eval_"): value for name, value in values.items()}
    return in_our_words(
        {
            name: float(value)
            for name, value in found.items()
            if name != "epoch" and not OF_THE_CLOCK.fullmatch(name) and isinstance(value, int | float)
        }
    )


def plain(value: Any) -> Any:
    """Return a value in types that a checkpoint holds. Raises _NotPlainError for anything else."""
    if value is None or isinstance(value, PLAIN) or _is_array(value):
        return value
    if is_generator(value):
        return state_of(value)
    if isinstance(value, dict):
        return {plain(key): plain(item) for key, item in value.items() if not _is_of_the_clock(key)}
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    if isinstance(value, list | deque):
        return list(map(plain, value))
    if isinstance(value, set | frozenset):
        return sorted(map(plain, value), key=repr)
    raise _NotPlainError(type(value).__name__)


def refilled(present: Any, saved: Any) -> Any:
    """Return the saved value in the form of the present one, in place where that is a container."""
    if isinstance(present, dict) and isinstance(saved, dict):
        made = present.default_factory if isinstance(present, defaultdict) else None
        before = dict(present)
        present.clear()
        for key, item in saved.items():
            present[key] = refilled(before[key] if key in before else made() if made is not None else None, item)
        return present
    if isinstance(present, deque):
        present.clear()
        present += saved
        return present
    if isinstance(present, set | frozenset) and isinstance(saved, list):
        return type(present)(saved)
    if isinstance(present, list) and isinstance(saved, list):
        present[:] = saved
        return present
    if isinstance(present, KINDS):
        put_state(present, saved)
        return present
    return _tensor(present, saved) if isinstance(saved, Tensor) else saved


def _tensor(present: Any, saved: Tensor) -> Tensor:
    """Return the present tensor with the saved values: an optimizer, or another attribute, may hold the same one."""
    if isinstance(present, Tensor) and (present.shape, present.dtype) == (saved.shape, saved.dtype):
        with torch.no_grad():
            return present.copy_(saved)
    return saved.clone()


def _is_of_the_user(value: Any) -> bool:
    known = type(value).__module__.partition(".")[0] in LIBRARIES or callable(value)
    return not known and not isinstance(value, (nn.Module, Tensor, *KINDS)) and not _is_plain(value)


def _is_plain(value: Any) -> bool:
    try:
        plain(value)
    except _NotPlainError:
        return False
    return True


def _is_array(value: Any) -> bool:
    if isinstance(value, Tensor):
        return not isinstance(value, nn.Parameter) and is_storable(value.dtype)
    return isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "biuf"


def _is_of_the_clock(key: Any) -> bool:
    return isinstance(key, str) and OF_THE_CLOCK.fullmatch(key) is not None


def _digest(value: Any) -> str:
    tensors: dict[str, torch.Tensor] = {}
    packed = pack(value, "value", tensors)
    return digest_json([packed, {name: sample_digest(each) for name, each in tensors.items()}])


# Names of what a library's trainer measures, in the words in which goals are read.


def in_our_words(values: Mapping[str, float]) -> dict[str, float]:
    """Return measured values by our names of metrics (`acc` is `accuracy`); names that would get the same one stay.

    A goal is read in these words too, so that whoever asks for `macro_f1` finds what the trainer calls `macro_f1`.
    """
    ours = {name: corrected_metric(name) for name in values}
    taken = Counter(ours.values())
    return {ours[name] if taken[ours[name]] == 1 else name: value for name, value in values.items()}
