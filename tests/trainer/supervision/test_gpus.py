"""The machine of a run: memory and disk everywhere, and every GPU where there is one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from trainwright.trainer.supervision.sampling import SystemSampler


@pytest.mark.requirement("MON-1")
def test_memory_of_the_process_and_free_disk_are_sampled(tmp_path: Path) -> None:
    sampler = SystemSampler(os.getpid(), folder=tmp_path)
    sampler.measure()
    found = sampler.take()
    assert 0 < found["process_memory_bytes"] <= found["memory_bytes"]
    status = os.statvfs(tmp_path)
    assert found["disk_free_bytes"] == pytest.approx(status.f_bavail * status.f_frsize, rel=0.2)
    assert not [name for name in found if name.startswith("gpu")], "a run on the CPU"
