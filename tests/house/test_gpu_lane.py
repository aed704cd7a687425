"""The GPU lane: its own judgement, which has to be right before a card is there, and its page."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

pytestmark = pytest.mark.requirement("GPU-1")

ROOT = Path(__file__).parents[2]
LANE = ROOT / "benchmarks" / "gpu"
PLANTED = """
    import os, subprocess, sys, time
    from pathlib import Path
    from lane import check

    @check("good", 60)
    def good(lane):
        "Holds"
        lane.goal("speed", 0.5, least=0.9)

    @check("wrong", 60)
    def wrong(lane):
        "Does not hold"
        lane.figures["measured"] = 3
        assert 1 + 1 == 3, "one and one are two"

    @check("hung", 5)
    def hung(lane):
        "Never ends, and has started a worker in a session of its own"
        worker = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", str(lane.folder)],
                                  start_new_session=True)
        Path(os.environ["PIDS"]).write_text(str(worker.pid))
        time.sleep(600)

    @check("lost", 60)
    def lost(lane):
        "Fails while a worker of its own goes on in its folder"
        worker = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True,
                                  cwd=lane.folder)
        Path(os.environ["PIDS"] + "-lost").write_text(str(worker.pid))
        raise ValueError("lost")

    @check("killed", 60)
    def killed(lane):
        "Takes its process along"
        os.kill(os.getpid(), 9)

    @check("lonely", 60, alone=True)
    def lonely(lane):
        "Measures, so nothing else may run"

    @check("elsewhere", 60, only_on_card="a CPU has none")
    def elsewhere(lane):
        "Needs a card"

    @check("lacking", 60, needs=("no_such_package",))
    def lacking(lane):
        "Needs a package"
"""


def lane(*options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", str(LANE), *options]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ | environment, check=False)


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The lane's registry and record, as `make gpu` has them."""
    monkeypatch.syspath_prepend(str(LANE))
    importlib.import_module("rows")
    return importlib.import_module("lane"), importlib.import_module("record")


@pytest.mark.long
@pytest.mark.slow
def test_a_failing_hanging_or_dying_check_is_reported_with_its_last_lines_and_never_stops_the_next(
    tmp_path: Path,
) -> None:
    (tmp_path / "planted.py").write_text(textwrap.dedent(PLANTED))
    options = ("--rehearse", "--checks", str(tmp_path / "planted.py"), "--side-by-side", "2", "--out", str(tmp_path))
    done = lane(*options, PIDS=str(tmp_path / "pids"))
    assert done.returncode == 1, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert {key: found[key] for key in ("checks", "passed", "failed", "not_run", "not_on_cpu")} == {
        "checks": 8, "passed": 2, "failed": 4, "not_run": 1, "not_on_cpu": 1,
    }  # fmt: skip
    results = json.loads((tmp_path / "gpu.json").read_text())["results"]
    assert results["good"]["status"] == "passed", "a goal binds on a card alone"
    assert results["good"]["figures"] == {"speed": 0.5}
    assert "one and one are two" in results["wrong"]["said"]
    assert results["wrong"]["figures"] == {"measured": 3}
    assert "longer than 20 s" in results["hung"]["said"]
    assert results["killed"]["status"] == "failed"
    assert results["lacking"]["said"] == "not installed: no_such_package"
    for name in ("pids", "pids-lost"):
        assert not psutil.pid_exists(int((tmp_path / name).read_text())), "its worker is ended with it"
    assert len(done.stdout.splitlines()) == 9, "a line for each check, and the object"


@pytest.mark.long
@pytest.mark.slow
def test_a_lane_that_is_ended_from_outside_ends_its_checks_and_leaves_the_results_so_far(tmp_path: Path) -> None:
    (tmp_path / "planted.py").write_text(textwrap.dedent(PLANTED))
    command = [sys.executable, "-P", str(LANE), "--rehearse", "--checks", str(tmp_path / "planted.py")]
    options = ["--only", "good,hung", "--side-by-side", "1", "--out", str(tmp_path)]
    with subprocess.Popen([*command, *options], env=os.environ | {"PIDS": str(tmp_path / "pids")}) as process:
        while not (tmp_path / "pids").exists():
            assert process.poll() is None
            time.sleep(0.05)
        process.terminate()
        process.wait()
    found = json.loads((tmp_path / "gpu.json").read_text())
    assert (found["passed"], list(found["results"])) == (1, ["good"])
    deadline = time.monotonic() + 10
    while psutil.pid_exists(int((tmp_path / "pids").read_text())) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not psutil.pid_exists(int((tmp_path / "pids").read_text()))


@pytest.mark.long
@pytest.mark.slow
def test_what_the_time_does_not_suffice_for_is_not_run_rather_than_failed(tmp_path: Path) -> None:
    (tmp_path / "planted.py").write_text(textwrap.dedent(PLANTED))
    only = ("--only", "hung,lonely", "--minutes", "0.02", "--side-by-side", "1")
    done = lane("--rehearse", "--checks", str(tmp_path / "planted.py"), *only, PIDS=str(tmp_path / "pids"))
    found = json.loads(done.stdout.splitlines()[-1])
    assert (found["failed"], found["not_run"]) == (0, 2), done.stdout


def test_a_goal_that_is_missed_on_a_card_fails_and_says_both_figures(modules: Any, tmp_path: Path) -> None:
    on_card = modules[0].Lane("cuda", tmp_path)
    on_card.goal("speed", 0.5, least=0.9)
    on_card.goal("cost", 3.0, most=5.0)
    assert on_card.missed == ["speed = 0.5, the goal is at least 0.9"]


@pytest.mark.long
@pytest.mark.slow
def test_without_a_card_or_a_rehearsal_it_fails_in_one_sentence() -> None:
    done = lane("--minutes", "1", CUDA_VISIBLE_DEVICES="")
    assert done.returncode == 2
    assert done.stderr == "torch sees no CUDA device here; `make gpu REHEARSE=1` plays the lane on the CPU.\n"
    unknown = lane("--rehearse", "--only", "devise")
    assert unknown.returncode == 2
    assert unknown.stderr.startswith("there is no check devise; the checks are: device, ")


@pytest.mark.long
def test_a_check_of_the_lane_is_rehearsed_on_the_cpu() -> None:
    done = lane("--rehearse", "--only", "seeding,tf32")
    found = json.loads(done.stdout.splitlines()[-1])
    assert (found["passed"], found["not_on_cpu"], found["device"]) == (1, 1, "cpu"), done.stdout


def test_the_page_lists_every_check_and_takes_each_card_once(modules: Any, tmp_path: Path) -> None:
    registry, record = modules
    text = record.PAGE.read_text(encoding="utf-8")
    assert record.rows() in text, "run `python -P benchmarks/gpu --table`"
    record.PAGE = tmp_path / "gpu.md"
    record.PAGE.write_text(text, encoding="utf-8")
    found: dict[str, Any] = {
        "card": "H100", "driver": "580", "torch": "2.11", "cuda": "13.0", "commit": "abc", "date": "2026-12-01",
        "seconds": 500.0, "checks": 2, "passed": 1, "failed": 1, "not_run": 0, "not_on_cpu": 0,
        "results": {
            "device": {"status": "passed", "seconds": 3.0, "row": "x", "figures": {"accuracy": 0.9}},
            "tf32": {"status": "failed", "seconds": 3.0, "row": "x", "said": "first\\nlast | line"},
        },
    }  # fmt: skip
    record.add(found)
    record.add({**found, "card": "H200"})
    record.add({**found, "results": {"device": found["results"]["device"]}})
    written = record.PAGE.read_text(encoding="utf-8")
    assert written.count("## H100, 2026-12-01, abc") == 1
    assert written.index("## H100") < written.index("## H200"), "the newest first"
    assert "| device | " + registry.CHECKS["device"].row + " | passed | accuracy 0.9 |" in written
    assert r"last \| line" in written
    assert written.startswith(text.partition(record.MARK)[0])
    assert "No card has been there" not in written
    record.refresh()
    assert record.PAGE.read_text(encoding="utf-8") == written
    with pytest.raises(SystemExit, match="of no card"):
        record.add({**found, "card": None})
