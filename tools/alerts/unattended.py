"""Entry of the following process: `python -m trainwright.tools.alerts.unattended WORKSPACE`.

It follows until no run is alive and nothing is owed to the owner.
"""

from __future__ import annotations

import logging
import signal
import sys
import threading
from pathlib import Path

from trainwright.tools.alerts.follower import Follower
from trainwright.tools.workspace import Workspace


def main(arguments: list[str]) -> int:
    """Follow the workspace's runs; SIGTERM ends it in order. Returns the exit status."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    workspace = Workspace.open(Path(arguments[0]))
    try:
        Follower(workspace, keeps=True).follow(stop)
    finally:
        workspace.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
