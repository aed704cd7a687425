"""Trainwright: an MCP server that trains real models under gates it enforces from its own measurements."""

import os
import sys

__version__ = "0.1.0"
PLATFORMS = (
    "Trainwright is supported and tested on Linux. On macOS it should work, on the CPU: training on Apple's GPU (mps) "
    "is not supported. On Windows it runs in WSL 2."
)

if sys.platform == "win32":
    _sentence = f"{PLATFORMS} Run `wsl --install` in a terminal, then install Trainwright in that Linux."
    if os.path.basename(sys.argv[0]).partition(".")[0] == "trainwright":  # noqa: PTH119 - nothing heavy is imported here
        raise SystemExit(_sentence)  # the command: a traceback would say nothing more
    raise ImportError(_sentence)

if sys.version_info < (3, 11):  # noqa: UP036 - the server needs 3.11; a worker runs in the project's environment
    from trainwright.trainer.base import python310

    python310.add()
