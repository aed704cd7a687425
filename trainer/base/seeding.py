"""Every random generator: seeded, captured, restored, and keyed to a sample."""

from __future__ import annotations

import ctypes
import hashlib
import random
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
import torch

from trainwright.trainer.base.tensorflow_seed import seed_tensorflow, tensorflow_seed


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
