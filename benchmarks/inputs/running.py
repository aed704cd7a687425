"""All inputs, and playing some of them in a process: apart from `__main__`, which a pool's processes cannot import."""

from __future__ import annotations

import importlib
import logging
import sys
import tempfile
import time
from pathlib import Path

from at_planning import Seen, play
from case import Case
from verdicts import UNCLEAR, verdict

KINDS = ("targets", "numbers", "dates", "labels", "files", "pictures", "code", "metrics")

Found = tuple[str, str, str, str, float]
"""Name, source, verdict, why, seconds."""


def cases() -> list[Case]:
    """Return all inputs."""
    found = [case for kind in KINDS for case in importlib.import_module(f"of_{kind}").CASES]
    names = [case.name for case in found]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise ValueError(f"two inputs are named {twice}")
    return found


def play_some(names: list[str], keep: str) -> list[Found]:
    """Play some inputs on a server of their own."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # tests/worlds/warm.py forks the workers
    import anyio
    from mcp import Client
    from tests.worlds.warm import warm

    from trainwright.server.app import build_server

    logging.disable(logging.CRITICAL)
    chosen = {case.name: case for case in cases()}
    found: list[Found] = []

    async def go(folder: Path) -> None:
        async with Client(build_server(folder / "workspace")) as client:
            for name in names:
                began = time.monotonic()
                try:
                    seen = await play(client, chosen[name], folder / "of" / name, folder / "workspace")
                    outcome = verdict(chosen[name], seen)
                except Exception as error:  # noqa: BLE001 - of the input's own, and to be named
                    seen, outcome = Seen(), (UNCLEAR, f"not judged: {type(error).__name__}: {error}"[:300])
                found.append((name, chosen[name].source, *outcome, time.monotonic() - began))
                if keep:
                    (Path(keep) / f"{name}.txt").write_text("\n\n".join([str(outcome), *seen.texts]))

    with tempfile.TemporaryDirectory(prefix="inputs-", ignore_cleanup_errors=True) as folder, warm():
        anyio.run(go, Path(folder).resolve())
    return found
