"""Estimates asked of a process: torch stays out of the server, answers are kept, errors come back as what they are."""

from __future__ import annotations

import sys
from pathlib import Path

import psutil
import pytest

from trainwright.tools.estimation import estimate
from trainwright.trainer.base.errors import ConfigurationError, UserCodeError
from trainwright.trainer.config import parse_config


@pytest.fixture(scope="module", autouse=True)
def warm_runs() -> None:
    """Start each process as it is started: how it starts and ends is what these tests show."""


@pytest.mark.long
@pytest.mark.requirement("ARCH-4")
def test_an_answer_is_kept_until_a_file_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, cache = tmp_path / "code", tmp_path / "cache"
    code.mkdir()
    config = parse_config({"model": {"use": "mlp"}, "data": {"use": "digits"}})
    found = estimate(config, code, connections={}, cache=cache)
    assert found.memory.peak_bytes > 4 * found.memory.weights_bytes
    assert found.work.flops_per_step > 0
    monkeypatch.setattr(sys, "executable", "no python")  # whoever asks a process now, fails
    assert estimate(config, code, connections={}, cache=cache) == found
    (code / "new.txt").write_text("more")
    with pytest.raises(OSError, match="no python"):
        estimate(config, code, connections={}, cache=cache)


@pytest.mark.slow
@pytest.mark.requirement("ARCH-4")
def test_the_users_error_comes_back_as_such(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("def make():\n    raise RuntimeError('no such layer')\n")
    config = parse_config({"model": {"use": "broken.py:make"}, "data": {"use": "digits"}})
    with pytest.raises(UserCodeError, match="no such layer"):
        estimate(config, tmp_path, connections={})
    with pytest.raises(ConfigurationError, match="longer than 0 s") as refused:
        estimate(config, tmp_path, connections={}, timeout_seconds=0.01)
    assert "kind='probe'" in refused.value.remedy


@pytest.mark.long
@pytest.mark.requirement("ARCH-4", "MCP-1")
def test_a_call_that_is_given_up_ends_the_process(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(
        "import os, time\ndef make():\n    open('begun', 'w').write(str(os.getpid()))\n    time.sleep(600)\n"
    )
    config = parse_config({"model": {"use": "slow.py:make"}, "data": {"use": "digits"}})
    begun = tmp_path / "begun"
    with pytest.raises(ConfigurationError, match="cancelled"):
        estimate(config, tmp_path, connections={}, should_stop=lambda: begun.exists() and bool(begun.read_text()))
    assert not psutil.pid_exists(int(begun.read_text()))
