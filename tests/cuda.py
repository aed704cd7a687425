"""The card of this machine, if there is one: hidden from all tests but those marked `gpu`, which run by themselves.

A process that has initialised CUDA, or only asked torch how many devices there are, forks children in which CUDA fails.
pytest's process forks workers by the hundred, so it never asks: another process does, once for the session. Tests
without the mark then see no card, here and in all that they start, and mean the same on every machine. In a session of
marked ones alone (`pytest -m gpu`) the card is shown, and whatever would be a fork starts as a process of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SHOWN = "CUDA_VISIBLE_DEVICES"
ANSWER, BEFORE = "TRAINWRIGHT_TESTS_CUDA", "TRAINWRIGHT_TESTS_CUDA_VISIBLE_DEVICES"
"""For the processes of xdist: whether torch finds a device, and what SHOWN was before it was hidden."""
NOT_SET = "not set"
NO_CARD = "needs a CUDA device; torch finds none on this machine"
NOT_ALONE = "needs the card, which is hidden from the other tests of this session: pytest -m gpu"
_is_shown = False


def has_cuda() -> bool:
    """Return whether torch finds a CUDA device; asked of a process of its own, and of none where there is no card."""
    if ANSWER not in os.environ:
        os.environ[ANSWER] = str(int(_has_card() and _torch_finds_one()))
    return os.environ[ANSWER] == "1"


def is_shown() -> bool:
    """Return whether this session's tests compute on a card: then nothing may be forked that is to use it."""
    return _is_shown


def hide() -> None:
    """Let this process, and what it starts, see no card."""
    os.environ.setdefault(BEFORE, os.environ.get(SHOWN, NOT_SET))  # a process of xdist finds it hidden already
    os.environ[SHOWN] = ""


def show_to(items: list[pytest.Item]) -> None:
    """Show the card if the session's tests all want it; else skip those that do."""
    global _is_shown  # noqa: PLW0603 - of this session
    wanting = [item for item in items if item.get_closest_marker("gpu")]
    if not wanting or not has_cuda():
        return
    if len(wanting) < len(items):
        for item in wanting:
            item.add_marker(pytest.mark.skip(reason=NOT_ALONE))
        return
    _is_shown = True
    os.environ[SHOWN] = os.environ.pop(BEFORE)
    if os.environ[SHOWN] == NOT_SET:
        del os.environ[SHOWN]


def _has_card() -> bool:
    if Path("/dev/kfd").exists():  # AMD's
        return True
    try:
        import pynvml

        pynvml.nvmlInit()
        return bool(pynvml.nvmlDeviceGetCount())
    except Exception:  # noqa: BLE001 - no driver, no library: all the same here
        return False


def _torch_finds_one() -> bool:
    code = "import torch; print(torch.cuda.is_available())"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=False)
    return done.stdout.strip() == "True"
