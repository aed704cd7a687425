"""Every random generator: seeded, captured, restored, and keyed to a sample."""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import random
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import numpy as np
import torch


def seed_everything(seed: int) -> dict[str, bool | None]:
    """Seed Python, NumPy, torch, CUDA and TensorFlow (at its import, where it is not loaded yet).

    Returns:
        Whether each was seeded; None: absent.
    """
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)  # the CPU and every CUDA device
    return {
        "python": True,
        "numpy": True,
        "torch": True,
        "cuda": True if torch.cuda.is_available() else None,
        "loader_workers": True,  # every sample is keyed: see keyed()
        "tensorflow": seed_tensorflow(seed),
    }


def capture() -> dict[str, Any]:
    """Return the state of every global generator, as tensors, arrays and plain values."""
    return {
        "python": random.getstate(),
        "numpy": np.random.get_state(),
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if _cuda_is_used() else [],
    }


def _cuda_is_used() -> bool:
    return bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]


def restore(state: dict[str, Any]) -> None:
    """Put every global generator back to a captured state."""
    random.setstate(state["python"])
    np.random.set_state(state["numpy"])
    torch.set_rng_state(state["torch"])
    if state["cuda"]:
        torch.cuda.set_rng_state_all(state["cuda"])


@contextmanager
def preserved() -> Iterator[None]:
    """Restore the global generators on leaving the context; TensorFlow's begin again where it was seeded otherwise."""
    state, of_tensorflow = capture(), tensorflow_seed()
    try:
        yield
    finally:
        restore(state)
        if of_tensorflow is not None and tensorflow_seed() != of_tensorflow:
            seed_tensorflow(of_tensorflow)


STATE_BYTES = 624 * 4 + 4
"""Of the Mersenne Twister in NumPy: 624 words and the place of the next."""


@contextmanager
def quickly_preserved() -> Iterator[None]:
    """Do as `preserved`, in a fifth of the time, for the reading of a batch.

    NumPy's state is copied as memory, since reading it as an array takes longer than a small batch does. The second
    half of a pair of NumPy's normal numbers is forgotten, always: who resumes restores before the next reading.
    """
    generator = np.random.mtrand.get_bit_generator()
    if not _is_copied_as_memory(generator):
        with preserved():
            yield
        return
    address = generator.ctypes.state_address
    python, numpy, of_torch = random.getstate(), ctypes.string_at(address, STATE_BYTES), torch.get_rng_state()
    devices = [(each, each.get_state()) for each in torch.cuda.default_generators] if _cuda_is_used() else []
    try:
        yield
    finally:
        np.random.mtrand.set_bit_generator(generator)  # also forgets the half pair
        ctypes.memmove(address, numpy, STATE_BYTES)
        random.setstate(python)
        torch.set_rng_state(of_torch)
        for of_device, state in devices:
            of_device.set_state(state)


@cache
def _is_copied_as_memory(generator: Any) -> bool:
    """Return whether a copy of the memory is all of a generator's state, by trying it."""
    if type(generator) is not np.random.MT19937:
        return False
    before, address = generator.state, generator.ctypes.state_address
    kept = ctypes.string_at(address, STATE_BYTES)
    generator.random_raw(3)
    moved = generator.state["state"]
    ctypes.memmove(address, kept, STATE_BYTES)
    again = generator.state["state"]
    same = bool((again["key"] == before["state"]["key"]).all()) and again["pos"] == before["state"]["pos"]
    return same and moved["pos"] != before["state"]["pos"]


def key_of(*parts: int) -> int:
    """Mix integers, for example (seed, epoch, sample index), into one 64-bit seed."""
    text = ",".join(map(str, parts)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")


def seed_sample(*parts: int) -> None:
    """Key the generators that data sets draw from to one sample: the same draws in any process, in any order."""
    key = key_of(*parts)
    random.seed(key)
    np.random.seed(key & 0xFFFF_FFFF)
    torch.default_generator.manual_seed(key & 0x7FFF_FFFF_FFFF_FFFF)


def seed_measurement(*parts: int) -> None:
    """Key every generator, the devices' too, before a measurement whose draws are to be the same each time.

    Called where all of them are preserved. Samples are read on the CPU, so `seed_sample` leaves the devices alone.
    """
    seed_sample(*parts)
    if _cuda_is_used():
        torch.cuda.manual_seed_all(key_of(*parts) & 0x7FFF_FFFF_FFFF_FFFF)


SPLITS = ("train", "validation", "test")


def of_split(number: int) -> tuple[int, ...]:
    """Return the part of a draw's key that names the split: empty for the first, so that training draws as before.

    Negative, as no index of a sample is: one split's key is never another's.
    """
    return (-number,) if number else ()


def permutation(seed: int, epoch: int, size: int) -> np.ndarray[Any, Any]:
    """Return the order of an epoch's samples: a pure function of (seed, epoch), so a position needs no state.

    It is of int32, and of int64 from 2 ** 31 samples on; the width changes nothing of the order.
    """
    order = np.arange(size, dtype=np.int32 if size < 2**31 else np.int64)
    np.random.default_rng([seed, epoch]).shuffle(order)
    return order


# TensorFlow, seeded at the end of its own import: before the code that imports it can draw from it.
#
# Seeded after the user's import, all that the import drew would be unseeded; importing it here would cost runs that
# never use it three seconds. So a finder waits for the import, in this process and in its forks.

NAME = "tensorflow"
_waiting: _Finder | None = None


def seed_tensorflow(seed: int) -> bool | None:
    """Seed TensorFlow, now if it is loaded and at its import otherwise; leave the other generators alone.

    Operations without a deterministic implementation are errors from then on. Its generators cannot be read, so no
    checkpoint has them.

    Returns:
        Whether it is seeded or will be; None where it is not installed, False where what is loaded is none.
    """
    global _waiting  # noqa: PLW0603 - of this process, as sys.meta_path is
    if _waiting is None or _waiting not in sys.meta_path:
        _waiting = _Finder()
        sys.meta_path.insert(0, _waiting)
    _waiting.seed = seed
    if NAME in sys.modules:
        return _waiting.seed_loaded()
    with suppress(ImportError, ValueError):
        return None if importlib.util.find_spec(NAME) is None else True
    return None


def tensorflow_seed() -> int | None:
    """Return the seed that TensorFlow was given last, or will be at its import; None before there was one."""
    return None if _waiting is None else _waiting.seed


def is_tensorflow_seeded() -> bool:
    """Return whether TensorFlow is loaded and seeded."""
    return _waiting is not None and NAME in sys.modules and _waiting.has_seeded


class _Finder(MetaPathFinder):
    """Finds TensorFlow as the other finders do, and seeds it once it has been loaded."""

    def __init__(self) -> None:
        self.seed = 0
        self.has_seeded = False

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the others' spec, with a loader that seeds; None for any other module."""
        if fullname != NAME:
            return None
        for finder in sys.meta_path:
            found = None if finder is self else finder.find_spec(fullname, path, target)
            if found is not None:
                if found.loader is not None:
                    found.loader = _Loader(found.loader, self)
                return found
        return None

    def seed_loaded(self) -> bool:
        """Seed the loaded module; return whether it is one that can be: a stand-in of some test may not be."""
        tensorflow = sys.modules[NAME]
        try:
            tensorflow.random.set_seed(self.seed)
            tensorflow.config.experimental.enable_op_determinism()
        except AttributeError:
            return False
        self.has_seeded = True
        return True


class _Loader(Loader):
    """Loads with the module's own loader, which the module keeps, and then seeds."""

    def __init__(self, own: Loader, finder: _Finder) -> None:
        self.own, self.finder = own, finder

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Return what its own loader does."""
        return self.own.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Run the module, then seed it, before control returns to whoever imports it."""
        if module.__spec__ is not None:
            module.__spec__.loader = self.own
        module.__loader__ = self.own
        self.own.exec_module(module)
        self.finder.seed_loaded()
