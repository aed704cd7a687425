"""A server that is killed in the middle of a call, for tests of what the next one finds."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

import pytest


def die(*_: object, **__: object) -> None:
    """End as a server does that is killed: nothing is rolled back, flushed or cleaned up by it."""
    os.kill(os.getpid(), signal.SIGKILL)


def call_and_die(patch: Callable[[pytest.MonkeyPatch], None], call: Callable[[], Any]) -> None:
    """Make the call in a forked server that dies where `patch` says; fails when it lives on."""
    child = os.fork()
    if child == 0:
        try:
            patch(pytest.MonkeyPatch())
            call()
        finally:
            os._exit(70)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL
