"""`make gpu`: every path that touches a GPU as a named check, in ten minutes, wherever a card is at hand.

Each check runs in a process of its own under a limit of its own; a failing one never stops the next. A line is printed
as each ends, and one JSON object last. `--rehearse` plays the same checks on the CPU, where that has a meaning.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

import record
import rows  # noqa: F401 - registers the checks
from lane import CHECKS, ROOT, Lane
from playing import RESULT, Lanes, Result

from trainwright.trainer.supervision.sampling import driver_version

PROBE = """
import json, torch
name = torch.cuda.get_device_name(0) if torch.cuda.is_available() else None
print(json.dumps({"card": name, "torch": torch.__version__, "cuda": torch.version.cuda}))
"""
CORES_PER_CHECK = 4
STATES = ("passed", "failed", "not_run", "not_on_cpu")


def main() -> int:
    """Play the lane, or one check of it; return the exit status: 1 where a check failed."""
    asked = _asked()
    if asked.checks is not None:
        CHECKS.clear()
        runpy.run_path(asked.checks)
    if asked.one is not None:
        return _one(asked.one, Lane(asked.device, Path(asked.folder)))
    if asked.record is not None:
        record.add(json.loads(Path(asked.record).read_text()))
        return 0
    if asked.table:
        record.refresh()
        return 0
    machine = json.loads(subprocess.run([sys.executable, "-P", "-c", PROBE], capture_output=True, check=True).stdout)
    machine |= {"driver": driver_version()}
    if machine["card"] is None and not asked.rehearse:
        sys.stderr.write("torch sees no CUDA device here; `make gpu REHEARSE=1` plays the lane on the CPU.\n")
        return 2
    unknown = sorted(set(asked.only) - set(CHECKS))
    if unknown:
        sys.stderr.write(f"there is no check {', '.join(unknown)}; the checks are: {', '.join(CHECKS)}\n")
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the checks are ended, too
    found = _played(asked, machine)
    print(json.dumps({key: value for key, value in found.items() if key != "results"} | {"failures": _failures(found)}))
    if not (asked.rehearse or asked.only or asked.checks):
        try:
            record.add(found)
        except OSError as error:
            sys.stderr.write(
                f"docs/gpu.md could not be written ({error}); `make gpu RECORD=gpu.json` adds the result.\n"
            )
    return 1 if found["failed"] else 0


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rehearse", action="store_true", help="use the CPU as the device")
    parser.add_argument("--only", default=[], type=lambda names: [one for one in names.split(",") if one])
    parser.add_argument("--minutes", type=float, default=10.0, help="the lane's time")
    parser.add_argument("--side-by-side", type=int, default=max(1, min(4, (os.cpu_count() or 1) // CORES_PER_CHECK)))
    parser.add_argument("--out", help="folder for gpu.json, the whole result")
    parser.add_argument("--record", help="a gpu.json that was made elsewhere, to be added to docs/gpu.md")
    parser.add_argument("--checks", help="a Python file that registers other checks, in the place of the lane's")
    parser.add_argument("--table", action="store_true", help="write the table of the checks in docs/gpu.md anew")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--device", help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    return parser.parse_args()


def _played(asked: argparse.Namespace, machine: dict[str, Any]) -> dict[str, Any]:
    """Play the checks; return the whole result, which is written anew as each ends: an outer limit may end this."""
    chosen = [check for check in CHECKS.values() if not asked.only or check.name in asked.only]
    began = dt.datetime.now(tz=dt.UTC)
    device = "cpu" if asked.rehearse else "cuda"
    about = {"device": device, **machine, "commit": _commit(), "date": began.date().isoformat()}
    done: dict[str, Result] = {}

    def tell(result: Result) -> None:
        print(result.line, flush=True)
        done[result.check.name] = result
        if asked.out is not None:
            Path(asked.out).mkdir(parents=True, exist_ok=True)
            (Path(asked.out) / "gpu.json").write_text(json.dumps(as_found(), indent=1) + "\n")

    def as_found() -> dict[str, Any]:
        results = {check.name: done[check.name] for check in chosen if check.name in done}
        states = {state: sum(result.status == state for result in results.values()) for state in STATES}
        seconds = round((dt.datetime.now(tz=dt.UTC) - began).total_seconds(), 1)
        shown = {name: result.as_dict() for name, result in results.items()}
        return {**about, "seconds": seconds, "checks": len(chosen), **states, "results": shown}

    with tempfile.TemporaryDirectory(prefix="lane-", ignore_cleanup_errors=True) as folder:
        others = ["--checks", os.path.abspath(asked.checks)] if asked.checks is not None else []  # noqa: PTH100
        Lanes(device, Path(folder), asked.minutes, asked.side_by_side, others).play(chosen, tell)
    return as_found()


def _failures(found: dict[str, Any]) -> dict[str, str]:
    return {name: one["said"][-600:] for name, one in found["results"].items() if one["status"] == "failed"}


def _commit() -> str | None:
    command = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() or None


def _one(name: str, lane: Lane) -> int:
    """Run one check in this process, and write its figures."""
    failed = False
    try:
        CHECKS[name].work(lane)
    except BaseException:  # noqa: BLE001 - whatever it is, the figures so far are written
        traceback.print_exc()
        failed = True
    result = {"figures": lane.figures, "missed": [] if failed else lane.missed}
    (lane.folder / RESULT).write_text(json.dumps(result))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
