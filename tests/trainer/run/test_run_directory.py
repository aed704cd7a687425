"""The run directory: what readers see of a writer that may die at any instant."""

from __future__ import annotations

import errno
import math
import multiprocessing
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from trainwright.trainer import config, run
from trainwright.trainer.base import canonical, errors
from trainwright.trainer.base.canonical import digest_file
from trainwright.trainer.base.errors import ConflictError, IntegrityError, NotFoundError, StorageError
from trainwright.trainer.checkpoints import index
from trainwright.trainer.run import (
    MetricStore,
    ProcessIdentity,
    RunDirectory,
    RunState,
    RunStatus,
    environment,
    write_atomically,
)
from trainwright.trainer.run.status import EventWriter, read_events


@pytest.mark.requirement("MCP-3")
def test_a_torn_last_line_is_passed_over_and_closed_by_the_next_writer(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    EventWriter(path).append("started", {"attempt": 1})
    with path.open("ab") as file:
        file.write(b'{"time": 1.0, "kind": "epo')
    assert [event.kind for event in read_events(path)] == ["started"]
    again = EventWriter(path)
    again.append("resumed", {})
    assert [event.kind for event in read_events(path)] == ["started", "resumed"]
    assert again.digest == digest_file(path)
    with path.open("ab") as file:
        file.write(b'{"time": 1.0, "kind": "forged", "data": {}}\n')
    again.append("ended", {})
    assert again.digest != digest_file(path)


@pytest.mark.requirement("MON-1", "TRAIN-9")
def test_metrics_keep_every_bit_and_replayed_steps_overwrite(tmp_path: Path) -> None:
    with MetricStore(tmp_path / "metrics.sqlite", writer=True) as store:
        store.write([("loss", 1, 0.1 + 0.2, 1.0), ("loss", 2, math.nan, 2.0), ("loss", 3, math.inf, 3.0)])
        store.write([("loss", 3, 4.0, 4.0), ("other", 3, 1.0, 4.0)])
    assert store.series("loss")[0].value == 0.1 + 0.2
    assert math.isnan(store.series("loss")[1].value)
    assert store.last("loss").value == 4.0
    assert store.keys() == ["loss", "other"]
    assert store.latest()["other"].step == 3
    assert store.buckets("loss", 2)[-1][3] == 4.0
    assert MetricStore(tmp_path / "none.sqlite").series("loss") == []


@pytest.mark.requirement("MON-1")
def test_a_damaged_metrics_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "metrics.sqlite").write_bytes(b"not a database, certainly not one" * 100)
    with pytest.raises(IntegrityError, match="cannot be read"):
        MetricStore(tmp_path / "metrics.sqlite").keys()


@pytest.mark.requirement("TRAIN-10", "MCP-3")
def test_the_lock_is_the_truth_on_who_lives(tmp_path: Path, make_run: Any, digits: dict[str, Any]) -> None:
    run = make_run(tmp_path / "run", digits)
    assert run.status().state is RunState.CREATED
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        with run.lock():
            run.write_status(RunStatus(state=RunState.RUNNING))
            os.write(writer, b"1")
            signal.pause()
    os.read(reader, 1)
    assert run.is_locked()
    assert run.status().state is RunState.RUNNING
    with pytest.raises(ConflictError, match="Another worker"), run.lock():
        pass
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert run.status().state is RunState.INTERRUPTED
    assert not run.is_locked()


@pytest.mark.requirement("TRAIN-10")
def test_a_child_of_the_worker_does_not_keep_its_lock(tmp_path: Path, make_run: Any, digits: dict[str, Any]) -> None:
    run = make_run(tmp_path / "run", digits)
    context = multiprocessing.get_context("fork")
    runs, release = context.Event(), context.Event()
    with run.lock():
        child = context.Process(target=lambda: runs.set() or release.wait())
        child.start()
        runs.wait()
    assert not run.is_locked()
    release.set()
    child.join()


@pytest.mark.requirement("TRAIN-10")
def test_a_process_identity_is_not_fooled_by_its_id() -> None:
    me = ProcessIdentity.current()
    assert me.is_alive()
    assert not me.model_copy(update={"started_at": me.started_at - 100.0}).is_alive()
    assert not me.model_copy(update={"boot_id": "another"}).is_alive()


def test_reading_what_is_missing_or_damaged_is_told(tmp_path: Path, make_run: Any, digits: dict[str, Any]) -> None:
    with pytest.raises(NotFoundError):
        RunDirectory(tmp_path / "none").specification()
    run = make_run(tmp_path / "run", digits)
    assert run.evidence("summary") is None
    (run.artifacts / "summary.json").write_text("{")
    with pytest.raises(IntegrityError, match=r"summary\.json"):
        run.evidence("summary")
    with pytest.raises(ConflictError):
        make_run(tmp_path / "run", digits)


def test_a_write_that_cannot_be_made_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"old")
    tmp_path.chmod(0o500)
    try:
        if os.access(tmp_path, os.W_OK):
            pytest.skip("this user may write anywhere")
        with pytest.raises(StorageError):
            write_atomically(path, b"new")
    finally:
        tmp_path.chmod(0o700)
    assert path.read_bytes() == b"old"


@pytest.mark.requirement("CKPT-2")
def test_a_write_that_finds_the_disk_full_leaves_the_old_file_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    write_atomically(tmp_path / "file", b"old")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match="No space left"):
        write_atomically(tmp_path / "file", b"new, and longer")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"file": b"old"}


@pytest.mark.requirement("MCP-3")
def test_light_modules_import_nothing_heavy() -> None:
    light = ", ".join(module.__name__ for module in (config, run, errors, canonical, environment, index))
    code = f"import sys, {light}; print({{'torch', 'transformers', 'numpy'}} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
