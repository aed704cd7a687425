"""A worker that is killed at a place: `python -P killed.py PLACE NUMBER RUN_DIR`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = str(Path(__file__).resolve().parents[2])


def places() -> dict[str, Callable[..., Any]]:
    """Return the functions at whose so-manieth call a process is killed: in mid-epoch, and at an epoch's end."""
    from safetensors.torch import save_file

    from trainwright.trainer.checkpoints.index import write_index
    from trainwright.trainer.engine.evaluation import evaluate_split
    from trainwright.trainer.engine.observers.recorder import Recorder

    return {"step": Recorder.step, "validating": evaluate_split, "saving": save_file, "tagging": write_index}


def main(place: str, number: str, run: str) -> int:
    """Arrange the kill and work on the run."""
    from trainwright.trainer import worker
    from trainwright.trainer.jobs.first_imports import import_first

    import_first(())
    sys.path.insert(0, ROOT)  # for this import alone: what a worker can import is part of what it records
    from tests.trainer.killing import kill_at_call

    sys.path.remove(ROOT)
    kill_at_call(places()[place], int(number))()
    return worker.main([run])


if __name__ == "__main__":
    from trainwright.trainer.user_code.guard import exit_now

    exit_now(main(*sys.argv[1:]))
