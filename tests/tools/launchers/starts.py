"""Starts of a worker: `python starts.py HOW TIMES`; by the launcher, off a warm process, or with the key in a pipe.

Standard input has the folder of a run that trains for hours, and the key's seed; each worker is killed once it has
trained a step.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from trainwright.tools.launchers import Launch, warm
from trainwright.tools.launchers.environment import worker_environment
from trainwright.tools.launchers.local import Local, kind_of
from trainwright.tools.launchers.warm import WarmLimits
from trainwright.trainer.run import RunDirectory, RunKey


def main(folder: Path, seed: str, how: str, times: int) -> None:
    """Start as often as that. Raises RuntimeError: a worker that does not train, or that is not warm."""
    own = Local()
    if how == "warm":
        warm.COLD = ()  # the user of these tests finds the libraries by PYTHONPATH
        own.warm.limits = WarmLimits(Path(f"{folder}-warm"), 1, 600.0)  # the mark of the run is in its command line too
        specification = RunDirectory(folder).specification()
        kind = kind_of(specification, worker_environment(specification.config, specification.connections))
        own.warm.prepare(kind, lambda: True)
        begun = time.monotonic()
        while not own.warm.is_ready(kind):
            time.sleep(0.02)
            if time.monotonic() - begun > 100:
                raise RuntimeError("no warm process became ready")
    for attempt in range(1, times + 1):
        if how == "pipe":
            waiting = [sys.executable, "-c", "import time, sys; time.sleep(1.5)", str(folder)]
            with subprocess.Popen(waiting, stdin=subprocess.PIPE) as child:
                assert child.stdin is not None
                child.stdin.write(bytes.fromhex(seed))
                child.stdin.flush()
            continue
        run = RunDirectory(folder)
        launch = own.start(run, Launch(attempt=attempt), RunKey(bytes.fromhex(seed)))
        assert launch.process is not None, launch.error
        if (launch.parent is not None) is not (how == "warm"):
            raise RuntimeError(f"{how}: {launch}")
        deadline = time.monotonic() + 120
        while run.last_status().attempt < attempt or run.last_status().step == 0:
            if time.monotonic() > deadline or not launch.process.is_alive():
                raise RuntimeError(run.log.read_text())
            time.sleep(0.02)
        launch.process.kill_tree()
        while run.is_locked():
            time.sleep(0.01)


if __name__ == "__main__":
    place, secret = sys.stdin.read().split("\n")
    main(Path(place), secret, sys.argv[1], int(sys.argv[2]))
