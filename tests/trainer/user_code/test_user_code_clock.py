"""User code is held to the time that it takes itself: what computes by the processor, what waits by the wall."""

from __future__ import annotations

import time
from typing import Any

import pytest
from tests.variants import variants

from trainwright.trainer.run import Limits, RunState
from trainwright.trainer.user_code.clock import Clock

pytestmark = pytest.mark.slow

WAITS = "import threading\ndef hang():\n    while True: threading.Event().wait(0.05)\n"
COMPUTES = "def hang():\n    while True: pass\n"
HANGS = {
    "import": (WAITS + "hang()", "Importing mine", "hang"),
    "build": (WAITS + "class Net(Net):\n    def __init__(self): hang()", "model `mine:Net`", "hang"),
    "computes": (COMPUTES + "class Net(Net):\n    def __init__(self): hang()", "model `mine:Net`", "hang"),
    "forward": (COMPUTES + "class Net(Net):\n    def forward(self, x): hang()", "a first batch", "hang"),
}


@pytest.mark.requirement("GATE-4")
@pytest.mark.parametrize("where", variants(HANGS, quick=["computes", "import"]))
def test_code_that_hangs_is_ended_at_its_limit_and_shown_where(where: str, ended: Any) -> None:
    """What computes is held to its processor time; what waits uses none and has five times as long."""
    code, what, function = HANGS[where]
    run = ended(code, limits=Limits(user_code_seconds=0.5))
    failure = run.status().failure
    assert run.status().state is RunState.FAILED
    assert failure.category == "user_code"
    assert what in failure.message
    assert f", in {function} (mine.py, line " in failure.message
    assert ("0.5 s of processor time" if code.startswith(COMPUTES) else "longer than 2.5 s") in failure.message
    assert "mine.py" in failure.traceback


@pytest.mark.requirement("GATE-4", "TRAIN-10")
def test_our_own_work_is_on_no_clock_and_samples_are_held_one_by_one() -> None:
    watched = Clock()

    def work(seconds: float) -> None:
        end = time.thread_time() + seconds
        while time.thread_time() < end:
            pass

    with watched.of("Reading samples"):
        with watched.each_call_alone():
            for _ in range(5):
                watched.next_call()
                work(0.02)
                with watched.paused():
                    work(0.1)
                assert watched.overrun(0.08) is None
            assert watched.overrun(0.01) is not None
        assert watched.overrun(0.01) is None, "the sum of all samples is no hang"
        work(0.03)
        assert "Reading samples took longer than 0.01 s" in (watched.overrun(0.01) or "")
    assert watched.overrun(0.01) is None, "nothing of the user's runs"
    assert watched.spent().processor < 0.1
