"""`make bench-start`: seconds from launch to first step, cold and warm, with their parts.

A small network on digits, started by the launcher as a server starts it. Cold and warm starts alternate, so that both
meet the same machine. The last line is one JSON object: cold_seconds, warm_seconds (medians), the medians of their
parts, and the memory of the warm process (of its own, and with the libraries' pages that all processes share).
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))  # what the tests share is named from the root, as pytest has it
from tests.tools.launchers.warm_starts import launcher, warm_up
from tests.trainer.start_a_run import make_run

from trainwright.tools.launchers import Launch
from trainwright.tools.launchers.local import Local
from trainwright.trainer.run import RunDirectory, RunKey

SMALL: dict[str, Any] = {
    "model": {"use": "mlp", "args": {"hidden": [64]}},
    "data": {"use": "digits"},
    "training": {"epochs": 1},
    "logging": {"tensorboard": False},
}
PARTS = {"": "imports", "probing": "probes", "importing": "model and data", "validating data": "validation",
         "training": "first step"}  # fmt: skip
"""What is done in each stage that a worker records; before the first one it is spawned."""
POLL_SECONDS = 0.002


def timed(own: Local, run: RunDirectory, *, warm: bool) -> dict[str, float]:
    """Start the run, and return the seconds of each part and their sum.

    Raises:
        RuntimeError: it started the other way, or did not train.
    """
    began = last = time.perf_counter()
    launch = own.start(run, Launch(), RunKey.new())
    if (launch.parent is not None) is not warm:
        raise RuntimeError(f"not as ordered: {launch}")
    parts, part = dict.fromkeys(["spawn", *PARTS.values()], 0.0), "spawn"
    while True:
        status = run.last_status()
        now = time.perf_counter()
        named = PARTS.get(status.stage, part) if status.attempt else "spawn"
        is_trained = status.step > 0
        if named != part or is_trained:
            parts[part] += now - last
            part, last = named, now
        if is_trained:
            break
        if status.state.is_ended:
            raise RuntimeError(run.log.read_text())
        time.sleep(POLL_SECONDS)
    while not run.last_status().state.is_ended or run.is_locked():
        time.sleep(POLL_SECONDS)
    return {"seconds": now - began, **parts}


def memory_of(own: Local) -> dict[str, int]:
    """Return MiB of the warm process."""
    [process] = own.warm.processes()
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{process.pid}/status").read_text().splitlines())
    held = {name: int(fields[name].split()[0]) for name in ("RssAnon", "RssShmem", "VmRSS")}
    return {"own_mib": (held["RssAnon"] + held["RssShmem"]) // 1024, "resident_mib": held["VmRSS"] // 1024}


def main() -> None:
    """Start, print, sum up."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--repetitions", type=int, default=15)
    repetitions = parser.parse_args().repetitions
    found: dict[str, list[dict[str, float]]] = {"cold": [], "warm": []}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        without, own = launcher(folder / "none", most=0), launcher(folder / "slots")
        for number in range(repetitions):
            for how, starter in (("cold", without), ("warm", own)):
                run = make_run(folder / f"{how}-{number}", SMALL)
                if how == "warm":
                    warm_up(own, run)
                found[how].append(timed(starter, run, warm=how == "warm"))
                print(how, " ".join(f"{name} {seconds:.3f}" for name, seconds in found[how][-1].items()), flush=True)
        memory = memory_of(own)
        own.warm.close()
    medians = {how: {name: round(median(one[name] for one in all_of), 3) for name in all_of[0]}
               for how, all_of in found.items()}  # fmt: skip
    cold, warm = (medians[how].pop("seconds") for how in ("cold", "warm"))
    print(json.dumps({"cold_seconds": cold, "warm_seconds": warm, "parts": medians, "starts": repetitions, **memory}))


if __name__ == "__main__":
    main()
