"""Jobs answer an order once, and are told of when they do not; of a daemon there is one, however many ask for it."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Lock
from typing import Any

import psutil
import pytest
from filelock import FileLock

from trainwright.tools.launchers import LAUNCH, Launch, jobs, read_launch, write_launch
from trainwright.trainer.jobs.answering import REPORT

WORK = """
import json, os, sys, time
order = json.load(open(f"{sys.argv[1]}/order.json"))
open(f"{sys.argv[1]}/pid", "w").write(str(os.getpid()))
print("reading postgresql://me:hunter2-hunter2@nowhere/db", flush=True)
time.sleep(order.get("seconds", 0))
if "code" in order:
    sys.exit(order["code"])
json.dump({"order": order.get("id"), "found": 1}, open(f"{sys.argv[1]}/draft", "w"))
os.replace(f"{sys.argv[1]}/draft", f"{sys.argv[1]}/report.json")
time.sleep(order.get("after", 0))
"""
LIVE = """
import sys, time
from filelock import FileLock
with FileLock(f"{sys.argv[1]}/{sys.argv[2]}.lock"):
    time.sleep(600)
"""


def never() -> bool:
    return False


@pytest.fixture
def place(tmp_path: Path) -> Iterator[dict[str, Any]]:
    """Where the modules `work` and `live` are found."""
    (tmp_path / "work.py").write_text(WORK)
    (tmp_path / "live.py").write_text(LIVE)
    yield {"cwd": tmp_path, "env": {"PYTHONPATH": str(tmp_path)}}
    jobs.kill(read_launch(tmp_path))


def test_a_job_that_is_asked_ends_with_the_call_and_says_how_it_ended(tmp_path: Path, place: dict[str, Any]) -> None:
    assert jobs.ask(tmp_path, "work", {"after": 600}, 60, never, **place) == {"order": None, "found": 1}
    assert not psutil.pid_exists(int((tmp_path / "pid").read_text())), "nor is it a zombie"
    jobs.forget(tmp_path, "pid")
    assert jobs.ask(tmp_path, "work", {"seconds": 600}, 60, (tmp_path / "pid").exists, **place) is None
    with pytest.raises(jobs.NoAnswerError) as ended:
        jobs.ask(tmp_path, "work", {"code": 7}, 60, never, **place)
    assert (ended.value.exit_code, ended.value.took_long) == (7, False)
    assert jobs.log_end(tmp_path, "nothing").endswith("reading postgresql://***@nowhere/db")
    with pytest.raises(OSError, match="nowhere"):
        jobs.ask(tmp_path, "work", {}, 60, never, cwd=tmp_path / "nowhere", env={})


def test_a_job_goes_on_after_a_call_and_one_that_takes_too_long_is_ended(tmp_path: Path, place: dict[str, Any]) -> None:
    launch = jobs.begin(tmp_path, "work", {"id": "first", "seconds": 600}, **place)
    assert jobs.answer_of(tmp_path, 0, never, order="first") is None
    with pytest.raises(jobs.NoAnswerError) as ended:
        jobs.answer_of(tmp_path, 60, never, limit=0.0, order="first")
    assert ended.value.took_long
    assert launch.process is not None
    launch.process.wait(60)
    assert not launch.process.is_alive()


def test_an_answer_counts_though_its_process_is_gone_and_that_of_another_order_does_not(tmp_path: Path) -> None:
    write_launch(tmp_path, Launch(error="it was away"))
    (tmp_path / REPORT).write_text(json.dumps({"order": "second"}))
    assert jobs.answer_of(tmp_path, 60, never, order="second") == {"order": "second"}
    with pytest.raises(jobs.NoAnswerError) as ended:
        jobs.answer_of(tmp_path, 60, never, order="third")
    assert ended.value.launch is not None
    jobs.forget(tmp_path)
    assert not any((tmp_path / name).exists() for name in (REPORT, LAUNCH))
    with pytest.raises(jobs.NoAnswerError) as ended:
        jobs.answer_of(tmp_path, math.inf, never)
    assert ended.value.launch is None


def test_of_a_daemon_there_is_one_which_is_started_again_when_it_died(tmp_path: Path, place: dict[str, Any]) -> None:
    lock, one_at_a_time = FileLock(tmp_path / "live.lock"), Lock()

    def next_of(_: object, last: Launch | None) -> Launch | None:
        attempt = last.attempt if last is not None else 0
        return Launch(attempt=attempt + 1) if attempt < 2 else None

    def ensured() -> Launch | None:
        return jobs.ensure(lock, "live", "live", alone=one_at_a_time, following=next_of, **place)

    first = ensured()
    assert first is not None
    assert ensured() is None, "the first may still begin"
    until(lambda: jobs.is_held(lock))
    assert ensured() is None
    jobs.kill(first)
    until(lambda: not jobs.is_held(lock))
    second = ensured()
    assert second is not None
    assert (second.attempt, second.error) == (2, None)
    jobs.kill(second)
    until(lambda: not jobs.is_held(lock) and not second.process.is_alive())
    assert ensured() is None, "there is to be none after two"
    assert (tmp_path / "live.log").is_file()


def test_without_a_rule_for_one_caller_a_daemon_is_started_beside_one_that_ends(
    tmp_path: Path, place: dict[str, Any]
) -> None:
    lock = FileLock(tmp_path / "other.lock")  # the one that lives holds it no more
    first, second = (jobs.ensure(lock, "live", "live", **place) for _ in range(2))
    assert first is not None
    assert second is not None
    assert first.process != second.process
    jobs.kill(first)


def until(holds: Callable[[], bool]) -> None:
    while not holds():
        time.sleep(0.02)
