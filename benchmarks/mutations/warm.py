"""Process that has imported the libraries, and nothing of the product: each run of pytest is a fork of it.

A request is a line of JSON on stdin: {"arguments": of pytest, "output": file}. Its answers are two lines: the fork's
process id, and its exit status. What is forked must have worked in one thread only, so OMP_NUM_THREADS is 1.
"""

from __future__ import annotations

import importlib
import json
import os
import sys

LIBRARIES = (
    "torch", "numpy", "scipy.stats", "sklearn.datasets", "pydantic", "sqlalchemy.orm", "yaml",
    "safetensors.torch",
)  # fmt: skip
"""Those that most tests import; not polars, whose threads do not survive a fork, nor plugins of pytest, which imports
them itself (anyio, and so mcp)."""


def main() -> int:
    """Serve requests until stdin ends; return the exit status, in a fork that of pytest."""
    for name in LIBRARIES:
        importlib.import_module(name)
    for line in sys.stdin:
        asked = json.loads(line)
        fork = os.fork()
        if not fork:
            return _run(asked["arguments"], asked["output"])
        print(fork, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(fork, 0)[1]), flush=True)
    return 0


def _run(arguments: list[str], output: str) -> int:
    import pytest

    for descriptor, path, flags in ((0, os.devnull, os.O_RDONLY), (1, output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)):
        opened = os.open(path, flags)
        os.dup2(opened, descriptor)
        os.close(opened)
    os.dup2(1, 2)
    return int(pytest.main(arguments))


if __name__ == "__main__":
    sys.exit(main())
