"""A worker whose start cannot be recorded ends: it gets no key, whichever way it waits for it."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

import pytest

from trainwright.tools.launchers import Launch
from trainwright.tools.launchers.local import spawn
from trainwright.trainer.base.errors import StorageError

SEED = b"7" * 32
READS = {
    True: "import os, sys; sys.exit(len(os.read(0, 99)))",
    False: "import sys; sys.exit(len(sys.stdin.buffer.read()))",
}


@pytest.mark.requirement("REPRO-6")
@pytest.mark.parametrize("asks", [True, False], ids=["socket", "pipe"])
def test_an_unrecorded_worker_gets_no_key_and_does_not_wait_for_one(tmp_path: Path, *, asks: bool) -> None:
    (tmp_path / "launch.json").mkdir()
    codes: list[int] = []
    has_ended = threading.Event()

    def ended(code: int) -> None:
        codes.append(code)
        has_ended.set()

    with pytest.raises(StorageError):
        spawn(
            tmp_path, Launch(attempt=1), [sys.executable, "-c", READS[asks]], cwd=tmp_path, env=dict(os.environ),
            log="log", seed=SEED, asks=asks, ended=ended,
        )  # fmt: skip
    assert has_ended.wait(30)
    assert codes == [0]
